"""A fetch session (KIP-227), its partitions, and the partitions of one request. All sessions: `FetchSessions`."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Set
from typing import TYPE_CHECKING, Any, Protocol

from ...protocol.errors import ErrorCode
from ..runtime.memory import release_after
from ..runtime.sliced_work import FREED_AT_ONCE, Steps, run_to_completion

if TYPE_CHECKING:
    from ...protocol.messages.fetch import FetchPartition, FetchRequest
    from ..network.call import ClientConnection
    from ..partitions.hosted_partition import HostedPartition


INVALID_SESSION_ID = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
#: Partitions that a session may name though they are not here, even where it names fewer that are: topics that were deleted,
#: or that this broker does not know yet.
ABSENT_PARTITIONS = 10

#: The topic's name or its id.
Topic = str | bytes
#: The topic, and the partition's index.
PartitionKey = tuple[Any, int]
#: Whether this broker hosts a partition; called with its key, and whether the key has the topic's id.
IsHosted = Callable[[PartitionKey, bool], bool]


class FetchedPartition:
    """A partition of a fetch: the client's request, and the offsets that its last response had."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "key",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "sent_high_watermark",
        "sent_log_start_offset",
    )

    def __init__(self, key: PartitionKey, asked: FetchPartition) -> None:
        self.key = key
        #: No response was sent yet: the first one has all fields.
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1
        self.fetch_offset = asked.fetch_offset  # what `ask` sets: a call less for each partition
        self.max_bytes = asked.partition_max_bytes
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.log_start_offset = asked.log_start_offset

    def ask(self, asked: FetchPartition) -> None:
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.log_start_offset = asked.log_start_offset


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
        #: The number of partitions of each topic; None until it is counted again.
        self.topics: dict[Topic, int] | None = None
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

    def deny(self, denied: Set[Topic]) -> None:
        """Takes the topics that the client may not read now; their partitions are inspected, since they have errors."""
        if denied != self.denied:
            self.denied = denied
            for key in [key for key in self.idle if key[0] in denied]:
                self.activate(self.partitions[key])

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


class FetchContext:
    """The partitions that a request fetches. `session` is None without one; `opens_session`: the response may open one;
    `absent`: how many of the partitions are not here, counted for a session to be opened. `topic_counts`: the number of
    partitions of each topic, where `partitions` has none because they are encoded.
    """

    __slots__ = ("_topic_counts", "absent", "epoch", "opens_session", "partitions", "session", "uses_topic_ids")

    def __init__(
        self,
        partitions: dict[PartitionKey, FetchedPartition],
        session: FetchSession | None = None,
        *,
        opens_session: bool = False,
        uses_topic_ids: bool = False,
        absent: int = 0,
        topic_counts: dict[Topic, int] | None = None,
    ) -> None:
        self.partitions = partitions
        self._topic_counts = topic_counts
        self.absent = absent
        self.session = session
        self.opens_session = opens_session
        self.uses_topic_ids = uses_topic_ids
        #: The epoch that the session must still have when the response is made: else another request overtook this one.
        self.epoch = session.epoch if session is not None else FINAL_EPOCH

    def topics(self) -> dict[Topic, int]:
        """Returns the number of partitions of each topic. A session counts them when it has others."""
        session = self.session
        if session is not None and session.topics is not None:
            return session.topics
        if self._topic_counts is not None:
            return self._topic_counts
        counts: dict[Topic, int] = {}
        for topic, _ in self.partitions:
            counts[topic] = counts.get(topic, 0) + 1
        if session is not None:
            session.topics = counts
        return counts


def asked_partitions(request: FetchRequest, uses_topic_ids: bool) -> Iterable[tuple[PartitionKey, FetchPartition]]:
    """The partitions that a request names. It does not keep them: to free very many at once takes long."""
    for topic in request.topics:
        name = topic.topic_id if uses_topic_ids else topic.topic
        partitions, topic.partitions = topic.partitions, []
        if not isinstance(partitions, list):  # they are encoded
            yield from (((name, asked.partition), asked) for asked in partitions)
            continue
        for number, asked in enumerate(partitions):
            partitions[number] = None  # type: ignore[call-overload]
            yield (name, asked.partition), asked


def names_too_many_absent(named: FetchContext | FetchSession) -> bool:
    """Returns True if more of the partitions are absent than ABSENT_PARTITIONS, and more than are hosted."""
    return named.absent > max(ABSENT_PARTITIONS, len(named.partitions) - named.absent)


