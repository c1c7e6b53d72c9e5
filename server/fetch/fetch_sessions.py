"""Incremental fetch sessions (KIP-227): a consumer names its partitions once, and then only what changes.

```
epoch in the request   session id    what it means
-1                     any           no session; one that is named ends
0                      0             a full fetch that asks for a session
0                      known         the same, in place of the one that is named
1, 2, ...              known         incremental: the epoch must be the one that is due
```

A session keeps its partitions in the order in which they are looked at: one that gave data goes to the end, so that
none starves behind others that always have some. The number of sessions is limited; a new one takes the place of one
that has not been used for two minutes, or of a smaller one that is older than that. Followers' sessions go before
consumers'. The number of partitions in all of them is limited as well: a session may name partitions that do not exist, so
slots alone do not bound memory.

A session ends with the connection that used it last. Clients begin a new one after a broken connection, so the
old one is not needed; and the memory that a peer occupies is freed when the peer disconnects.

A follower's session has thousands of partitions, of which few change between two requests. So it keeps those apart that
are not *settled*: only these are looked at (`follower_fetch.py`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from ...protocol.errors import ErrorCode
from ..runtime.memory import release_after
from ..runtime.sliced_work import Steps, run_to_completion

if TYPE_CHECKING:
    from ...protocol.messages.fetch import FetchPartition, FetchRequest
    from ..network.call import ClientConnection
    from ..partitions.hosted_partition import HostedPartition

INVALID_SESSION_ID = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_LAST_EPOCH = (1 << 31) - 1
#: From this version on requests name topics by id, and a session keeps to the one or the other.
FIRST_VERSION_WITH_TOPIC_IDS = 13
#: How long a session is safe from being evicted by a larger one, and how long it may be unused.
EVICTION_MS = 120_000
#: A fetch of more partitions than this takes turns (large_fetch.py): some 5 us each.
LARGE_FETCH = 500

#: Of all sessions together. A thousand consumers that read a hundred partitions each, and the followers of 10,000, use
#: half of it; it takes about 50 MB.
DEFAULT_PARTITION_LIMIT = 100_000
#: What one partition of a session takes, about.
PARTITION_BYTES = 200

#: The topic's name or its id, and the partition's index.
PartitionKey = tuple[Any, int]


class FetchedPartition:
    """A partition of a fetch: the client's request, and the offsets that its last response had."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "key",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "told_high_watermark",
        "told_log_start_offset",
    )

    def __init__(self, key: PartitionKey, asked: FetchPartition) -> None:
        self.key = key
        #: Nothing has been told yet: the first answer tells all.
        self.told_high_watermark = -1
        self.told_log_start_offset = -1
        self.ask(asked)

    def ask(self, asked: FetchPartition) -> None:
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.log_start_offset = asked.log_start_offset


class ParkedFollowerFetch(Protocol):
    """A follower's fetch that waits for changes of partitions in its session."""

    def on_bytes_available(self, size: int) -> None:
        """Adds written bytes of a partition to those that the fetch waits for."""

    def on_state_changed(self) -> None:
        """Has the fetch inspect its partitions again."""

    def watch_too(self, hosted: HostedPartition) -> None:
        """Waits for one more partition."""


