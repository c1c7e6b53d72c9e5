"""A replica of a partition that is here: its log, its role, and who waits for it.

`HostedPartition` (hosted_partition.py) adds what a leader does with records. Waiting is of two kinds: a `Watcher` waits
for committed bytes, or for the role to change; a callback of `when_committed` for the high watermark to reach an offset.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ..protocol.errors import ErrorCode
from ..replication.partition import Partition
from ..storage.files import LogDirectoryFailure
from ..storage.log import Log
from .batch_checks import AppendRules
from .internal_topics import INTERNAL_TOPICS
from .metrics import TopicMetrics

if TYPE_CHECKING:
    from ..storage.directory import LogDirectory

_NONE = int(ErrorCode.NONE)
_NOT_LEADER_OR_FOLLOWER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
_UNKNOWN_LEADER_EPOCH = int(ErrorCode.UNKNOWN_LEADER_EPOCH)
_KAFKA_STORAGE_ERROR = int(ErrorCode.KAFKA_STORAGE_ERROR)


class Watcher(Protocol):
    """Who waits for data of a partition."""

    def grew(self, size: int) -> None:
        """That many bytes have been committed."""

    def disturbed(self) -> None:
        """The partition is led by another, gone, or offline: whoever waits for it must hear so."""


class Replica:
    """What is in `HostedPartition` too. `directory` is the log directory that the replica is in."""

    __slots__ = (
        "_committing",
        "_most_plain_bytes",
        "_takes_plain",
        "counters",
        "directory",
        "index",
        "is_internal",
        "is_removed",
        "log",
        "offline",
        "on_failure",
        "role",
        "rules",
        "topic",
        "topic_id",
        "watchers",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        log: Log,
        role: Partition,
        directory: LogDirectory,
        rules: AppendRules,
        counters: TopicMetrics,
        on_failure: Callable[[LogDirectoryFailure], None],
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = log.partition
        self.is_internal = topic in INTERNAL_TOPICS
        self.log = log
        self.role = role
        self.directory = directory
        self.rules = rules
        self.counters = counters
        self.on_failure = on_failure
        #: Its log directory has failed.
        self.offline = False
        #: It is no longer this broker's: deleted, or moved to others.
        self.is_removed = False
        self.watchers: dict[Watcher, None] = {}
        # Waiting for the high watermark: (offset, callback), offsets ascending.
        self._committing: deque[tuple[int, Callable[[int], None]]] = deque()
        self._takes_plain = False
        self._most_plain_bytes = 0
        self.settle()

    def __repr__(self) -> str:
        return f"<{self.topic}-{self.index} {'leader' if self.role.is_leader else 'follower'} {self.log!r}>"

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def leader_epoch(self) -> int:
        return self.role.leader_epoch

    @property
    def is_leader(self) -> bool:
        return self.role.is_leader

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self.role.high_watermark

    @property
    def last_stable_offset(self) -> int:
        return self.log.last_stable_offset(self.role.high_watermark)

    def error_for_epoch(self, current_leader_epoch: int, *, leader_only: bool = True) -> int:
        """The error code for a request to this replica; 0 when it may go on."""
        if self.offline:
            return _KAFKA_STORAGE_ERROR
        return self.role.error_for_epoch(current_leader_epoch, leader_only=leader_only)

    # ---- changes from outside

    def settle(self) -> None:
        """To be called after the role, the rules or the directory's state changed."""
        rules, role = self.rules, self.role
        enough = len(role.isr) >= rules.min_insync_replicas
        self._takes_plain = rules.is_plain and role.is_leader and enough and not self.offline
        self._most_plain_bytes = min(rules.max_message_bytes, rules.segment_bytes)

    def disturb(self) -> None:
        """Tells all who wait that it is no use: another leads, the directory failed, or the topic is deleted."""
        self.settle()
        error = _KAFKA_STORAGE_ERROR if self.offline else _NOT_LEADER_OR_FOLLOWER
        waiting, self._committing = self._committing, deque()
        for _, callback in waiting:
            callback(error)
        for watcher in list(self.watchers):
            watcher.disturbed()

    # ---- followers and both ends

    def follower_fetched(self, replica: int, fetch_offset: int, current_leader_epoch: int) -> int:
        """A replica asks for what follows `fetch_offset`, so it has what is below; an error code when it is none of ours."""
        if replica not in self.role.replicas:
            return _UNKNOWN_LEADER_EPOCH if current_leader_epoch >= 0 else _NOT_LEADER_OR_FOLLOWER
        before = self.role.high_watermark
        if self.role.follower_fetched(replica, fetch_offset):
            self._committed(self.role.high_watermark - before)
        return _NONE

    def advance_log_start_offset(self, offset: int) -> None:
        """Forgets the records below `offset`, which is not above the high watermark (DeleteRecords)."""
        if self.log.advance_log_start_offset(offset):
            self.log_start_moved()

    def log_start_moved(self) -> None:
        """Whoever waits here may wait below the log's start now."""
        for watcher in list(self.watchers):
            watcher.disturbed()

    # ---- commitment

    def _committed(self, size: int) -> None:
        """The high watermark has moved."""
        if self._committing:
            self._call_committed()
        for watcher in self.watchers:
            watcher.grew(size)

    def _call_committed(self) -> None:
        committing, high_watermark = self._committing, self.role.high_watermark
        while committing and committing[0][0] <= high_watermark:
            committing.popleft()[1](_NONE)

    def when_committed(self, offset: int, callback: Callable[[int], None]) -> None:
        """Calls `callback(0)` once the high watermark has reached `offset`, at once if it has; `callback(error code)` if
        that cannot come any more because another leads, the log directory failed or the topic was deleted.
        """
        if self.role.high_watermark >= offset:
            callback(_NONE)
        elif self.offline or not self.role.is_leader:
            callback(_KAFKA_STORAGE_ERROR if self.offline else _NOT_LEADER_OR_FOLLOWER)
        else:
            committing = self._committing
            later: list[tuple[int, Callable[[int], None]]] = []
            while committing and committing[-1][0] > offset:
                later.append(committing.pop())
            committing.append((offset, callback))
            committing.extend(reversed(later))
