"""Makes the parts that requests for records pass through: Produce and Fetch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..fetch.fetch_path import FetchPath, ReplicaSelector
from ..partitions.parked_fetch import FetchWaits
from ..produce.produce import ProducePath

if TYPE_CHECKING:
    from ..fetch.fetch_path import FetchAuthorization
    from ..node import Node
    from ..produce.transactional_produce import TransactionalProduce


def fetch_path(node: Node) -> FetchPath:
    return FetchPath(
        node.config.get("fetch.max.bytes"),
        node.clock,
        FetchWaits(node.deadlines, node.wakeups, node.pools.disk),
        node.partitions,
        node.scrubber,
        node.fetch_sessions,
        node.leaders,
        ReplicaSelector(node.config, node.node_id, node.metadata),
        node.replication,
        _fetch_authorization(node),
    )


def _fetch_authorization(node: Node) -> FetchAuthorization | None:
    if node.access.authorizer is None:
        return None
    from ..fetch.fetch_path import FetchAuthorization

    return FetchAuthorization(node.access.authorizer, node.metadata)


def produce_path(node: Node) -> ProducePath:
    return ProducePath(node.clock, node.deadlines, node.partitions, node.leaders)


def transactional_produce(node: Node) -> TransactionalProduce:
    from ..produce.transactional_produce import TransactionalProduce

    return TransactionalProduce(node.config, node.clock, node.partitions, node.coordinators.verification())
