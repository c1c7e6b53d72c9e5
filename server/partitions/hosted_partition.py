"""A partition with a replica on this broker, and the appends of producers to it; `Replica` holds the replica's state.

`append` handles a producer's batch. A plainly valid batch is written as received, with its offset and leader epoch
set: its header and CRC are valid, and one walk shows that its records match the header and the topic's rules. Every
other batch goes through `batch_validation.py`, which rejects it or produces what is to be written.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ...metadata.mirror_keys import SWITCHED
from ...protocol.acks import ALL_IN_SYNC
from ...protocol.errors import ErrorCode
from ...protocol.offsets import NO_OFFSET
from ...protocol.records import batch
from ...protocol.records.batch import HEADER_BYTES, LOG_OVERHEAD, BatchHeader
from ...protocol.records.end_markers import encode_end_transaction
from ...storage.files.failures import LogDirectoryFailure
from ...storage.log.producers import ProducerBatch
from ...storage.log.transaction_checks import check_marker, is_in_transaction
from ...storage.log.unopened import UnopenedLog
from .append_result import AppendResult, QueuedAppend
from .batch_validation import NotAtOnce, Rejected, RejectedUnseen, check_batch
from .plain_batches import MAX_ATTRIBUTES_WITHOUT_FLAGS, validated_header
from .replica import Replica
from .transaction_marker import Marker

if TYPE_CHECKING:
    from ...protocol.buffer import Buffer
    from ...protocol.schema import Records
    from .batch_validation import CheckedBatch

_NONE = int(ErrorCode.NONE)
_NOT_LEADER_OR_FOLLOWER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
_KAFKA_STORAGE_ERROR = int(ErrorCode.KAFKA_STORAGE_ERROR)

_NOT_ENOUGH_REPLICAS = int(ErrorCode.NOT_ENOUGH_REPLICAS)
_POLICY_VIOLATION = int(ErrorCode.POLICY_VIOLATION)
_INVALID_TXN_STATE = int(ErrorCode.INVALID_TXN_STATE)

#: After a client's longest wait for a response (request.timeout.ms), it has no request in flight to the former leader.
TAKEOVER_MS = 30_000
_pack_offset = struct.Struct(">q").pack_into
_pack_epoch = struct.Struct(">i").pack_into
_new_tuple = tuple.__new__

#: Kafka reports the log start offset only with unexpected errors.
_ERRORS_WITHOUT_LOG_START = frozenset(
    {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.CORRUPT_MESSAGE}
)


class HostedPartition(Replica):
    """The appends of the partition's leader: batches of producers, and the broker's own, such as transaction markers.

    An append returns its result at once, or `queued` where a thread checks the batch first; nothing raises for a bad
    batch. After a failure of the log directory the partition is offline, and every append gets KAFKA_STORAGE_ERROR.
    """

    __slots__ = ()

    def append(
        self,
        records: Records,
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
            header = validated_header(
                records, version, now_ms, self.rules, self.log.log_end_offset, self.role.leader_epoch
            )
            if header is not None and (
                header.attributes <= MAX_ATTRIBUTES_WITHOUT_FLAGS
                or (
                    header.producer_id >= 0
                    and (is_in_transaction or self.is_in_transaction(header.producer_id, header.producer_epoch))
                )
            ):
                return self._write(records, header, now_ms)
        return self._append_checked(records, now_ms, required_acks, version, is_in_transaction)

    def _append_checked(
        self, records: Records, now_ms: int, required_acks: int, version: int, is_in_transaction: bool
    ) -> AppendResult:
        validation_error = self._validation_error(required_acks)
        if validation_error is not None:
            return validation_error
        if self.queue is not None:
            return self._enqueue(records, now_ms, required_acks, version, is_in_transaction)
        try:
            checked = check_batch(records, self.rules, version, now_ms, self.name, on_loop=True)
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
        self, records: Records, now_ms: int, required_acks: int, version: int, is_in_transaction: bool
    ) -> AppendResult:
        if self.queue is None:
            from .append_queue import AppendQueue

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
            return self.open_log().write_ahead(checked.buffer, header, queued.now_ms)
        except LogDirectoryFailure as failure:
            self.on_failure(failure)
            return True

    def drop_ahead(self) -> None:
        """Removes what was written of a large batch that was not appended after all."""
        try:
            self.open_log().drop_ahead()
        except LogDirectoryFailure as failure:
            self.on_failure(failure)

    def append_opened(self, checked: CheckedBatch, queued: QueuedAppend) -> AppendResult:
        """Writes a checked batch when its turn has come. Another broker may lead the partition by now."""
        validation_error = self._validation_error(queued.required_acks)
        return validation_error or self._write_checked(checked, queued.now_ms, queued.is_in_transaction)

    def _write_checked(self, checked: CheckedBatch, now_ms: int, is_in_transaction: bool) -> AppendResult:
        buffer, header = checked
        if (
            header.is_transactional
            and not is_in_transaction
            and not self.is_in_transaction(header.producer_id, header.producer_epoch)
        ):
            return self._not_in_transaction(header)
        header = header._replace(base_offset=self.log.log_end_offset, leader_epoch=self.role.leader_epoch)
        return self._write(buffer, header, now_ms)

    def _not_in_transaction(self, header: BatchHeader) -> AppendResult:
        """Rejects a batch outside a transaction. A duplicate is still a duplicate, and a producer with an old epoch
        gets the epoch's error, from which it can recover.
        """
        found = self.open_log().producers.check(header)
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

    def _write(self, buffer: Buffer, header: BatchHeader, now_ms: int) -> AppendResult:
        """Checks idempotence, then appends to the log. `header` has the offset and epoch; they are put into `buffer`
        here.
        """
        log = self.log
        if isinstance(log, UnopenedLog):
            log = self.open_log()
        base_offset = header.base_offset
        if header.producer_id >= 0:
            found = log.producers.check(header)
            if found:
                found = self._checked_again(found, header, now_ms)
            if found:
                return self._already_known(found)
        _pack_offset(buffer, 0, base_offset)
        _pack_epoch(buffer, LOG_OVERHEAD, header.leader_epoch)
        try:
            log.append(buffer, (header,), now_ms)
        except LogDirectoryFailure as failure:
            self.on_failure(failure)
            return AppendResult(_KAFKA_STORAGE_ERROR)
        counters = self.counters
        counters.bytes_in += len(buffer)
        counters.messages_in += header.record_count
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
        log_append_time_ms = header.max_timestamp if self.rules.log_append_time else -1
        result = (_NONE, base_offset, log_append_time_ms, log.log_start_offset, end_offset, (), None, must_flush, None)
        return _new_tuple(AppendResult, result)

    def _flushed(self, end_offset: int, size: int, now_ms: int, error: int) -> None:
        # Batches written by this broker itself did not wait for the disk.
        if not error and end_offset > self.role.log_end_offset and self.role.appended(end_offset, now_ms):
            self._committed(size)

    def _checked_again(
        self, checked: ErrorCode | ProducerBatch, header: BatchHeader, now_ms: int
    ) -> ErrorCode | ProducerBatch:
        """Returns the check's result, without allowance for a former leader once that is long ago."""
        if checked != _NOT_LEADER_OR_FOLLOWER or now_ms - self.takeover_ms < TAKEOVER_MS:
            return checked
        producers = self.open_log().producers
        producers.takeover_offset = None
        return producers.check(header)

    def _already_known(self, checked: ErrorCode | ProducerBatch) -> AppendResult:
        if isinstance(checked, ProducerBatch):
            base_offset, end_offset = checked.base_offset, checked.last_offset + 1
            return AppendResult(_NONE, base_offset, checked.timestamp, self.log_start_offset, end_offset)
        self.counters.failed_produces += 1
        if checked == _NOT_LEADER_OR_FOLLOWER:
            return AppendResult(_NOT_LEADER_OR_FOLLOWER)
        self.counters.invalid_sequence += 1
        return AppendResult(checked, log_start_offset=self.log_start_offset)

    def append_own(self, records: bytes | bytearray, now_ms: int) -> AppendResult:
        """Writes batches created by this broker itself (by a coordinator), which are only required to parse.

        Offsets and leader epoch are put into `records` where it is writable, else into a copy.
        """
        if self.offline or not self.role.is_leader:
            return AppendResult(_KAFKA_STORAGE_ERROR if self.offline else _NOT_LEADER_OR_FOLLOWER)
        buffer = records if isinstance(records, bytearray) else bytearray(records)
        log, epoch = self.open_log(), self.role.leader_epoch
        base_offset = next_offset = log.log_end_offset
        headers: list[BatchHeader] = []
        position, size = 0, len(buffer)
        while position < size:
            _, length, _, *fields = batch.read_header(buffer, position)
            header = _new_tuple(BatchHeader, (next_offset, length, epoch, *fields))
            headers.append(header)
            _pack_offset(buffer, position, next_offset)
            _pack_epoch(buffer, position + LOG_OVERHEAD, epoch)
            next_offset += header.last_offset_delta + 1
            position += length + LOG_OVERHEAD
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

    def append_mirrored(self, records: bytearray, headers: Sequence[BatchHeader], now_ms: int) -> None:
        """Writes batches of a mirrored partition at their own offsets. This leader's epoch is put into `records`.

        `headers` are those of `records`, checked by the caller: CRCs are right, and offsets rise from the log's end. Raises
        LogDirectoryFailure.
        """
        epoch, position = self.role.leader_epoch, 0
        led = []
        for header in headers:
            _pack_epoch(records, position + LOG_OVERHEAD, epoch)
            led.append(header._replace(leader_epoch=epoch))
            position += header.size
        self.open_log().append(records, led, now_ms)
        if self.role.appended(self.log.log_end_offset, now_ms):
            self._committed(len(records))
        if self.end_watchers:
            self._notify_bytes_available(len(records))
        if any(header.is_control for header in led):
            self._wake_after_markers()

    def _wake_after_markers(self) -> None:
        """Wakes consumers with read_committed, which may get more to read than the markers' own bytes."""
        for watcher in list(self.watchers):
            watcher.on_state_changed()

    def is_in_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        return is_in_transaction(self.open_log().producers, producer_id, producer_epoch)

    def end_transaction(self, marker: Marker, now_ms: int) -> AppendResult:
        """Writes the marker that ends a transaction in this partition (KIP-98)."""
        return self.end_transactions((marker,), now_ms)[0]

    def end_transactions(self, markers: Sequence[Marker], now_ms: int) -> list[AppendResult]:
        """Writes the markers of several producers, in one write. Returns a result for each of them, in their order."""
        assert len({marker.producer_id for marker in markers}) == len(markers), (
            "one marker changes the next one's check"
        )
        if self.rules.mirror and not self.rules.mirror.startswith(SWITCHED):
            # The source's markers end the transactions of a mirror. A source that was switched from still ends its own.
            return [AppendResult(_POLICY_VIOLATION)] * len(markers)
        return self._write_markers(markers, now_ms)

    def abort_open_transactions(self, now_ms: int) -> bool:
        """Aborts what is open in a mirror that becomes writable: the source's markers never come. Returns whether none is.

        Up to the source's last stable offset, a mirror may have records of a transaction without its end.
        """
        producers = self.open_log().producers.by_id.values()
        open_ones = [one for one in producers if one.transaction_first_offset != NO_OFFSET]
        if not open_ones:
            return True
        markers = [Marker(one.producer_id, one.epoch, False, max(one.coordinator_epoch, 0), 0) for one in open_ones]
        return not any(result.error for result in self._write_markers(markers, now_ms))

    def _write_markers(self, markers: Sequence[Marker], now_ms: int) -> list[AppendResult]:
        if not self.role.has_enough_in_sync:
            return [AppendResult(_NOT_ENOUGH_REPLICAS)] * len(markers)
        errors: list[int] = []
        batches = bytearray()
        for producer_id, epoch, committed, coordinator_epoch, transaction_version in markers:
            error = check_marker(self.open_log().producers, producer_id, epoch, coordinator_epoch, transaction_version)
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
            self._wake_after_markers()
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
