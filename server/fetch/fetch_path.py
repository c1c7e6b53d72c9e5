"""The parts of a broker that its fetches use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from .replica_selector import ReplicaSelector

if TYPE_CHECKING:
    from ..controller.leaders import Leaders
    from ..partitions.parked_fetch import FetchWaits
    from ..partitions.partitions import Partitions
    from ..replicas.replication import Replication
    from ..replicas.scrubber import Scrubber
    from ..runtime.lazy import Lazy
    from ..runtime.node import Node
    from .fetch_authorization import FetchAuthorization
    from .fetch_memories import FetchMemories
    from .fetch_sessions import FetchSessions


class WorkOnReplicas(Protocol):
    """The parts of `ReplicasSubsystem` that fetches use. `replication` has the quota of followers."""

    scrubber: Scrubber
    leaders: Leaders
    replication: Lazy[Replication]


class FetchPath:
    """The parts that read partitions and answer.

    `authorization`: None without an authorizer. `memories`: what connections remember of large fetches; None where they do
    not.
    """

    __slots__ = (
        "authorization", "clock", "leaders", "max_bytes", "memories", "partitions", "replication", "scrubber", "selector",
        "sessions", "waits",
    )  # fmt: skip

    def __init__(
        self,
        node: Node,
        waits: FetchWaits,
        partitions: Partitions,
        replicas: WorkOnReplicas,
        sessions: FetchSessions,
        authorization: FetchAuthorization | None = None,
        memories: Lazy[FetchMemories] | None = None,
    ) -> None:
        self.max_bytes: int = node.config.get("fetch.max.bytes")
        self.clock = node.clock
        self.selector = ReplicaSelector(node.config, node.identity.node_id, node.metadata)
        self.waits = waits
        self.partitions = partitions
        self.scrubber = replicas.scrubber
        self.leaders = replicas.leaders
        self.replication = replicas.replication
        self.sessions = sessions
        self.authorization = authorization
        self.memories = memories
