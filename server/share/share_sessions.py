"""Share sessions: the partitions that a member of a share group fetches, listed once and then changed incrementally
(KIP-932).

```
epoch in the request   meaning
0                      a new session that replaces the member's previous session
1, 2, ...              the session continues: the epoch must be the next one
-1                     the session ends: other members may acquire what the member has not acknowledged
```

A session also ends with the connection that it was started on. A new session above the limit is rejected; none is
evicted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from ...metadata.image import TopicIdPartition
from ...protocol.errors import ErrorCode
from ...protocol.session_epochs import FINAL_EPOCH, INITIAL_EPOCH, LAST_EPOCH

if TYPE_CHECKING:
    from ...protocol.messages.share_fetch import ShareFetchRequest
    from ..network.call import ClientConnection


class SessionKey(NamedTuple):
    group_id: str
    member_id: str


class ShareSession:
    """The partitions that one member fetches, and the epoch of its next request."""

    __slots__ = ("connection", "epoch", "key", "partitions")

    def __init__(self, key: SessionKey, connection: ClientConnection, partitions: Iterable[TopicIdPartition]) -> None:
        self.key = key
        self.connection = connection
        #: In the order in which the requests named them.
        self.partitions: dict[TopicIdPartition, None] = dict.fromkeys(partitions)
        #: The epoch that the next request must have.
        self.epoch = INITIAL_EPOCH + 1

    def advance(self) -> None:
        self.epoch = 1 if self.epoch == LAST_EPOCH else self.epoch + 1

    def in_turn(self) -> list[TopicIdPartition]:
        """Returns all partitions, starting with a different one each time so that none starves."""
        partitions = list(self.partitions)
        turn = self.epoch % len(partitions) if partitions else 0
        return partitions[turn:] + partitions[:turn]


class ShareSessions:
    """The share sessions of a broker. `ended` is called with each ended session, and whether it was its group's last
    here.
    """

    def __init__(self, limit: int, ended: Callable[[ShareSession, bool], None]) -> None:
        self._limit = limit
        self._ended = ended
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_connection: dict[ClientConnection, set[SessionKey]] = {}
        self._group_sizes: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def open(
        self, request: ShareFetchRequest, connection: ClientConnection, has_acks: bool
    ) -> ShareSession | ErrorCode:
        """Returns the session of a ShareFetch."""
        key = SessionKey(request.group_id or "", request.member_id or "")
        session = self._sessions.get(key)
        epoch = request.share_session_epoch
        if epoch == INITIAL_EPOCH:
            return ErrorCode.INVALID_REQUEST if has_acks else self._begin(key, request, connection)
        if session is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch == FINAL_EPOCH:
            return session
        if session.epoch != epoch:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        session.partitions.update(dict.fromkeys(asked(request)))
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                session.partitions.pop((topic.topic_id, index), None)
        session.advance()
        return session

    def acknowledge(self, key: SessionKey, epoch: int) -> ShareSession | ErrorCode:
        """Returns the session of a ShareAcknowledge."""
        if epoch == INITIAL_EPOCH:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        session = self._sessions.get(key)
        if session is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch != FINAL_EPOCH:
            if session.epoch != epoch:
                return ErrorCode.INVALID_SHARE_SESSION_EPOCH
            session.advance()
        return session

    def end(self, session: ShareSession) -> None:
        if self._sessions.get(session.key) is session:
            self._remove(session)
            self._ended(session, session.key.group_id not in self._group_sizes)

    def connection_lost(self, connection: ClientConnection) -> None:
        for key in list(self._by_connection.get(connection, ())):
            self.end(self._sessions[key])

    def _begin(
        self, key: SessionKey, request: ShareFetchRequest, connection: ClientConnection
    ) -> ShareSession | ErrorCode:
        before = self._sessions.get(key)
        if before is not None:
            self._remove(before)
        if len(self._sessions) >= self._limit:
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        session = self._sessions[key] = ShareSession(key, connection, asked(request))
        self._by_connection.setdefault(connection, set()).add(key)
        self._group_sizes[key.group_id] = self._group_sizes.get(key.group_id, 0) + 1
        return session

    def _remove(self, session: ShareSession) -> None:
        key = session.key
        del self._sessions[key]
        keys = self._by_connection[session.connection]
        keys.discard(key)
        if not keys:
            del self._by_connection[session.connection]
        self._group_sizes[key.group_id] -= 1
        if not self._group_sizes[key.group_id]:
            del self._group_sizes[key.group_id]


def asked(request: ShareFetchRequest) -> list[TopicIdPartition]:
    return [(topic.topic_id, partition.partition_index) for topic in request.topics for partition in topic.partitions]
