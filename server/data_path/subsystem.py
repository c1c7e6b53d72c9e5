"""The data path of a broker, as one subsystem: what Produce and Fetch pass through between their handlers and partitions.

Its parts are made once: a fetch looks nothing up.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Any

from ...metadata.acls import Operation, ResourceType
from ...replication.partition import candidates, nearest
from ..controller.cluster_view import ClusterView
from ..partitions.parked_requests import FetchWaits
from ..runtime.subsystem import Lazy, Subsystem
from .fetch_sessions import FetchSessions
from .produce import ProducePath

if TYPE_CHECKING:
    from ..access.authorization.authorization import Authorization
    from ..access.subsystem import AccessSubsystem
    from ..config.broker_config import BrokerConfig
    from ..controller.cluster_view import Leaders
    from ..coordinators.subsystem import CoordinatorsSubsystem
    from ..network.call import Call
    from ..network.listener import ListenerSet
    from ..partitions.hosted_partition import HostedPartition
    from ..partitions.parked_requests import Deadlines, Wakeups
    from ..partitions.partitions import Partitions
    from ..replicas.replication import Replication
    from ..replicas.scrubber import Scrubber
    from ..replicas.subsystem import ReplicasSubsystem
    from ..runtime.clock import Clock
    from ..runtime.sliced_work import Turns
    from ..runtime.subsystem import MetadataCache
    from ..runtime.thread_pools import ThreadPools
    from .fetch_memories import FetchMemories
    from .fetch_sessions import FetchContext, PartitionKey
    from .transactional_produce import TransactionalProduce


# The topics of a Fetch that its client may not read.


#: For topics by name or by id.
NONE_DENIED: Set[Any] = frozenset()


class _AllTopics(Set[Any]):
    """All topics: a follower without CLUSTER_ACTION may read none."""

    def __contains__(self, topic: object) -> bool:
        return True

    def __iter__(self) -> Any:
        raise NotImplementedError("there is no list of all topics")

    def __len__(self) -> int:
        return 1


_ALL_DENIED = _AllTopics()


class FetchAuthorization:
    def __init__(self, authorizer: Authorization, metadata: MetadataCache) -> None:
        self._authorizer = authorizer
        self._metadata = metadata

    def denied(self, call: Call, context: FetchContext, *, is_follower: bool) -> Set[Any]:
        """Returns the names or ids of the topics that the client may not read. Unknown ids are not among them."""
        session = self._authorizer.session(call)
        if is_follower:
            return NONE_DENIED if session.allows_on_cluster(Operation.CLUSTER_ACTION) else _ALL_DENIED
        denied: set[Any] = set()
        for topic, count in context.topics().items():
            if isinstance(topic, bytes):
                found = self._metadata.image.topic_by_id(topic)
                if found is None:
                    continue
                name = found.name
            else:
                name = topic
            if not session.allows(Operation.READ, ResourceType.TOPIC, name, count=count):
                denied.add(topic)
        return denied


# Chooses the replica that a consumer reads from (KIP-392).


#: The value of `replica.selector.class` that has consumers read from replicas in their rack. Kafka has no other one.
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class ReplicaSelector:
    """Finds replicas in the rack of a consumer, if the broker is configured to."""

    def __init__(self, config: BrokerConfig, node_id: int, metadata: MetadataCache) -> None:
        #: Whether responses name a replica in the consumer's rack; else consumers read from leaders.
        self.is_rack_aware: bool = config.get("replica.selector.class") == RACK_AWARE_SELECTOR
        self._metadata = metadata
        self._node_id = node_id

    def nearer_replica(self, rack: str, listener: str, hosted: HostedPartition, fetch_offset: int) -> int:
        """Returns the replica in the consumer's rack that it may read from; NO_REPLICA (-1) when there is none, or it is the
        leader.
        """
        racks = {broker.id: broker.rack for broker, _ in ClusterView(self._metadata.image, listener).alive_brokers()}
        found = candidates(hosted.role, fetch_offset)
        return nearest(found, rack, racks.get(self._node_id), racks)


class FetchPath:
    """The parts that read partitions and answer.

    `max_bytes`: fetch.max.bytes. `replication` has the quota of followers. `authorization`: None without an authorizer.
    `memories`: what connections remember of large fetches; None where they do not.
    """

    __slots__ = (
        "authorization", "clock", "leaders", "max_bytes", "memories", "partitions", "replication", "scrubber", "selector",
        "sessions", "waits",
    )  # fmt: skip

    def __init__(
        self,
        max_bytes: int,
        clock: Clock,
        waits: FetchWaits,
        partitions: Partitions,
        scrubber: Scrubber,
        sessions: FetchSessions,
        leaders: Leaders,
        selector: ReplicaSelector,
        replication: Lazy[Replication],
        authorization: FetchAuthorization | None = None,
        memories: Lazy[FetchMemories] | None = None,
    ) -> None:
        self.max_bytes = max_bytes
        self.clock = clock
        self.waits = waits
        self.partitions = partitions
        self.scrubber = scrubber
        self.sessions = sessions
        self.leaders = leaders
        self.selector = selector
        self.replication = replication
        self.authorization = authorization
        self.memories = memories


# The subsystem.


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
        self._turns = turns
        self._listeners = listeners
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
            Lazy(self._make_memories),
        )
        self.produce = ProducePath(clock, deadlines, partitions, replicas.leaders)
        self.transactional = Lazy(self._make_transactional)

    def _is_hosted(self, key: PartitionKey, uses_topic_ids: bool) -> bool:
        partitions = self._partitions
        return (partitions.get_by_id if uses_topic_ids else partitions.get)(key) is not None

    def _make_memories(self) -> FetchMemories:
        from .fetch_memories import FetchMemories

        limit = self._config.get("odradek.fetch.session.cache.partitions")
        made = FetchMemories(limit, self.deadlines, self._turns.free)
        self._listeners.on_connection_lost.append(made.connection_lost)
        return made

    def _make_transactional(self) -> TransactionalProduce:
        from .transactional_produce import TransactionalProduce

        verification = self._coordinators.verification()
        return TransactionalProduce(self._config, self._clock, self._partitions, verification)


def _fetch_authorization(access: AccessSubsystem, metadata: MetadataCache) -> FetchAuthorization | None:
    return None if access.authorizer is None else FetchAuthorization(access.authorizer, metadata)
