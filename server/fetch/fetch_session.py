"""A fetch session (KIP-227), and its partitions that have nothing new. All sessions: fetch_sessions.py."""

from __future__ import annotations

from collections.abc import Callable, Set
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from ...protocol.session_epochs import INITIAL_EPOCH
from ..runtime.parted_set import equals_in_steps
from .fetched_partition import FetchedPartition, PartitionKey, Topic, asked_partitions

if TYPE_CHECKING:
    from ...protocol.messages.fetch import FetchRequest
    from ..network.call import ClientConnection
    from ..partitions.hosted_partition import HostedPartition
    from ..runtime.sliced_work import Steps
    from .topic_counts import TopicCounts

INVALID_SESSION_ID = 0

#: Whether this broker hosts a partition; called with its key, and whether the key has the topic's id.
IsHosted = Callable[[PartitionKey, bool], bool]

#: A consumer's session of more partitions sets idle ones aside. To inspect one takes half a microsecond, to set one aside
#: and make it active again two.
INSPECTED_PARTITIONS = 100

#: Idle partitions of which those that are denied now are made active in one step.
_ACTIVATED_AT_ONCE = 100


class SessionFetch(Protocol):
    """A fetch that waits for changes of partitions in its session."""

    def on_bytes_available(self, size: int) -> None:
        """Adds written bytes of a partition to those that the fetch waits for."""

    def on_state_changed(self) -> None:
        """Has the fetch inspect its partitions again."""

    def watch_too(self, hosted: HostedPartition) -> None:
        """Waits for one more partition."""


class IdlePartition(Protocol):
    """Waits for a change of a partition that its session does not look at meanwhile."""

    def end(self) -> None:
        """Waits no longer."""


class IdlePartitions(dict[PartitionKey, IdlePartition]):
    """Idle partitions of a consumer's session. Those that `popitem` takes out wait no longer."""

    __slots__ = ()

    def popitem(self) -> tuple[PartitionKey, IdlePartition]:
        key, idle = super().popitem()
        idle.end()
        return key, idle