# Incremental fetch sessions (KIP-227): a consumer names its partitions once, and then only what changes.
#
# ```
# epoch in the request   session id    meaning
# -1                     any           no session; the named session ends
# 0                      0             a full fetch that requests a session
# 0                      known         the same, in place of the named session
# 1, 2, ...              known         incremental: the epoch must be the next one
# ```
#
# A session keeps its partitions in the order of inspection: a partition that gave data goes to the end, so that no
# partition starves behind others that always have data. The number of sessions is limited. A new session replaces one
# that has not been used for two minutes, or a smaller one that is older than that. Followers' sessions go before
# consumers'. The number of partitions in all sessions is limited as well. A fetch that names more absent partitions
# than hosted ones begins no session, or ends its session, and the client continues with full fetches.
#
# A session ends with the connection that used it last. Clients begin a new one after a broken connection, so the
# old one is not needed; and the memory that a peer occupies is freed when the peer disconnects.
#
# A session may have thousands of partitions, of which few change between two requests. So a follower's session, and a
# consumer's with many partitions, keeps those apart that are *active*: only these are inspected. The others are *idle*: each
# waits in its partition for a change, which makes it active again (`IdleFollower` in `fetch.py`, `IdleConsumer`). A
# consumer's waits end with its session.


_LAST_EPOCH = (1 << 31) - 1
#: From this version on requests name topics by id, and a session keeps to the one or the other.
FIRST_VERSION_WITH_TOPIC_IDS = 13
#: How long a session is safe from being evicted by a larger one, and how long it may be unused.
EVICTION_MS = 120_000
#: A fetch of more partitions than this takes turns (large_fetch.py): some 5 us each.
LARGE_FETCH = 500

#: A consumer's session of more partitions sets idle ones aside. To inspect one takes half a microsecond, to set one aside
#: and make it active again two.
INSPECTED_PARTITIONS = 100

#: Partitions of a request that are taken in one step: a step costs as much as one of them.
NAMED_AT_ONCE = 32

#: Limit of all sessions together. A thousand consumers that read a hundred partitions each, and the followers of 10,000, use
#: half of it; it takes about 50 MB.
DEFAULT_PARTITION_LIMIT = 100_000
#: Memory that one partition of a session takes, about.
PARTITION_BYTES = 200


