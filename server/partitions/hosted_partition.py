"""A partition with a replica on this broker, and the appends of producers to it; `Replica` holds the replica's state.

`append` handles a producer's batch. A plainly valid batch is written as received, with its offset and leader epoch
set: its header and CRC are valid, and one walk shows that its records match the header and the topic's rules. Every
other batch goes through `batch_validation.py`, which rejects it or produces what is to be written.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...metadata.image import INTERNAL_TOPICS
from ...protocol.errors import ErrorCode
from ...protocol.records import batch
from ...protocol.records.batch import HEADER_BYTES, LOG_OVERHEAD, BatchHeader
from ...protocol.records.control import encode_end_transaction
from ...protocol.records.errors import BatchError
from ...replication.partition import IsrProposal, Partition, PartitionRegistration
from ...storage.files.open_files import LogDirectoryFailure
from ...storage.log.epochs import UNDEFINED_EPOCH
from ...storage.log.log import Log
from ...storage.log.producers import ProducerBatch, check_marker, is_in_transaction
from ..runtime.counters import TopicMetrics
from .batch_validation import (
    AppendResult,
    AppendRules,
    CheckedBatch,
    NotAtOnce,
    QueuedAppend,
    Rejected,
    RejectedUnseen,
    check_batch,
    plain_header,
)

if TYPE_CHECKING:
    from ...storage.directory import LogDirectory
    from ..runtime.thread_pools import ThreadPools
    from .replica_queues import AppendQueue, ReplicaFlush


# The marker that ends a transaction in a partition (KIP-98).


class Marker(NamedTuple):
    """The end of a producer's transaction, as its coordinator decided it. `transaction_version`: the client's version."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    transaction_version: int


# A replica of a partition on this broker: its log, its role, and the requests that wait for it.
#
# `HostedPartition` adds the leader's operations on records, `FollowedPartition` (replicas/fetcher.py) the
# follower's. There are two kinds of waiting: a `Watcher` waits for committed bytes (followers in `end_watchers` wait
# for written ones) or for a change of the role; a callback of `when_committed` waits for the high watermark to reach
# an offset.


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
        "given",
        "index",
        "is_healing",
        "is_internal",
        "is_removed",
        "log",
        "offline",
        "on_damage",
        "on_failure",
        "on_proposal",
        "pools",
        "queue",
        "role",
        "rules",
        "taken_over_ms",
        "topic",
        "topic_id",
        "watchers",
    )

    def __init__(
        self,
        topic_id: bytes,
        log: Log,
        role: Partition,
        directory: LogDirectory,
        rules: AppendRules,
        counters: TopicMetrics,
        pools: ThreadPools,
        on_failure: Callable[[LogDirectoryFailure], None],
    ) -> None:
        self.topic = log.topic
        self.topic_id = topic_id
        self.index = log.partition
        self.is_internal = log.topic in INTERNAL_TOPICS
        self.log = log
        self.role = role
        self.directory = directory
        self.rules = rules
        self.counters = counters
        #: The threads that open batches, and wait for the disk.
        self.pools = pools
        self.on_failure = on_failure
        #: True if its log directory has failed.
        self.offline = False
        #: True while damaged records are fetched from another replica: their readers wait.
        self.is_healing = False
        #: The time at which this broker took over the leadership.
        self.taken_over_ms = 0
        #: The offset of each follower's last read; None where there are no followers.
        self.given: dict[int, int] | None = None
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

    # ---- external changes

    def take_role(self, registration: PartitionRegistration, now_ms: int) -> bool:
        """Takes the leader or follower role of the metadata. Returns whether the leader or its epoch changed."""
        role = self.role
        before, isr_before = role.high_watermark, role.isr
        changed = role.apply(registration, now_ms)
        if changed:
            # Producers may have a batch in flight to the former leader; the first epoch has none.
            has_former = role.is_leader and role.leader_epoch > 0
            begun = role.leader_epoch if role.is_leader and not self.offline else UNDEFINED_EPOCH
            self.log.begin_role(begun, takes_over=has_former)
            self.taken_over_ms = now_ms
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
        for watcher in [*self.watchers, *self.end_watchers]:
            watcher.on_state_changed()

    # ---- followers and both ends

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
        if self.log.advance_log_start_offset(offset):
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
        for watcher in [*self.watchers, *self.end_watchers]:
            watcher.on_state_changed()

    def wake_readers(self) -> None:
        """Wakes the readers of damaged records: the records may be healed, or no replica has them."""
        for watcher in [*self.watchers, *self.end_watchers]:
            watcher.on_state_changed()

    def want_flushed(self, offset: int, now_ms: int, then: Callable[[int], object]) -> None:
        """Calls `then(0)` once everything below `offset` is on the disk, `then(error code)` when that is impossible."""
        if self.flush is None:
            from .replica_queues import ReplicaFlush

            self.flush = ReplicaFlush(self)
        self.flush.want(offset, now_ms, then)

    # ---- commitment

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
            committing = self._committing
            later: list[tuple[int, Callable[[int], None]]] = []
            while committing and committing[-1][0] > offset:
                later.append(committing.pop())
            committing.append((offset, callback))
            committing.extend(reversed(later))


