"""Produce of a broker, as one subsystem: what passes between the handler of Produce and the partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import Lazy
from ..runtime.subsystem import Subsystem
from .internal_topics import CLIENT_IDS as METADATA_CLIENT_IDS
from .produce_path import ProducePath

if TYPE_CHECKING:
    from ..coordinators.subsystem import CoordinatorsSubsystem
    from ..partitions.parked_requests import Deadlines
    from ..partitions.subsystem import PartitionsSubsystem
    from ..replicas.subsystem import ReplicasSubsystem
    from ..runtime.node import Node
    from .transactional_produce import TransactionalProduce


class ProduceSubsystem(Subsystem):
    """The path of Produce, made once: a request looks nothing up."""

    name = "produce"

    def __init__(
        self,
        node: Node,
        deadlines: Deadlines,
        partitions: PartitionsSubsystem,
        replicas: ReplicasSubsystem,
        coordinators: CoordinatorsSubsystem,
    ) -> None:
        self._node = node
        self._partitions = partitions.hosted
        self._coordinators = coordinators
        #: Deadlines of waiting replies.
        self.deadlines = deadlines
        config = node.config
        self.path = ProducePath(
            node.clock, deadlines, partitions.hosted, replicas.leaders, lambda: config.get(METADATA_CLIENT_IDS)
        )
        self.transactional = Lazy(self._make_transactional)

    def _make_transactional(self) -> TransactionalProduce:
        from .transactional_produce import TransactionalProduce

        verification = self._coordinators.verification()
        return TransactionalProduce(self._node.config, self._node.clock, self._partitions, verification)
