"""The checks of a batch that a producer sends, and the changes to it before it is written.

`HostedPartition.append` takes a batch that is plainly good by the same checks in fewer steps,
and comes here with every other one. The checks stand in Apache Kafka's order, so that a batch with two faults gets
the same error:

1. There is one batch and no more, of format 2 (else INVALID_RECORD); zstd only since Produce v7
   (UNSUPPORTED_COMPRESSION_TYPE).
2. Its base offset is 0 (INVALID_RECORD), it is within `max.message.bytes` (MESSAGE_TOO_LARGE), its CRC is right
   (CORRUPT_MESSAGE).
3. Its count and offsets agree, it is no control batch, its sequence is a number (INVALID_RECORD).
4. It decompresses (UNKNOWN_SERVER_ERROR, as Kafka has it), within the process's budget
   (decompression.py; MESSAGE_TOO_LARGE).
5. As many records as counted tile it exactly (INVALID_RECORD, protocol/records/walk.py); they have the keys and the
   timestamps that the topic wants (INVALID_RECORD, INVALID_TIMESTAMP). Refused records are listed one by one (KIP-467).
6. The resulting batch is within `max.message.bytes` (MESSAGE_TOO_LARGE) and `segment.bytes`
  (RECORD_LIST_TOO_LARGE).

Like Kafka, the broker corrects a maximum timestamp that does not match the records, and compresses anew if
`compression.type` is another codec. Offsets that are not 0, 1, 2 and so on are numbered anew. Kafka stores those of
an uncompressed batch as they are; consumers then skip records. `odradek.produce.validation` takes steps 4 and 5
back, for producers that are trusted. Records become no objects here, whatever their number.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from ...protocol.behaviour_versions import PRODUCE_WITH_ZSTD
from ...protocol.errors import ErrorCode
from ...protocol.records import batch
from ...protocol.records.batch import HEADER_BYTES
from ...protocol.records.compression import Compression, compress
from ...protocol.records.errors import BatchError, CorruptBatch, TooLargeDecompressed
from ...protocol.records.walk import (
    ENDLESS_LENGTH,
    INT_MAX,
    LONG_MAX,
    LONG_MIN,
    WALKED_AT_ONCE_RECORDS,
    WHOLE,
    iter_records,
    renumbered,
    walk,
)
from .append_rules import LARGE_BATCH_BYTES
from .decompression import AT_ONCE, BUDGET, decompressed

if TYPE_CHECKING:
    from ...protocol.buffer import Buffer
    from ...protocol.records.batch import BatchHeader
    from ...protocol.records.walk import Walk
    from ...protocol.schema import Records
    from .append_rules import AppendRules

#: A second batch shows its length from the first offset on, and its magic from the second offset on.
_LEAST_WITH_LENGTH, _LEAST_WITH_MAGIC = 12, 17
#: The size of the rest of the smallest message of any format, after the length.
_LEAST_LENGTH = 14
#: A larger batch that must be recompressed goes to a thread.
RECOMPRESSED_AT_ONCE_BYTES = 4096
#: The maximum number of rejected records that a response lists. A few kilobytes may hold a million of them.
MOST_RECORD_ERRORS = 1000
#: The maximum number of records that are searched for errors or get other offsets. Both are done in Python, and a
#: thread that does it takes the interpreter's lock from the loop.
MOST_EXAMINED_RECORDS = 20_000

_Error = tuple[int, str]
_KEYLESS = "Compacted topic cannot accept message without key in topic partition "
_STAMPED = "Invalid timestamp type in message. Producer should not set timestamp type to LogAppendTime."


class Rejected(Exception):
    """The batch is rejected. `record_errors`: (index of the record, reason), where single records are invalid."""

    def __init__(
        self, error: int, record_errors: list[tuple[int, str]] | None = None, message: str | None = None
    ) -> None:
        super().__init__(message)
        self.error = error
        self.record_errors = record_errors or []
        self.message = message


class NotAtOnce(Exception):
    """The batch needs more work than the event loop may do: a thread checks it."""


class RejectedUnseen(Rejected):
    """The batch is rejected before the partition is looked up: the response has no log start offset."""


class CheckedBatch(NamedTuple):
    """The batch to write. `header` is that of `buffer`, which may differ from the received one."""

    buffer: Buffer
    header: BatchHeader


def check_batch(
    records: Records, rules: AppendRules, version: int, now_ms: int, partition: str, on_loop: bool = False
) -> CheckedBatch:
    """Checks the records for one partition, "topic-index", in a Produce request. Raises Rejected.

    `on_loop`: this thread is that of the event loop; raises NotAtOnce where a thread must do the work.
    """
    try:
        header = _only_batch(records, version)
        assert records is not None, "there is a batch"
        buffer = records if header.size == len(records) else records[: header.size]
        if header.base_offset != 0:
            raise Rejected(ErrorCode.INVALID_RECORD)
        if header.size > rules.max_message_bytes:
            raise Rejected(ErrorCode.MESSAGE_TOO_LARGE)
        if on_loop and header.size > LARGE_BATCH_BYTES:
            raise NotAtOnce
        batch.check_crc(buffer, 0, header)
        _check_header(header)
        if rules.opens(header, now_ms):
            checked = _check_records(buffer, header, rules, now_ms, partition, on_loop)
        else:
            checked = CheckedBatch(buffer, _stamped(buffer, header, rules, now_ms, header.max_timestamp))
    except BatchError as error:
        raise Rejected(error.error_code) from None
    if checked.header.size > rules.max_message_bytes:
        raise Rejected(ErrorCode.MESSAGE_TOO_LARGE)
    if checked.header.size > rules.segment_bytes:
        raise Rejected(ErrorCode.RECORD_LIST_TOO_LARGE)
    return checked


def _only_batch(records: Records, version: int) -> BatchHeader:
    """Returns the header of the only batch allowed. A truncated batch after it is cut off, as in Kafka."""
    size = 0 if records is None else _whole_batch(records, 0)
    if records is None or not size:
        raise RejectedUnseen(ErrorCode.INVALID_RECORD)
    header = batch.read_header(records)
    if header.compression is Compression.ZSTD and version not in PRODUCE_WITH_ZSTD:
        raise RejectedUnseen(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if _whole_batch(records, size):
        raise RejectedUnseen(ErrorCode.INVALID_RECORD)
    return header


def _whole_batch(records: Buffer, at: int) -> int:
    """Returns the size of the batch at `at`, or 0 if there is no whole one. Error messages are Kafka's: people search
    for them.
    """
    remain = len(records) - at
    if remain < _LEAST_WITH_LENGTH:
        return 0
    length = int.from_bytes(records[at + 8 : at + 12], "big", signed=True)
    if length < _LEAST_LENGTH:
        why = f"Record size {length} is less than the minimum record overhead ({_LEAST_LENGTH})"
        raise RejectedUnseen(ErrorCode.CORRUPT_MESSAGE, message=why if at == 0 else None)
    if remain < _LEAST_WITH_MAGIC:
        return 0
    magic = records[at + _LEAST_WITH_MAGIC - 1]
    if magic > batch.MAGIC:
        why = f"Invalid magic found in record: {magic}"
        raise RejectedUnseen(ErrorCode.CORRUPT_MESSAGE, message=why if at == 0 else None)
    size = length + batch.LOG_OVERHEAD
    return size if size <= remain else 0


def _check_header(header: BatchHeader) -> None:
    """Checks the conditions for every producer's batch. The CRC has already been checked."""
    consistent = 0 < header.record_count == header.last_offset_delta + 1
    if not consistent or header.is_control or (header.has_producer_id and header.base_sequence < 0):
        raise Rejected(ErrorCode.INVALID_RECORD)
    assert header.compression is not None