def _not_noted(replica: Replica, damage: BatchError) -> None:
    """Ignores damage while the replica is not among the broker's partitions yet."""


def _to_nobody(replica: Replica, proposal: IsrProposal) -> None:
    raise AssertionError(f"no request is sent to the controller for {proposal} of {replica.name}")


_NOT_ENOUGH_REPLICAS = int(ErrorCode.NOT_ENOUGH_REPLICAS)
_INVALID_TXN_STATE = int(ErrorCode.INVALID_TXN_STATE)

ALL_IN_SYNC = -1
#: After a client's longest wait for a response (request.timeout.ms), it has no request in flight to the former leader.
TAKEOVER_MS = 30_000
_pack_offset = struct.Struct(">q").pack_into
_pack_epoch = struct.Struct(">i").pack_into
_new_tuple = tuple.__new__
#: The greatest value of a batch's attributes with a codec and nothing else.
_ZSTD = 4


class HostedPartition(Replica):
    """See docs/development/architecture.md."""

    __slots__ = ()

    def append(
        self,
        records: Any,
        now_ms: int,
        *,
        required_acks: int = 1,
        version: int = 13,
        is_in_transaction: bool = False,
    ) -> AppendResult:
        """Writes a producer's data for this partition: one batch in a writable buffer.

        `version` is that of the Produce request. `records` is kept only if it has more than LARGE_BATCH_BYTES, and then
        until it is written. `is_in_transaction`: the coordinator has
        confirmed that this partition is in the producer's transaction; otherwise only a transaction already open here
        is accepted.
        """
        if self._takes_plain and records is not None and HEADER_BYTES <= len(records) <= self._most_plain_bytes:
            header = plain_header(records, version, now_ms, self.rules, self.log.log_end_offset, self.role.leader_epoch)
            if header is not None and (
                header[5] <= _ZSTD
                or (header[9] >= 0 and (is_in_transaction or self.is_in_transaction(header[9], header[10])))
            ):
                return self._write(records, header, now_ms)
        return self._append_checked(records, now_ms, required_acks, version, is_in_transaction)

    def _append_checked(
        self, records: Any, now_ms: int, required_acks: int, version: int, is_in_transaction: bool
    ) -> AppendResult:
        validation_error = self._validation_error(required_acks)
        if validation_error is not None:
            return validation_error
        if self.queue is not None:
            return self._enqueue(records, now_ms, required_acks, version, is_in_transaction)
        try:
            checked = check_batch(records, self.rules, version, now_ms, self.name, run_to_completion=True)
        except NotAtOnce:
            return self._enqueue(records, now_ms, required_acks, version, is_in_transaction)
        except Rejected as rejected:
            return self.rejected(rejected, len(records or b""))
        return self._write_checked(checked, now_ms, is_in_transaction)

    def _validation_error(self, required_acks: int) -> AppendResult | None:
        """Returns the error that prevents any append now, if there is one."""
        if self.offline:
            return AppendResult(_KAFKA_STORAGE_ERROR)
        role = self.role
        if not role.is_leader:
            return AppendResult(_NOT_LEADER_OR_FOLLOWER)
        if required_acks == ALL_IN_SYNC and not role.has_enough_in_sync:
            return AppendResult(_NOT_ENOUGH_REPLICAS, log_start_offset=self.log_start_offset)
        return None

    def _enqueue(
        self, records: Any, now_ms: int, required_acks: int, version: int, is_in_transaction: bool
    ) -> AppendResult:
        if self.queue is None:
            from .replica_queues import AppendQueue

            self.queue = AppendQueue(self)
            self.refresh_append_state()
        queued = QueuedAppend(len(records or b""), now_ms, required_acks, is_in_transaction=is_in_transaction)
        self.queue.add(queued, records, version)
        return AppendResult(_NONE, queued=queued)

    def write_ahead(self, checked: CheckedBatch, queued: QueuedAppend) -> bool:
        """Writes a part of a large batch whose turn has come. Returns whether `append_opened` is next."""
        if self._validation_error(queued.required_acks) is not None:
            return True
        header = checked.header._replace(base_offset=self.log.log_end_offset)
        try:
            return self.log.write_ahead(checked.buffer, header, queued.now_ms)
        except LogDirectoryFailure as failure:
            self.on_failure(failure)
            return True

    def drop_ahead(self) -> None:
        """Removes what was written of a large batch that was not appended after all."""
        try:
            self.log.drop_ahead()
        except LogDirectoryFailure as failure:
            self.on_failure(failure)

    def append_opened(self, checked: CheckedBatch, queued: QueuedAppend) -> AppendResult:
        """Writes a checked batch when its turn has come. Another broker may lead the partition by now."""
        validation_error = self._validation_error(queued.required_acks)
        return validation_error or self._write_checked(checked, queued.now_ms, queued.is_in_transaction)

    def _write_checked(self, checked: CheckedBatch, now_ms: int, is_in_transaction: bool) -> AppendResult:
        buffer, header = checked
        if header.is_transactional and not is_in_transaction and not self.is_in_transaction(*header[9:11]):
            return self._not_in_transaction(header)
        header = header._replace(base_offset=self.log.log_end_offset, leader_epoch=self.role.leader_epoch)
        return self._write(buffer, header, now_ms)

    def _not_in_transaction(self, header: BatchHeader) -> AppendResult:
        """Rejects a batch outside a transaction. A duplicate is still a duplicate, and a producer with an old epoch
        gets the epoch's error, from which it can recover.
        """
        found = self.log.producers.check(header)
        if isinstance(found, ProducerBatch) or found == ErrorCode.INVALID_PRODUCER_EPOCH:
            return self._already_known(found)
        return AppendResult(_INVALID_TXN_STATE, log_start_offset=self.log_start_offset)

    def rejected(self, rejected: Rejected, size: int) -> AppendResult:
        """Returns the result for a rejected batch. `size`: of the received data, in bytes."""
        counters = self.counters
        counters.failed_produces += 1
        if rejected.error == ErrorCode.MESSAGE_TOO_LARGE:
            counters.bytes_rejected += size
        elif rejected.error == ErrorCode.CORRUPT_MESSAGE:
            counters.invalid_crc += 1
        unseen = isinstance(rejected, RejectedUnseen) or rejected.error in _ERRORS_WITHOUT_LOG_START
        start = -1 if unseen else self.log_start_offset
        return AppendResult(
            rejected.error, log_start_offset=start, record_errors=rejected.record_errors, error_message=rejected.message
        )

    def _write(self, buffer: Any, header: BatchHeader, now_ms: int) -> AppendResult:
        """Checks idempotence, then appends to the log. `header` has the offset and epoch; they are put into `buffer`
        here.
        """
        log = self.log
        base_offset = header[0]
        if header[9] >= 0:
            found = log.producers.check(header)
            if found:
                found = self._checked_again(found, header, now_ms)
            if found:
                return self._already_known(found)
        _pack_offset(buffer, 0, base_offset)
        _pack_epoch(buffer, LOG_OVERHEAD, header[2])
        try:
            log.append(buffer, (header,), now_ms)
        except LogDirectoryFailure as failure:
            self.on_failure(failure)
            return AppendResult(_KAFKA_STORAGE_ERROR)
        counters = self.counters
        counters.bytes_in += len(buffer)
        counters.messages_in += header[12]
        counters.produces += 1
        end_offset = log.log_end_offset
        must_flush = end_offset - log.recovery_point >= log.config.flush_messages
        if (must_flush or self.role.log_end_offset < base_offset) and len(self.role.replicas) == 1:
            # Without followers the batch is committed, and visible, once the disk has it, and in its turn; with
            # followers, once they have it.
            self.want_flushed(end_offset, now_ms, partial(self._flushed, end_offset, len(buffer), now_ms))
        elif self.role.appended(end_offset, now_ms) and (self._committing or self.watchers):
            self._committed(len(buffer))
        if self.end_watchers:
            self._notify_bytes_available(len(buffer))
        log_append_time_ms = header[8] if self.rules.log_append_time else -1
        result = (_NONE, base_offset, log_append_time_ms, log.log_start_offset, end_offset, (), None, must_flush, None)
        return _new_tuple(AppendResult, result)

    def _flushed(self, end_offset: int, size: int, now_ms: int, error: int) -> None:
        # Batches written by this broker itself did not wait for the disk.
        if not error and end_offset > self.role.log_end_offset and self.role.appended(end_offset, now_ms):
            self._committed(size)

    def _checked_again(
        self, found: ErrorCode | ProducerBatch, header: BatchHeader, now_ms: int
    ) -> ErrorCode | ProducerBatch:
        """Returns the check's result, without allowance for a former leader once that is long ago."""
        if found != _NOT_LEADER_OR_FOLLOWER or now_ms - self.taken_over_ms < TAKEOVER_MS:
            return found
        producers = self.log.producers
        producers.taken_over_at = None
        return producers.check(header)

    def _already_known(self, found: ErrorCode | ProducerBatch) -> AppendResult:
        if isinstance(found, ProducerBatch):
            base_offset, end_offset = found.base_offset, found.last_offset + 1
            return AppendResult(_NONE, base_offset, found.timestamp, self.log_start_offset, end_offset)
        self.counters.failed_produces += 1
        if found == _NOT_LEADER_OR_FOLLOWER:
            return AppendResult(_NOT_LEADER_OR_FOLLOWER)
        self.counters.invalid_sequence += 1
        return AppendResult(found, log_start_offset=self.log_start_offset)

    def append_own(self, records: bytes | bytearray, now_ms: int) -> AppendResult:
        """Writes batches created by this broker itself (by a coordinator), which are only required to parse.

        Offsets and leader epoch are put into `records` where it is writable, else into a copy.
        """
        if self.offline or not self.role.is_leader:
            return AppendResult(_KAFKA_STORAGE_ERROR if self.offline else _NOT_LEADER_OR_FOLLOWER)
        buffer = records if isinstance(records, bytearray) else bytearray(records)
        log, epoch = self.log, self.role.leader_epoch
        base_offset = next_offset = log.log_end_offset
        headers: list[BatchHeader] = []
        position, size = 0, len(buffer)
        while position < size:
            fields = batch.read_header(buffer, position)
            headers.append(_new_tuple(BatchHeader, (next_offset, fields[1], epoch, *fields[3:])))
            _pack_offset(buffer, position, next_offset)
            _pack_epoch(buffer, position + LOG_OVERHEAD, epoch)
            next_offset += fields[6] + 1
            position += fields[1] + LOG_OVERHEAD
        assert position == size, "whole batches"
        try:
            log.append(buffer, headers, now_ms)
        except LogDirectoryFailure as failure:
            self.on_failure(failure)
            return AppendResult(_KAFKA_STORAGE_ERROR)
        if self.role.appended(next_offset, now_ms):
            self._committed(len(buffer))
        if self.end_watchers:
            self._notify_bytes_available(len(buffer))
        return AppendResult(_NONE, base_offset, -1, log.log_start_offset, next_offset)

    def is_in_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        return is_in_transaction(self.log.producers, producer_id, producer_epoch)

    def end_transaction(self, marker: Marker, now_ms: int) -> AppendResult:
        """Writes the marker that ends a transaction in this partition (KIP-98)."""
        return self.end_transactions((marker,), now_ms)[0]

    def end_transactions(self, markers: Sequence[Marker], now_ms: int) -> list[AppendResult]:
        """Writes the markers of several producers, in one write. Returns a result for each of them, in their order."""
        assert len({marker.producer_id for marker in markers}) == len(markers), (
            "one marker changes the next one's check"
        )
        if not self.role.has_enough_in_sync:
            return [AppendResult(_NOT_ENOUGH_REPLICAS)] * len(markers)
        errors: list[int] = []
        batches = bytearray()
        for producer_id, epoch, committed, coordinator_epoch, transaction_version in markers:
            error = check_marker(self.log.producers, producer_id, epoch, coordinator_epoch, transaction_version)
            errors.append(error)
            if not error:
                batches += encode_end_transaction(
                    committed,
                    base_offset=0,
                    timestamp=now_ms,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    coordinator_epoch=coordinator_epoch,
                )
        written = self.append_own(batches, now_ms) if batches else AppendResult(_NONE)
        if batches and not written.error:
            # Consumers with read_committed may get more to read than the markers' own bytes.
            for watcher in list(self.watchers):
                watcher.on_state_changed()
        return [*_results_of_markers(errors, written)]


def _results_of_markers(errors: Iterable[int], written: AppendResult) -> Iterator[AppendResult]:
    """Yields a result for each marker. `written`: of those without an error, each of which has one offset."""
    offset = written.base_offset
    for error in errors:
        if error or written.error:
            yield AppendResult(error or written.error)
        else:
            yield AppendResult(_NONE, offset, -1, written.log_start_offset, offset + 1)
            offset += 1


#: Kafka reports the log start offset only with unexpected errors.
_ERRORS_WITHOUT_LOG_START = frozenset(
    {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.CORRUPT_MESSAGE}
)
