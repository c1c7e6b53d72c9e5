"""The data path of a broker, as one subsystem: what Produce and Fetch pass through between their handlers and partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..partitions.parked_requests import FetchWaits
from ..runtime.subsystem import Lazy, Subsystem
from .fetch_path import FetchAuthorization, FetchPath, ReplicaSelector
from .fetch_sessions import FetchSessions
from .produce import ProducePath

if TYPE_CHECKING:
    from ..access.subsystem import AccessSubsystem
    from ..config.broker_config import BrokerConfig
    from ..coordinators.subsystem import CoordinatorsSubsystem
    from ..network.listener import ListenerSet
    from ..partitions.parked_requests import Deadlines, Wakeups
    from ..partitions.partitions import Partitions
    from ..replicas.subsystem import ReplicasSubsystem
    from ..runtime.clock import Clock
    from ..runtime.sliced_work import Turns
    from ..runtime.subsystem import MetadataCache
    from ..runtime.thread_pools import ThreadPools
    from .fetch_sessions import PartitionKey
    from .transactional_produce import TransactionalProduce


class DataPathSubsystem(Subsystem):
    """The paths of Produce and Fetch, and the sessions of Fetch."""

    name = "data path"

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        metadata: MetadataCache,
        pools: ThreadPools,
        turns: Turns,
        deadlines: Deadlines,
        wakeups: Wakeups,
        access: AccessSubsystem,
        listeners: ListenerSet,
        partitions: Partitions,
        replicas: ReplicasSubsystem,
        coordinators: CoordinatorsSubsystem,
    ) -> None:
        self._config = config
        self._clock = clock
        self._partitions = partitions
        self._coordinators = coordinators
        #: Deadlines of waiting replies.
        self.deadlines = deadlines
        self.sessions = FetchSessions(
            config.get("max.incremental.fetch.session.cache.slots"),
            config.get("odradek.fetch.session.cache.partitions"),
            turns.free,
            self._is_hosted,
        )
        listeners.on_connection_lost.append(self.sessions.connection_lost)
        self.fetch = FetchPath(
            config.get("fetch.max.bytes"),
            clock,
            FetchWaits(deadlines, wakeups, pools.disk),
            partitions,
            replicas.scrubber,
            self.sessions,
            replicas.leaders,
            ReplicaSelector(config, config.node_id, metadata),
            replicas.replication,
            _fetch_authorization(access, metadata),
        )
        self.produce = ProducePath(clock, deadlines, partitions, replicas.leaders)
        self.transactional = Lazy(self._make_transactional)

    def _is_hosted(self, key: PartitionKey, uses_topic_ids: bool) -> bool:
        partitions = self._partitions
        return (partitions.get_by_id if uses_topic_ids else partitions.get)(key) is not None

    def _make_transactional(self) -> TransactionalProduce:
        from .transactional_produce import TransactionalProduce

        verification = self._coordinators.verification()
        return TransactionalProduce(self._config, self._clock, self._partitions, verification)


def _fetch_authorization(access: AccessSubsystem, metadata: MetadataCache) -> FetchAuthorization | None:
    return None if access.authorizer is None else FetchAuthorization(access.authorizer, metadata)