def _check_records(
    buffer: Buffer, header: BatchHeader, rules: AppendRules, now_ms: int, partition: str, on_loop: bool
) -> CheckedBatch:
    codec = header.compression
    packed = memoryview(buffer)[HEADER_BYTES : header.size]
    checked = _Contents(buffer, header, rules, now_ms, partition, on_loop)
    if codec is Compression.NONE:
        if on_loop and len(packed) >= header.record_count and not AT_ONCE.takes(header.record_count, now_ms):
            raise NotAtOnce
        return checked.check(packed)
    try:
        if on_loop:
            payload = AT_ONCE.decompress(codec, packed, header.record_count, now_ms)
            if payload is None:
                raise NotAtOnce
            return checked.check(payload)
        with decompressed(codec, packed, BUDGET) as payload:
            return checked.check(payload)
    except TooLargeDecompressed:
        raise Rejected(ErrorCode.MESSAGE_TOO_LARGE) from None
    except CorruptBatch:
        # Kafka's error: a producer does not retry such a batch, as it would after CORRUPT_MESSAGE.
        raise Rejected(ErrorCode.UNKNOWN_SERVER_ERROR) from None


class _Contents(NamedTuple):
    """Checks a batch's payload and rebuilds the batch if needed."""

    buffer: Buffer
    header: BatchHeader
    rules: AppendRules
    now_ms: int
    partition: str
    on_loop: bool

    def check(self, payload: Buffer) -> CheckedBatch:
        rules, header = self.rules, self.header
        codec = header.compression
        found = self._walked(payload)
        target = codec if rules.compression is None else rules.compression
        if found.disordered and codec and target is codec:
            # Kafka recompresses such a batch and fails, since it has not read the keys and values.
            raise Rejected(ErrorCode.UNKNOWN_SERVER_ERROR)
        if found.disordered and header.record_count > MOST_EXAMINED_RECORDS:
            raise Rejected(ErrorCode.INVALID_RECORD)
        if target is codec and not found.disordered:
            return CheckedBatch(self.buffer, _stamped(self.buffer, header, rules, self.now_ms, found.max_timestamp))
        if self.on_loop and (codec or len(payload) > RECOMPRESSED_AT_ONCE_BYTES):
            raise NotAtOnce
        records = renumbered(payload, header.record_count) if found.disordered else payload
        return self._rebuilt(records, target, found.max_timestamp)

    def _walked(self, payload: Buffer) -> Walk:
        rules, header = self.rules, self.header
        is_free = rules.log_append_time
        found = walk(
            payload,
            0,
            header.record_count,
            header.base_timestamp,
            most_record_bytes=rules.max_decompressed_bytes if header.compression else INT_MAX,
            earliest=LONG_MIN if is_free else max(LONG_MIN, self.now_ms - rules.timestamp_before_max_ms),
            latest=LONG_MAX if is_free else min(LONG_MAX, self.now_ms + rules.timestamp_after_max_ms),
            needs_key=rules.compact,
            releases_gil=not self.on_loop,
        )
        if found.fault != WHOLE:
            is_endless = found.fault == ENDLESS_LENGTH and not header.compression
            raise Rejected(ErrorCode.UNKNOWN_SERVER_ERROR if is_endless else ErrorCode.INVALID_RECORD)
        is_stamped = rules.log_append_time and header.attributes & batch.LOG_APPEND_TIME_FLAG
        if found.keyless or found.out_of_range or is_stamped:
            if self.on_loop and header.record_count > WALKED_AT_ONCE_RECORDS // 100:
                raise NotAtOnce
            total = header.record_count if is_stamped else found.keyless + found.out_of_range
            errors = _record_errors(payload, header, rules, self.now_ms, self.partition)
            _reject_records(errors, total, of_time=bool(found.out_of_range or is_stamped))
        return found

    def _rebuilt(self, payload: Buffer, target: Compression, max_timestamp: int) -> CheckedBatch:
        rules, header = self.rules, self.header
        if not target and len(payload) + HEADER_BYTES > rules.max_message_bytes:
            raise Rejected(ErrorCode.MESSAGE_TOO_LARGE)
        packed = compress(target, payload, rules.level) if target else payload
        if len(packed) + HEADER_BYTES > rules.max_message_bytes:
            raise Rejected(ErrorCode.MESSAGE_TOO_LARGE)
        attributes = target | (header.attributes & batch.TRANSACTIONAL_FLAG)
        made = header._replace(
            length=HEADER_BYTES - batch.LOG_OVERHEAD + len(packed),
            attributes=attributes | (batch.LOG_APPEND_TIME_FLAG if rules.log_append_time else 0),
            max_timestamp=self.now_ms if rules.log_append_time else max_timestamp,
        )
        whole = bytearray(batch.sealed(made, packed))
        return CheckedBatch(whole, batch.read_header(whole))


