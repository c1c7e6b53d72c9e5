"""Fetch of a broker, as one subsystem: what passes between the handler of Fetch and the partitions, and the sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..partitions.parked_fetch import FetchWaits
from ..runtime.lazy import Lazy
from ..runtime.subsystem import Subsystem
from .fetch_authorization import fetch_authorization
from .fetch_path import FetchPath
from .fetch_sessions import FetchSessions

if TYPE_CHECKING:
    from ..access.subsystem import AccessSubsystem
    from ..network.subsystem import NetworkSubsystem
    from ..partitions.parked_requests import Deadlines, Wakeups
    from ..partitions.subsystem import PartitionsSubsystem
    from ..replicas.subsystem import ReplicasSubsystem
    from ..runtime.node import Node
    from .fetch_memories import FetchMemories
    from .fetched_partition import PartitionKey


class FetchSubsystem(Subsystem):
    """The path of Fetch, made once: a request looks nothing up."""

    name = "fetch"

    def __init__(
        self,
        node: Node,
        deadlines: Deadlines,
        wakeups: Wakeups,
        access: AccessSubsystem,
        network: NetworkSubsystem,
        partitions: PartitionsSubsystem,
        replicas: ReplicasSubsystem,
    ) -> None:
        config = node.config
        self._config = config
        self._turns = node.turns
        self._listeners = network.listeners
        self._partitions = partitions.hosted
        self._deadlines = deadlines
        self.sessions = FetchSessions(
            config.get("max.incremental.fetch.session.cache.slots"),
            config.get("odradek.fetch.session.cache.partitions"),
            node.turns.free,
            self._is_hosted,
        )
        network.listeners.on_connection_lost.append(self.sessions.connection_lost)
        self.path = FetchPath(
            node,
            FetchWaits(deadlines, wakeups, node.pools.disk),
            partitions.hosted,
            replicas,
            self.sessions,
            fetch_authorization(access, node.metadata),
            Lazy(self._make_memories),
        )

    def _is_hosted(self, key: PartitionKey, uses_topic_ids: bool) -> bool:
        partitions = self._partitions
        return (partitions.get_by_id if uses_topic_ids else partitions.get)(key) is not None

    def _make_memories(self) -> FetchMemories:
        from .fetch_memories import FetchMemories

        limit = self._config.get("odradek.fetch.session.cache.partitions")
        made = FetchMemories(limit, self._deadlines, self._turns.free)
        self._listeners.on_connection_lost.append(made.connection_lost)
        return made
