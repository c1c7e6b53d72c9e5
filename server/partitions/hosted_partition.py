"""A partition with a replica on this broker, and the appends of producers to it; `Replica` holds the replica's state.

`append` handles a producer's batch. A plainly valid batch is written as received, with its offset and leader epoch set:
its header and CRC are valid, and one walk shows that its records match the header and the topic's rules. Every other
batch goes through `batch_validation.py`, which rejects it or produces what is to be written.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ErrorCode
from ...protocol.records import batch
from ...protocol.records.batch import HEADER_BYTES, LOG_OVERHEAD, BatchHeader
from ...protocol.records.control import encode_end_transaction
from ...storage.files.open_files import LogDirectoryFailure
from ...storage.log.producers import ProducerBatch
from ...storage.log.transaction_checks import check_marker, is_in_transaction
from .append_queue import AppendQueue
from .append_result import AppendResult, QueuedAppend
from .batch_validation import CheckedBatch, NotAtOnce, Rejected, RejectedUnseen, check_batch
from .plain_batches import plain_header
from .replica import Replica

if TYPE_CHECKING:
    from .transaction_marker import Marker

_NONE = int(ErrorCode.NONE)
_NOT_LEADER_OR_FOLLOWER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
_NOT_ENOUGH_REPLICAS = int(ErrorCode.NOT_ENOUGH_REPLICAS)
_KAFKA_STORAGE_ERROR = int(ErrorCode.KAFKA_STORAGE_ERROR)
_INVALID_TXN_STATE = int(ErrorCode.INVALID_TXN_STATE)

ALL_IN_SYNC = -1
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

        `version` is that of the Produce request. No part of `records` is kept. `is_in_transaction`: the coordinator has
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
            self.queue = AppendQueue(self)
            self.refresh_append_state()
        queued = QueuedAppend(len(records or b""), now_ms, required_acks, is_in_transaction=is_in_transaction)
        self.queue.add(queued, records, version)
        return AppendResult(_NONE, queued=queued)

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

    def _already_known(self, found: ErrorCode | ProducerBatch) -> AppendResult:
        if isinstance(found, ProducerBatch):
            base_offset, end_offset = found.base_offset, found.last_offset + 1
            return AppendResult(_NONE, base_offset, found.timestamp, self.log_start_offset, end_offset)
        self.counters.failed_produces += 1
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
        producer_id, epoch, committed, coordinator_epoch, transaction_version = marker
        if not self.role.has_enough_in_sync:
            return AppendResult(_NOT_ENOUGH_REPLICAS)
        error = check_marker(self.log.producers, producer_id, epoch, coordinator_epoch, transaction_version)
        if error:
            return AppendResult(error)
        batch_of_marker = encode_end_transaction(
            committed,
            base_offset=0,
            timestamp=now_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            coordinator_epoch=coordinator_epoch,
        )
        result = self.append_own(batch_of_marker, now_ms)
        if not result.error:
            # Consumers with read_committed may get more to read than the marker's own bytes.
            for watcher in list(self.watchers):
                watcher.on_state_changed()
        return result


#: Kafka reports the log start offset only with unexpected errors.
_ERRORS_WITHOUT_LOG_START = frozenset(
    {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.CORRUPT_MESSAGE}
)