def _stamped(buffer: Buffer, header: BatchHeader, rules: AppendRules, now_ms: int, max_timestamp: int) -> BatchHeader:
    """Sets the batch's timestamp in its header: the append time where the topic requires that."""
    assert not isinstance(buffer, bytes), "a producer's batch is in a writable buffer"
    if rules.log_append_time:
        if header.attributes & batch.LOG_APPEND_TIME_FLAG:
            raise Rejected(ErrorCode.INVALID_TIMESTAMP)
        return batch.set_log_append_time(buffer, 0, header, now_ms)
    if header.attributes & batch.LOG_APPEND_TIME_FLAG or max_timestamp != header.max_timestamp:
        attributes = header.attributes & ~batch.LOG_APPEND_TIME_FLAG
        header = header._replace(attributes=attributes, max_timestamp=max_timestamp)
        batch.write_header(buffer, 0, header)
        return header._replace(crc=batch.seal(buffer, 0, header.size))
    return header


def _record_errors(
    payload: Buffer, header: BatchHeader, rules: AppendRules, now_ms: int, partition: str
) -> list[_Error]:
    """Returns (index, reason) of the first rejected records, in Kafka's wording: people search for it."""
    return list(islice(_rejected_records(payload, header, rules, now_ms, partition), MOST_RECORD_ERRORS))


