"""The kinds of groups on one broker. Many brokers never meet a share group or a streams group: those kinds are imported
with the first request or record that belongs to none of the others.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...coordinator.groups.classic.kind import CLASSIC
from ...coordinator.groups.consumer.kind import CONSUMER
from ...coordinator.groups.kind import Kind
from ...coordinator.groups.kinds import Kinds
from ...coordinator.groups.shard_state import ShardState


def broker_kinds() -> Kinds:
    return Kinds((CLASSIC, CONSUMER), _all)


def _all() -> Iterable[Kind[ShardState]]:
    from ...coordinator.groups.all_kinds import ALL_KINDS

    return ALL_KINDS
