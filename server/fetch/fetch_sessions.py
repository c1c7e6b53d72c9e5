"""Incremental fetch sessions (KIP-227): a consumer names its partitions once, and then only what changes.

```
epoch in the request   session id    meaning
-1                     any           no session; the named session ends
0                      0             a full fetch that requests a session
0                      known         the same, in place of the named session
1, 2, ...              known         incremental: the epoch must be the next one
```

A session keeps its partitions in the order of inspection: a partition that gave data goes to the end, so that no
partition starves behind others that always have data. The number of sessions is limited. A new session replaces one
that has not been used for two minutes, or a smaller one that is older than that. Followers' sessions go before
consumers'. The number of partitions in all sessions is limited as well. A fetch that names more absent partitions
than hosted ones begins no session, or ends its session, and the client continues with full fetches.

A session ends with the connection that used it last. Clients begin a new one after a broken connection, so the
old one is not needed; and the memory that a peer occupies is freed when the peer disconnects.

A session may have thousands of partitions, of which few change between two requests. So a follower's session, and a
consumer's with many partitions, keeps those apart that are *active*: only these are inspected. The others are *idle*: each
waits in its partition for a change, which makes it active again (follower_fetch.py, fetch_session.py). A
consumer's waits end with its session.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ...protocol.encoded_fetch import WITH_TOPIC_IDS
from ...protocol.errors import ErrorCode
from ...protocol.session_epochs import FINAL_EPOCH, INITIAL_EPOCH, LAST_EPOCH
from ..runtime.memory import release_after
from ..runtime.sliced_work import run_to_completion
from ..runtime.turns import FREED_AT_ONCE
from .fetch_context import FetchContext, names_too_many_absent
from .fetch_session import INVALID_SESSION_ID, FetchSession
from .fetched_partition import FetchedPartition, asked_partitions

if TYPE_CHECKING:
    from ...protocol.messages.fetch import FetchRequest
    from ..network.call import ClientConnection
    from ..runtime.sliced_work import Steps
    from .fetch_session import IsHosted
    from .fetched_partition import PartitionKey

#: The versions whose requests name topics by id; a session keeps to the one or the other.
#: How long a session is safe from being evicted by a larger one, and how long it may be unused.
EVICTION_MS = 120_000
#: A fetch of more partitions than this takes turns (large_fetch.py): some 5 us each.
LARGE_FETCH = 500

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
        free: Callable[[Any], None] | None = None,
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
        epoch, uses_topic_ids = request.session_epoch, version in WITH_TOPIC_IDS
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
        epoch, uses_topic_ids = request.session_epoch, version in WITH_TOPIC_IDS
        if epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
            session = self._continued(request, uses_topic_ids)
            if isinstance(session, FetchSession):
                yield from session.update(request, self._is_hosted)
            return self.continue_session(request, version, now_ms, connection)
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

    def continue_session(
        self, request: FetchRequest, version: int, now_ms: int, connection: ClientConnection | None = None
    ) -> FetchContext | ErrorCode:
        """The next fetch of a session, with its partitions as they are now."""
        uses_topic_ids = version in WITH_TOPIC_IDS
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
        session.epoch = 1 if session.epoch == LAST_EPOCH else session.epoch + 1
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