def _rejected_records(
    payload: Buffer, header: BatchHeader, rules: AppendRules, now_ms: int, partition: str
) -> Iterator[_Error]:
    earliest, latest = now_ms - rules.timestamp_before_max_ms, now_ms + rules.timestamp_after_max_ms
    stamped = bool(header.attributes & batch.LOG_APPEND_TIME_FLAG)
    records = iter_records(payload, header.record_count, header.base_timestamp)
    for index, (timestamp, has_key) in enumerate(islice(records, MOST_EXAMINED_RECORDS)):
        if rules.compact and not has_key:
            yield index, _KEYLESS + partition
        elif rules.log_append_time:
            if stamped:
                yield index, _STAMPED
        elif timestamp != batch.NO_TIMESTAMP and not earliest <= timestamp <= latest:
            why = f"Timestamp {timestamp} of message with offset {index} is out of range. "
            why += f"The timestamp should be within [{earliest}, {latest}]"
            yield index, why


def _reject_records(reported: list[_Error], total: int, *, of_time: bool) -> NoReturn:
    """Rejects the batch. `total`: the number of rejected records; `reported` has the first of them. `of_time`: some are
    rejected because of their timestamps.
    """
    if of_time:
        message = "One or more records have been rejected due to invalid timestamp"
        raise Rejected(ErrorCode.INVALID_TIMESTAMP, reported, message)
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{why}')" for index, why in reported[:3])
    message = f"One or more records have been rejected due to {total} record errors in total, "
    message += f"and only showing the first three errors at most: [{shown}]"
    raise Rejected(ErrorCode.INVALID_RECORD, reported, message)