class FetchSession:
    __slots__ = (
        "connection",
        "counted",
        "created_ms",
        "epoch",
        "id",
        "is_follower",
        "last_used_ms",
        "parked",
        "partitions",
        "replica_epoch",
        "unsettled",
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
        #: As many as the sum over all sessions has for this one.
        self.counted = len(partitions)
        self.uses_topic_ids = uses_topic_ids
        self.is_follower = is_follower
        self.created_ms = self.last_used_ms = now_ms
        #: Of a follower's session: what is to be looked at, the fetch that waits, and the epoch of the broker that asks.
        self.unsettled: dict[PartitionKey, FetchedPartition] = dict(partitions) if is_follower else {}
        self.parked: ParkedFollowerFetch | None = None
        self.replica_epoch = -1
        #: The connection that used it last.
        self.connection: ClientConnection | None = None
        #: The epoch that the next request must have.
        self.epoch = INITIAL_EPOCH + 1

    def update(self, request: FetchRequest) -> Steps[None]:
        partitions = self.partitions
        for key, asked in _asked(request, self.uses_topic_ids):
            yield
            known = partitions.get(key)
            if known is None:
                known = partitions[key] = FetchedPartition(key, asked)
            else:
                known.ask(asked)
            if self.is_follower:
                self.unsettled[key] = known
        for topic in request.forgotten_topics_data:
            name = topic.topic_id if self.uses_topic_ids else topic.topic
            for index in topic.partitions:
                yield
                partitions.pop((name, index), None)
                self.unsettled.pop((name, index), None)

    def gave_data(self, partition: FetchedPartition) -> None:
        """Moves a partition behind all others, because it was given data."""
        for kept in (self.partitions, self.unsettled):
            if kept.get(partition.key) is partition:
                del kept[partition.key]
                kept[partition.key] = partition

    def weight(self) -> tuple[bool, int, int]:
        """The order of eviction: a session may be evicted for one of greater weight."""
        return self.is_follower, len(self.partitions), self.id


class FetchContext:
    """The partitions that a request fetches. `session` is None without one; `opens_session`: the response may open one."""

    __slots__ = ("epoch", "opens_session", "partitions", "session", "uses_topic_ids")

    def __init__(
        self,
        partitions: dict[PartitionKey, FetchedPartition],
        session: FetchSession | None = None,
        *,
        opens_session: bool = False,
        uses_topic_ids: bool = False,
    ) -> None:
        self.partitions = partitions
        self.session = session
        self.opens_session = opens_session
        self.uses_topic_ids = uses_topic_ids
        #: What the session's epoch must still be when the answer is made: else another request overtook this one.
        self.epoch = session.epoch if session is not None else FINAL_EPOCH


class FetchSessions:
    """The sessions of one broker.

    `limit`: max.incremental.fetch.session.cache.slots. `partition_limit`: odradek.fetch.session.cache.partitions.
    `free`: called with the partitions of a session that has ended; may empty them.
    """

    def __init__(
        self,
        limit: int,
        partition_limit: int = DEFAULT_PARTITION_LIMIT,
        free: Callable[[dict[Any, Any]], None] | None = None,
    ) -> None:
        self._free = free
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
        partitions = {key: FetchedPartition(key, asked) for key, asked in _asked(request, uses_topic_ids)}
        return FetchContext(partitions, opens_session=epoch == INITIAL_EPOCH, uses_topic_ids=uses_topic_ids)

    def open(
        self, request: FetchRequest, version: int, now_ms: int, connection: ClientConnection | None = None
    ) -> Steps[FetchContext | ErrorCode]:
        """Returns the request's context, or the error that is its whole response; takes a step per partition named."""
        epoch, uses_topic_ids = request.session_epoch, version >= FIRST_VERSION_WITH_TOPIC_IDS
        if epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
            session = self._continued(request, uses_topic_ids)
            if isinstance(session, FetchSession):
                yield from session.update(request)
            return self.go_on(request, version, now_ms, connection)
        if request.session_id in self._sessions:
            self._end(self._sessions[request.session_id])
        partitions: dict[PartitionKey, FetchedPartition] = {}
        for key, asked in _asked(request, uses_topic_ids):
            partitions[key] = FetchedPartition(key, asked)
            yield
        return FetchContext(partitions, opens_session=epoch == INITIAL_EPOCH, uses_topic_ids=uses_topic_ids)

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
            self.partition_count += more
            session.counted += more
            if not session.partitions:
                self._end(session)
                return FetchContext({}, uses_topic_ids=uses_topic_ids)
            if self.partition_count > self.partition_limit and more > 0:
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
        if size > self.partition_limit or (connection is not None and connection.closed):
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
        if self._free is not None:
            self._free(session.partitions)

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


def _asked(request: FetchRequest, uses_topic_ids: bool) -> Iterable[tuple[PartitionKey, FetchPartition]]:
    """The partitions that a request names. It does not keep them: to free very many at once takes long."""
    for topic in request.topics:
        name = topic.topic_id if uses_topic_ids else topic.topic
        partitions, topic.partitions = topic.partitions, []
        for number, asked in enumerate(partitions):
            partitions[number] = None  # type: ignore[call-overload]
            yield (name, asked.partition), asked


def is_large_fetch(request: FetchRequest) -> bool:
    """Returns True if a request names more than LARGE_FETCH topics and partitions."""
    left = LARGE_FETCH
    for topics in (request.topics, request.forgotten_topics_data):
        for topic in topics:
            left -= 1 + len(topic.partitions)
            if left < 0:
                return True
    return False