class FetchSession:
    __slots__ = (
        "absent",
        "activations",
        "active_partitions",
        "connection",
        "counted",
        "created_ms",
        "decided_version",
        "denied",
        "epoch",
        "id",
        "idle",
        "is_follower",
        "last_used_ms",
        "parked",
        "partitions",
        "replica_epoch",
        "sets_idle_aside",
        "topics",
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        partitions: dict[PartitionKey, FetchedPartition],
        now_ms: int,
        *,
        uses_topic_ids: bool,
        is_follower: bool,
    ) -> None:
        self.id = session_id
        self.partitions = partitions
        #: How many of them were not here when they were named.
        self.absent = 0
        #: As many as the sum over all sessions has for this one.
        self.counted = len(partitions)
        self.uses_topic_ids = uses_topic_ids
        self.is_follower = is_follower
        self.created_ms = self.last_used_ms = now_ms
        #: Whether only active partitions are inspected; else all are.
        self.sets_idle_aside = is_follower or len(partitions) > INSPECTED_PARTITIONS
        self.active_partitions: dict[PartitionKey, FetchedPartition] = dict(partitions) if self.sets_idle_aside else {}
        #: How often an idle partition has become active.
        self.activations = 0
        #: In a consumer's session: the other partitions, and the topics that its last request was denied.
        self.idle = IdlePartitions()
        self.denied: Set[Topic] = frozenset()
        #: The version of the rules by which that was decided.
        self.decided_version = -1
        #: The number of partitions of each topic; None until it is counted again.
        self.topics: TopicCounts | None = None
        #: The fetch that waits; in a follower's session, the epoch of the broker that asks.
        self.parked: SessionFetch | None = None
        self.replica_epoch = -1
        #: The connection that used it last.
        self.connection: ClientConnection | None = None
        #: The epoch that the next request must have.
        self.epoch = INITIAL_EPOCH + 1

    def update(self, request: FetchRequest, is_hosted: IsHosted) -> Steps[None]:
        partitions = self.partitions
        for key, asked in asked_partitions(request, self.uses_topic_ids):
            yield
            known = partitions.get(key)
            if known is None:
                known = partitions[key] = FetchedPartition(key, asked)
                self.absent += not is_hosted(key, self.uses_topic_ids)
                self.topics = None
            else:
                known.ask(asked)
            if self.sets_idle_aside:
                self.activate(known)
        for topic in request.forgotten_topics_data:
            name = topic.topic_id if self.uses_topic_ids else topic.topic
            for index in topic.partitions:
                yield
                forgotten = partitions.pop((name, index), None)
                if forgotten is not None:
                    self.topics = None
                    self.activate(forgotten)
                    self.active_partitions.pop((name, index), None)

    def activate(self, partition: FetchedPartition) -> None:
        """Has the next request inspect the partition."""
        idle = self.idle.pop(partition.key, None)
        if idle is not None:
            idle.end()
        self.active_partitions[partition.key] = partition

    def deny_in_steps(self, denied: Set[Topic]) -> Steps[None]:
        """Takes the topics that the client may not read now; their partitions are inspected, since they have errors."""
        if (yield from equals_in_steps(denied, self.denied)):
            return
        self.denied = denied
        idle = iter(list(self.idle))
        while some := list(islice(idle, _ACTIVATED_AT_ONCE)):
            for key in some:
                if key[0] in denied and key in self.idle:
                    self.activate(self.partitions[key])
            yield

    def inspect_only_active(self) -> None:
        """From now on sets idle partitions aside, if there are many."""
        if not self.sets_idle_aside and len(self.partitions) > INSPECTED_PARTITIONS:
            self.sets_idle_aside = True
            self.active_partitions = dict(self.partitions)

    def inspect_all(self) -> IdlePartitions:
        """From now on sets none aside. Returns those that were: they still wait."""
        idle, self.idle = self.idle, IdlePartitions()
        if not self.is_follower:
            self.sets_idle_aside = False
            self.active_partitions = {}
            if self.parked is not None:
                self.parked.on_state_changed()
        return idle

    def gave_data(self, partition: FetchedPartition) -> None:
        """Moves a partition behind all others, because it was given data."""
        for kept in (self.partitions, self.active_partitions):
            if kept.get(partition.key) is partition:
                del kept[partition.key]
                kept[partition.key] = partition

    def weight(self) -> tuple[bool, int, int]:
        """The order of eviction: a session may be evicted for one of greater weight."""
        return self.is_follower, len(self.partitions), self.id


class IdleWatcher:
    """Waits for a change of a partition on behalf of a session, and hands it to the session's fetch that waits."""

    __slots__ = ("_hosted", "_partition", "_session")

    def __init__(self, session: FetchSession, partition: FetchedPartition, hosted: HostedPartition) -> None:
        self._session = session
        self._partition = partition
        self._hosted = hosted

    def on_bytes_available(self, size: int) -> None:
        self._activate()
        if self._session.parked is not None:
            self._session.parked.on_bytes_available(size)

    def on_state_changed(self) -> None:
        self._activate()
        if self._session.parked is not None:
            self._session.parked.on_state_changed()

    def _activate(self) -> None:
        raise NotImplementedError


class IdleConsumer(IdleWatcher):
    """Waits in `hosted.watchers` on behalf of a consumer's session, which does not look at `partition` meanwhile.

    The consumer has all records below the high watermark, and the session's last response has the current offsets. What
    changes this wakes the watchers: a commitment, another leader or epoch, a new log start offset, a failed directory, and
    the end of the replica.
    """

    __slots__ = ()

    def deactivate(self) -> None:
        session, key = self._session, self._partition.key
        self._hosted.watchers[self] = None
        session.idle[key] = self
        del session.active_partitions[key]

    def end(self) -> None:
        self._hosted.watchers.pop(self, None)

    def _activate(self) -> None:
        session = self._session
        self.end()
        if session.idle.get(self._partition.key) is self:  # else the session has ended
            session.activate(self._partition)
            session.activations += 1
            if session.parked is not None:
                session.parked.watch_too(self._hosted)