class FetchSessions:
    """The sessions of one broker.

    `limit`: max.incremental.fetch.session.cache.slots. `partition_limit`: odradek.fetch.session.cache.partitions.
    `free`: called with the partitions of a session that has ended; may empty them. `is_hosted`: whether a partition is here.
    """

    def __init__(
        self,
        limit: int,
        partition_limit: int = DEFAULT_PARTITION_LIMIT,
        free: Callable[[dict[Any, Any]], None] | None = None,
        is_hosted: IsHosted = lambda *_: True,
    ) -> None:
        self._free = free
        self._is_hosted = is_hosted
        self.limit = limit
        self.partition_limit = partition_limit
        #: In the order of their last use.
        self._sessions: dict[int, FetchSession] = {}
        self._by_connection: dict[ClientConnection, set[int]] = {}
        self.partition_count = 0
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def open_at_once(
        self, request: FetchRequest, version: int, now_ms: int, connection: ClientConnection | None = None
    ) -> FetchContext | ErrorCode:
        """Does what `open` does for a request that names few partitions: a generator would cost more than its work."""
        epoch, uses_topic_ids = request.session_epoch, version >= FIRST_VERSION_WITH_TOPIC_IDS
        if epoch not in (INITIAL_EPOCH, FINAL_EPOCH) or request.session_id in self._sessions:
            return run_to_completion(self.open(request, version, now_ms, connection))
        partitions = {key: FetchedPartition(key, asked) for key, asked in asked_partitions(request, uses_topic_ids)}
        context = FetchContext(partitions, opens_session=epoch == INITIAL_EPOCH, uses_topic_ids=uses_topic_ids)
        if context.opens_session:
            context.absent = sum(not self._is_hosted(key, uses_topic_ids) for key in partitions)
        return context

    def open(
        self, request: FetchRequest, version: int, now_ms: int, connection: ClientConnection | None = None
    ) -> Steps[FetchContext | ErrorCode]:
        """Returns the request's context, or the error that is its whole response. A step takes NAMED_AT_ONCE partitions."""
        epoch, uses_topic_ids = request.session_epoch, version >= FIRST_VERSION_WITH_TOPIC_IDS
        if epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
            session = self._continued(request, uses_topic_ids)
            if isinstance(session, FetchSession):
                yield from session.update(request, self._is_hosted)
            return self.go_on(request, version, now_ms, connection)
        if request.session_id in self._sessions:
            self._end(self._sessions[request.session_id])
        partitions: dict[PartitionKey, FetchedPartition] = {}
        context = FetchContext(partitions, opens_session=epoch == INITIAL_EPOCH, uses_topic_ids=uses_topic_ids)
        for number, (key, asked) in enumerate(asked_partitions(request, uses_topic_ids)):
            if context.opens_session and key not in partitions:
                context.absent += not self._is_hosted(key, uses_topic_ids)
            partitions[key] = FetchedPartition(key, asked)
            if not number % NAMED_AT_ONCE:
                yield
        return context

    def go_on(
        self, request: FetchRequest, version: int, now_ms: int, connection: ClientConnection | None = None
    ) -> FetchContext | ErrorCode:
        """The next fetch of a session, with its partitions as they are now."""
        uses_topic_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS
        session = self._continued(request, uses_topic_ids)
        if not isinstance(session, FetchSession):
            return session
        more = len(session.partitions) - session.counted
        if more:
            session.inspect_only_active()
            self.partition_count += more
            session.counted += more
            if not session.partitions:
                self._end(session)
                return FetchContext({}, uses_topic_ids=uses_topic_ids)
            is_too_many = self.partition_count > self.partition_limit or names_too_many_absent(session)
            if is_too_many and more > 0:
                self._end(session)
                self.evictions += 1
                return ErrorCode.FETCH_SESSION_ID_NOT_FOUND  # the client goes on with a full fetch
        del self._sessions[session.id]
        self._sessions[session.id] = session
        if session.connection is not connection:
            self._belongs_to(session, connection)
        session.last_used_ms = now_ms
        session.epoch = 1 if session.epoch == _LAST_EPOCH else session.epoch + 1
        return FetchContext(session.partitions, session, uses_topic_ids=uses_topic_ids)

    def _continued(self, request: FetchRequest, uses_topic_ids: bool) -> FetchSession | ErrorCode:
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        return session

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def begin(
        self, context: FetchContext, now_ms: int, *, is_follower: bool, connection: ClientConnection | None = None
    ) -> int:
        """A session for a full fetch that is being answered: its id, or 0 when there is no room for it."""
        size = len(context.partitions)
        is_gone = connection is not None and connection.closed
        if size > self.partition_limit or is_gone or names_too_many_absent(context):
            return INVALID_SESSION_ID
        while self.partition_count + size > self.partition_limit:
            # Only what is unused goes here: a session that names much must not push out many that are at work.
            if not self._evict_unused(now_ms):
                return INVALID_SESSION_ID
        if len(self._sessions) >= self.limit and not self._evict((is_follower, size, 0), now_ms):
            return INVALID_SESSION_ID
        session_id = INVALID_SESSION_ID
        while session_id == INVALID_SESSION_ID or session_id in self._sessions:
            session_id = random.randrange(1, 1 << 31)
        session = self._sessions[session_id] = FetchSession(
            session_id, context.partitions, now_ms, uses_topic_ids=context.uses_topic_ids, is_follower=is_follower
        )
        session.absent = context.absent
        self.partition_count += size
        self._belongs_to(session, connection)
        return session_id

    def connection_lost(self, connection: ClientConnection) -> None:
        """Ends the sessions of a connection that was lost."""
        freed = 0
        for session_id in self._by_connection.pop(connection, ()):
            session = self._sessions[session_id]
            session.connection = None
            freed += len(session.partitions) * PARTITION_BYTES
            self._end(session)
        release_after(freed)

    def _belongs_to(self, session: FetchSession, connection: ClientConnection | None) -> None:
        self._leave_connection(session)
        session.connection = connection
        if connection is not None:
            self._by_connection.setdefault(connection, set()).add(session.id)

    def _leave_connection(self, session: FetchSession) -> None:
        if session.connection is not None:
            ids = self._by_connection[session.connection]
            ids.remove(session.id)
            if not ids:
                del self._by_connection[session.connection]

    def _end(self, session: FetchSession) -> None:
        del self._sessions[session.id]
        self.partition_count -= session.counted
        self._leave_connection(session)
        session.connection = None
        idle = session.inspect_all()
        if self._free is not None:
            self._free(session.partitions)
        if self._free is not None and len(idle) > FREED_AT_ONCE:
            self._free(idle)
        else:
            while idle:
                idle.popitem()

    def _evict_unused(self, now_ms: int) -> bool:
        """Ends the session that was unused longest, if unused for two minutes. Returns whether it did."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now_ms - oldest.last_used_ms <= EVICTION_MS:
            return False
        self._end(oldest)
        self.evictions += 1
        return True

    def _evict(self, weight: tuple[bool, int, int], now_ms: int) -> bool:
        """Makes room for a session of that weight; whether it could."""
        if self._evict_unused(now_ms):
            return True
        candidates = (s for s in self._sessions.values() if self._is_evictable(s, weight[0], now_ms))
        least = min(candidates, key=FetchSession.weight, default=None)
        if least is None or weight < least.weight():
            return False
        self._end(least)
        self.evictions += 1
        return True

    @staticmethod
    def _is_evictable(session: FetchSession, for_follower: bool, now_ms: int) -> bool:
        """A follower may push out any consumer; a consumer only what has had its time."""
        return now_ms - session.created_ms > EVICTION_MS or (for_follower and not session.is_follower)

    def __iter__(self) -> Iterator[FetchSession]:
        return iter(self._sessions.values())


def is_large_fetch(request: FetchRequest) -> bool:
    """Returns True if a request names more than LARGE_FETCH topics and partitions."""
    left = LARGE_FETCH
    for topics in (request.topics, request.forgotten_topics_data):
        for topic in topics:
            left -= 1 + len(topic.partitions)
            if left < 0:
                return True
    return False
