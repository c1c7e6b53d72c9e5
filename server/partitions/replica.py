"""A replica of a partition on this broker: its log, its role, and the requests that wait for it.

`HostedPartition` extends it by the leader's operations on records. The follower's are in `FollowedPartition`
(replicas/followed_partition.py), which has a replica. There are two kinds of waiting: a `Watcher` waits for committed
bytes (followers in `end_watchers` wait for written ones) or for a change of the role; a callback of `when_committed`
waits for the high watermark to reach an offset.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from ...metadata.internal_topics import INTERNAL_TOPICS, REMOTE_LOG_METADATA_TOPIC
from ...protocol.errors import ErrorCode
from ...storage.log.epochs import UNDEFINED_EPOCH
from ...storage.log.unopened import UnopenedLog

if TYPE_CHECKING:
    from ...protocol.records.errors import BatchError
    from ...replication.isr import IsrProposal
    from ...replication.replica_role import PartitionRegistration, ReplicaRole
    from ...storage.directory import LogDirectory
    from ...storage.files.failures import LogDirectoryFailure
    from ...storage.log.log import Log
    from ..runtime.counters import TopicMetrics
    from ..runtime.thread_pools import ThreadPools
    from .append_queue import AppendQueue
    from .append_rules import AppendRules
    from .replica_flush import ReplicaFlush

log = logging.getLogger("odradek.partitions")

_NONE = int(ErrorCode.NONE)
_NOT_LEADER_OR_FOLLOWER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
_UNKNOWN_LEADER_EPOCH = int(ErrorCode.UNKNOWN_LEADER_EPOCH)
_KAFKA_STORAGE_ERROR = int(ErrorCode.KAFKA_STORAGE_ERROR)


class Watcher(Protocol):
    """A request that waits for data of a partition."""

    def on_bytes_available(self, size: int) -> None:
        """Called when `size` bytes have been committed."""

    def on_state_changed(self) -> None:
        """Called when another broker leads the partition, or it is gone or offline."""


class Replica:
    """The replica part of `HostedPartition`. `directory` is the log directory that contains the replica."""

    __slots__ = (
        "_committing",
        "_deleting",
        "_most_plain_bytes",
        "_takes_plain",
        "counters",
        "directory",
        "end_watchers",
        "flush",
        "index",
        "is_guarded",
        "is_healing",
        "is_internal",
        "is_removed",
        "last_read_offsets",
        "log",
        "offline",
        "on_damage",
        "on_failure",
        "on_proposal",
        "pools",
        "queue",
        "role",
        "rules",
        "takeover_ms",
        "topic",
        "topic_id",
        "watchers",
    )

    def __init__(
        self,
        topic_id: bytes,
        log: Log | UnopenedLog,
        role: ReplicaRole,
        directory: LogDirectory,
        rules: AppendRules,
        counters: TopicMetrics,
        pools: ThreadPools,
    ) -> None:
        self.topic = log.topic
        self.topic_id = topic_id
        self.index = log.partition
        self.is_internal = log.topic in INTERNAL_TOPICS
        #: Whether few clients may write to it (produce/internal_topics.py), or none, since it is a mirror.
        self.is_guarded = False
        #: A start finds logs without opening them; the first use does.
        self.log: Log | UnopenedLog = log
        self.role = role
        self.directory = directory
        self.rules = rules
        self.counters = counters
        #: The threads that open batches, and wait for the disk.
        self.pools = pools
        #: Called when the disk fails.
        self.on_failure: Callable[[LogDirectoryFailure], None] = _raise
        #: True if its log directory has failed.
        self.offline = False
        #: True while damaged records are fetched from another replica: their readers wait.
        self.is_healing = False
        #: The time at which this broker took over the leadership.
        self.takeover_ms = 0
        #: The offset of each follower's last read; None where there are no followers.
        self.last_read_offsets: dict[int, int] | None = None
        #: True if this broker no longer has the replica: it was deleted, or moved to other brokers.
        self.is_removed = False
        self.watchers: dict[Watcher, None] = {}
        #: Watchers of written records, committed or not.
        self.end_watchers: dict[Watcher, None] = {}
        #: Called with ISR changes to propose to the controller.
        self.on_proposal: Callable[[Replica, IsrProposal], None] = _to_nobody
        #: Called for each read that got no records because they are damaged.
        self.on_damage: Callable[[Any, BatchError], None] = _not_noted
        #: Batches that a thread opens, and requests that wait for the disk; None while there are none.
        self.queue: AppendQueue | None = None
        self.flush: ReplicaFlush | None = None
        # Callbacks that wait for the high watermark: (offset, callback), offsets ascending. An empty deque has 760 bytes,
        # so it is made for the first one.
        self._committing: deque[tuple[int, Callable[[int], None]]] | None = None
        # Callbacks that wait for all replicas to start at an offset.
        self._deleting: list[tuple[int, Callable[[int], None]]] = []
        self._takes_plain: bool
        self._most_plain_bytes: int
        self.refresh_append_state()

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

    def open_log(self) -> Log:
        """Returns the log. The first call opens it, which reads no file."""
        log = self.log
        if isinstance(log, UnopenedLog):
            log = self.log = log.open()
        return log

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
        """Returns the error code for a request to this replica; 0 when it may proceed."""
        if self.offline:
            return _KAFKA_STORAGE_ERROR
        return self.role.error_for_epoch(current_leader_epoch, leader_only=leader_only)

    # External changes.

    def take_role(self, registration: PartitionRegistration, now_ms: int) -> bool:
        """Takes the leader or follower role of the metadata. Returns whether the leader or its epoch changed."""
        role = self.role
        before, isr_before = role.high_watermark, role.isr
        changed = role.apply(registration, now_ms)
        if changed:
            # Producers may have a batch in flight to the former leader; the first epoch has none.
            has_former = role.is_leader and role.leader_epoch > 0
            begun = role.leader_epoch if role.is_leader and not self.offline else UNDEFINED_EPOCH
            if self.log.drop_epochs_above(role.leader_epoch):
                log.warning(
                    "%s: batches have leader epochs above %d, the newest: they are damaged; these epochs are ignored",
                    self.name, role.leader_epoch,
                )  # fmt: skip
            self.log.begin_role(begun, takes_over=has_former)
            self.takeover_ms = now_ms
            self.wake_all()
        else:
            self._wake_removed_followers(isr_before)
            self.refresh_append_state()
        if role.high_watermark > before:
            self._committed(role.high_watermark - before)
        return changed

    def _wake_removed_followers(self, before: tuple[int, ...]) -> None:
        """Wakes followers that were removed from the ISR and still fetch, so that they are proposed again."""
        if self.role.isr != before and not set(before).issubset(self.role.isr):
            for watcher in list(self.end_watchers):
                watcher.on_state_changed()

    def refresh_append_state(self) -> None:
        """Refreshes derived state. To be called after the role, the rules or the directory's state changed."""
        rules, role = self.rules, self.role
        self.is_guarded = self.is_internal or self.topic == REMOTE_LOG_METADATA_TOPIC or bool(rules.mirror)
        role.min_insync_replicas = rules.min_insync_replicas
        can_take = role.is_leader and rules.is_plain and self.queue is None and not self.offline
        self._takes_plain = can_take and role.has_enough_in_sync
        self._most_plain_bytes = rules.most_plain_bytes

    def wake_all(self) -> None:
        """Wakes all waiting requests after another broker became leader, the directory failed, or the topic was
        deleted.

        If this broker remains leader in a new epoch, written records stay, and their requests continue to wait.
        """
        self.refresh_append_state()
        if self.offline or not self.role.is_leader:
            error = _KAFKA_STORAGE_ERROR if self.offline else _NOT_LEADER_OR_FOLLOWER
            waiting, self._committing, self._deleting = [*(self._committing or ()), *self._deleting], None, []
            for _, callback in waiting:
                callback(error)
        self._wake_watchers()

    # Followers and both ends.

    def error_for_follower(self, replica: int, current_leader_epoch: int) -> int:
        """Returns the error code for a fetching follower; 0 when it is a valid follower."""
        if replica in self.role.replicas:
            return _NONE
        return _UNKNOWN_LEADER_EPOCH if current_leader_epoch >= 0 else _NOT_LEADER_OR_FOLLOWER

    def follower_fetched(
        self, replica: int, fetch_offset: int, log_start_offset: int, broker_epoch: int, now_ms: int
    ) -> None:
        """Notes a fetch from `fetch_offset`: the follower has everything below it."""
        role = self.role
        before = role.high_watermark
        if role.follower_fetched(
            replica, fetch_offset, now_ms, log_start_offset=log_start_offset, broker_epoch=broker_epoch
        ):
            self._committed(role.high_watermark - before)
        if replica not in role.isr:
            self._propose(role.propose_joining(replica))
        if self._deleting:
            self._call_deleted()

    def follow(self, high_watermark: int, log_start_offset: int) -> None:
        """Applies the leader's high watermark and log start offset, as far as this log reaches."""
        role = self.role
        before = role.high_watermark
        if role.follow(high_watermark):
            self._committed(role.high_watermark - before)
        start = min(log_start_offset, role.high_watermark)
        if start > self.log.log_start_offset:
            self.advance_log_start_offset(start)

    def truncated(self) -> None:
        """Handles the truncation of a follower's log, or its new start offset."""
        # Records that only a remote store has are committed.
        self.role.truncated(self.log.log_end_offset, self.log.local_log_start_offset)
        self.log_start_moved()

    def cut(self, now_ms: int) -> None:
        """Handles the cut of a leader's log: a mirror's, which has records that its source has lost."""
        self.role.cut(self.log.log_end_offset, self.log.local_log_start_offset, now_ms)
        self.log_start_moved()

    def shrink_isr(self, now_ms: int) -> None:
        """Proposes to remove followers that have fallen behind from the ISR."""
        self._propose(self.role.propose_shrinking(now_ms))

    def _propose(self, proposal: IsrProposal | None) -> None:
        if proposal is not None:
            self.on_proposal(self, proposal)

    def isr_accepted(
        self, proposal: IsrProposal, isr: tuple[int, ...], leader_epoch: int, partition_epoch: int, now_ms: int
    ) -> None:
        """Handles the controller's response to a proposal, which may arrive before the corresponding metadata."""
        before, isr_before = self.role.high_watermark, self.role.isr
        moved = self.role.accepted(proposal, isr, leader_epoch, partition_epoch, now_ms)
        self._wake_removed_followers(isr_before)
        self.refresh_append_state()
        if moved:
            self._committed(self.role.high_watermark - before)

    def advance_log_start_offset(self, offset: int) -> None:
        """Deletes the records below `offset`, which is not above the high watermark (DeleteRecords)."""
        if self.open_log().advance_log_start_offset(offset):
            self.log_start_moved()

    @property
    def low_watermark(self) -> int:
        """The lowest log start offset of all live replicas."""
        return self.role.low_watermark(self.log.log_start_offset)

    def when_deleted(self, offset: int, callback: Callable[[int], None]) -> None:
        """Calls `callback(0)` once no replica has records below `offset`; `callback(error code)` as `when_committed`."""
        self._deleting.append((offset, callback))
        self._call_deleted()

    def _call_deleted(self) -> None:
        low_watermark, waiting = self.low_watermark, self._deleting
        self._deleting = [one for one in waiting if one[0] > low_watermark]
        for offset, callback in waiting:
            if offset <= low_watermark:
                callback(_NONE)

    def log_start_moved(self) -> None:
        """Wakes waiting requests, whose offsets may be below the log start now."""
        self._wake_watchers()

    def wake_readers(self) -> None:
        """Wakes the readers of damaged records: the records may be healed, or no replica has them."""
        self._wake_watchers()

    def _wake_watchers(self) -> None:
        for watcher in [*self.watchers, *self.end_watchers]:
            watcher.on_state_changed()

    def want_flushed(self, offset: int, now_ms: int, then: Callable[[int], object]) -> None:
        """Calls `then(0)` once everything below `offset` is on the disk, `then(error code)` when that is impossible."""
        if self.flush is None:
            from .replica_flush import ReplicaFlush

            self.flush = ReplicaFlush(self)
        self.flush.want(offset, now_ms, then)

    # Commitment.

    def _notify_bytes_available(self, size: int) -> None:
        """Wakes followers after an append."""
        for watcher in list(self.end_watchers):
            watcher.on_bytes_available(size)

    def _committed(self, size: int) -> None:
        """Handles a high watermark that has advanced."""
        if self._committing:
            self._call_committed()
        for watcher in list(self.watchers):
            watcher.on_bytes_available(size)

    @property
    def waiting_for_commit(self) -> Iterable[tuple[int, Callable[[int], None]]]:
        """The replies that wait for the high watermark: offset and callback, offsets ascending."""
        return self._committing or ()

    def _call_committed(self) -> None:
        committing, high_watermark = self._committing, self.role.high_watermark
        while committing and committing[0][0] <= high_watermark:
            committing.popleft()[1](_NONE)

    def when_committed(self, offset: int, callback: Callable[[int], None]) -> None:
        """Calls `callback(0)` once the high watermark has reached `offset`, immediately if it has. Calls
        `callback(error code)` if that has become impossible because another broker leads, the log directory failed or
        the topic was deleted.
        """
        if self.role.high_watermark >= offset:
            callback(_NONE)
        elif self.offline or not self.role.is_leader:
            callback(_KAFKA_STORAGE_ERROR if self.offline else _NOT_LEADER_OR_FOLLOWER)
        else:
            if self._committing is None:
                self._committing = deque()
            committing, high_watermark = self._committing, self.role.high_watermark
            assert not committing or committing[0][0] > high_watermark, f"{self!r}: {committing[0]} waits for the past"
            later: list[tuple[int, Callable[[int], None]]] = []
            while committing and committing[-1][0] > offset:
                later.append(committing.pop())
            committing.append((offset, callback))
            committing.extend(reversed(later))


def _not_noted(replica: Replica, damage: BatchError) -> None:
    """Ignores damage while the replica is not among the broker's partitions yet."""


def _raise(failure: LogDirectoryFailure) -> None:
    raise failure


def _to_nobody(replica: Replica, proposal: IsrProposal) -> None:
    raise AssertionError(f"no request is sent to the controller for {proposal} of {replica.name}")
