"""Makes the coordinators of groups, transactions and the state of share groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..coordinators.coordinator_driver import GroupDriver
from ..coordinators.streams_topics import StreamsTopics
from ..coordinators.transaction_driver import TransactionDriver

if TYPE_CHECKING:
    from ..coordinators.persister import Persister
    from ..coordinators.share_state_driver import ShareStateDriver
    from ..node import Node


def streams_topics(node: Node) -> StreamsTopics:
    return StreamsTopics(node)


def groups(node: Node) -> GroupDriver:
    return GroupDriver(node)


def transactions(node: Node) -> TransactionDriver:
    return TransactionDriver(node)


def persister(node: Node) -> Persister:
    from ..coordinators.persister import Persister

    return Persister(node)


def share_states(node: Node) -> ShareStateDriver:
    from ..coordinators.share_state_driver import ShareStateDriver

    return ShareStateDriver(node)
