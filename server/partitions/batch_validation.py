"""The checks of a batch that a producer sends, and the changes to it before it is written.

`HostedPartition.append` (hosted_partition.py) takes a batch that is plainly good by the same checks in fewer steps,
and comes here with every other one. The checks stand in Apache Kafka's order, so that a batch with two faults gets
the same error:

1. There is one batch and no more, of format 2 (else INVALID_RECORD); zstd only since Produce v7
   (UNSUPPORTED_COMPRESSION_TYPE).
2. Its base offset is 0 (INVALID_RECORD), it is within `max.message.bytes` (MESSAGE_TOO_LARGE), its CRC is right
   (CORRUPT_MESSAGE).
3. Its count and offsets agree, it is no control batch, its sequence is a number (INVALID_RECORD).
4. It decompresses (UNKNOWN_SERVER_ERROR, as Kafka has it), within the process's budget
   (`MemoryBudget`; MESSAGE_TOO_LARGE).
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

import mmap
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import islice
from typing import Any, NamedTuple, NoReturn

from ...protocol.checksum import crc32c
from ...protocol.errors import ErrorCode
from ...protocol.records import batch
from ...protocol.records.batch import COMPRESSION_MASK, HEADER_BYTES, LOG_OVERHEAD, TRANSACTIONAL_FLAG, BatchHeader
from ...protocol.records.compression import (
    LEVELS,
    MAX_DECOMPRESSED_BYTES,
    Compression,
    compress,
    decompress_into,
    unpack,
)
from ...protocol.records.errors import BatchError, CorruptBatch, TooLargeDecompressed
from ...protocol.records.walk import (
    ENDLESS_LENGTH,
    INT_MAX,
    LONG_MAX,
    LONG_MIN,
    WALKED_AT_ONCE_RECORDS,
    WHOLE,
    Walk,
    iter_records,
    raw_walk,
    renumbered,
    walk,
)
from ...protocol.varint import Buffer
from ...storage.log.config import LogConfig
from ..runtime.thread_pools import CPU_THREADS

# Decompresses produced batches: small ones directly on the event loop, others on a thread, both in bounded memory.
#
# A batch of a few kilobytes may hold hundreds of megabytes. The loop decompresses into a buffer of a megabyte that it
# keeps, and hands a batch that does not fit to a thread. A thread keeps a buffer as well, for batches of the usual
# size. It decompresses a larger one into a memory mapping, whose pages are allocated as they are written and return
# to the system when it is closed. Decompression releases the interpreter's lock.


#: A larger batch goes to a thread: gzip, the slowest codec, takes some 4 us for a kilobyte.
OPENED_AT_ONCE_BYTES = 64 << 10
#: The buffer for one batch on the loop, and the limit of what the loop decompresses for one request: some 4 ms with
#: gzip.
DECOMPRESSED_AT_ONCE_BYTES = 1 << 20
#: The total decompressed size of all batches on threads: one of the largest on each.
DECOMPRESSED_IN_FLIGHT_BYTES = CPU_THREADS * MAX_DECOMPRESSED_BYTES
#  The buffer that each thread keeps: twice the largest batch of a producer with default settings. A mapping's fresh pages
#  cost 0.3 to 0.5 s of the kernel's CPU for a gigabyte.
KEPT_BYTES = 2 << 20
#: The expected decompressed size of a batch, as a multiple of its size: a second attempt costs less than a reservation
#: of the whole budget for each batch.
_EXPECTED_RATIO = 16


class OpenedAtOnce(threading.local):
    """The work that the loop of this thread does during one request; each request has its own time."""

    def __init__(self) -> None:
        self.budget = InlineBudget()

    def takes(self, records: int, now_ms: int) -> bool:
        """Returns whether the loop may walk this many more records."""
        budget = self.budget.of_request(now_ms)
        if not 0 < records <= budget.records_left:
            return False
        budget.records_left -= records
        return True

    def decompress(self, codec: int, packed: Any, records: int, now_ms: int) -> Buffer | None:
        """Returns the payload, valid until the next call; None when a thread must do the work. Raises CorruptBatch."""
        if len(packed) > OPENED_AT_ONCE_BYTES or not self.takes(records, now_ms):
            return None
        return self.budget.decompress(codec, packed)


class InlineBudget:
    """The rest of that work, and the memory for it."""

    __slots__ = ("bytes_left", "records_left", "request_ms", "scratch")

    def __init__(self) -> None:
        self.request_ms = -1
        self.records_left = self.bytes_left = 0
        #: Made for the first request: other threads need none.
        self.scratch = memoryview(b"")

    def of_request(self, now_ms: int) -> InlineBudget:
        if now_ms != self.request_ms:
            self.begin(now_ms)
        return self

    def begin(self, now_ms: int) -> None:
        self.request_ms = now_ms
        self.records_left = WALKED_AT_ONCE_RECORDS
        self.bytes_left = DECOMPRESSED_AT_ONCE_BYTES
        if not self.scratch:
            self.scratch = memoryview(bytearray(DECOMPRESSED_AT_ONCE_BYTES))

    def decompress(self, codec: int, packed: Any) -> Buffer | None:
        if self.bytes_left <= 0:
            return None
        try:
            payload = unpack(codec, packed, self.scratch)
        except TooLargeDecompressed:
            self.bytes_left = 0
            return None
        self.bytes_left -= len(payload)
        return payload


class MemoryBudget:
    """The bytes that threads may use together. A thread that requests more than is left waits until others release
    theirs.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0
        self._changed = threading.Condition()

    @contextmanager
    def reserve(self, size: int) -> Iterator[None]:
        assert size <= self.total, "a reservation must not exceed the total"
        with self._changed:
            self._changed.wait_for(lambda: self.used + size <= self.total)
            self.used += size
        try:
            yield
        finally:
            with self._changed:
                self.used -= size
                self._changed.notify_all()


class _Kept(threading.local):
    """A thread's buffer."""

    def __init__(self) -> None:
        self.room = memoryview(bytearray(KEPT_BYTES))


_KEPT = _Kept()


@contextmanager
def decompressed(codec: Compression, packed: Any, budget: MemoryBudget) -> Iterator[memoryview]:
    """Yields the payload on a thread, in the buffer that it keeps, or in memory that returns to the system afterwards.

    Raises TooLargeDecompressed when it takes more than MAX_DECOMPRESSED_BYTES, CorruptBatch.
    """
    kept = _KEPT.room
    try:
        made = decompress_into(codec, packed, kept)
    except TooLargeDecompressed:
        pass
    else:
        yield kept[:made]
        return
    expected = max(2 * KEPT_BYTES, len(packed) * _EXPECTED_RATIO)
    most = min(MAX_DECOMPRESSED_BYTES, budget.total)
    for size in (min(expected, most), most):
        with budget.reserve(size), mmap.mmap(-1, size) as room:
            try:
                made = decompress_into(codec, packed, room)
            except TooLargeDecompressed:
                if size == most:
                    raise
                continue
            # Views must be released before the mapping is closed.
            with memoryview(room) as whole, whole[:made] as payload:
                yield payload
            return


AT_ONCE = OpenedAtOnce()
BUDGET = MemoryBudget(DECOMPRESSED_IN_FLIGHT_BYTES)


FOREVER_MS = (1 << 63) - 1
#: Produce requests before this version must not contain zstd (KIP-110).
FIRST_VERSION_WITH_ZSTD = 7
#: A second batch shows its length from the first offset on, and its magic from the second offset on.
_LEAST_WITH_LENGTH, _LEAST_WITH_MAGIC = 12, 17
#: The size of the rest of the smallest message of any format, after the length.
_LEAST_LENGTH = 14

_CODECS = {"gzip": Compression.GZIP, "snappy": Compression.SNAPPY, "lz4": Compression.LZ4, "zstd": Compression.ZSTD}


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


class Validation(IntEnum):
    """`odradek.produce.validation`: each level includes the checks of the levels before it."""

    #: The header and the CRC.
    HEADER = 0
    #: The records of batches that are not compressed.
    FRAMING = 1
    #: The records of every batch.
    FULL = 2


@dataclass(frozen=True, slots=True)
class AppendRules:
    """A topic's settings that concern producers. Shared by its partitions."""

    #: None keeps the codec that the producer chose.
    compression: Compression | None
    level: int | None
    log_append_time: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    compact: bool
    min_insync_replicas: int
    max_message_bytes: int
    max_decompressed_bytes: int
    segment_bytes: int

    validation: Validation = Validation.FULL
    #: The codecs of the batches whose records are checked in any case: a bit for each.
    checked_codecs: int = field(init=False)
    #: Whether a valid batch is written unchanged, and the size up to which it is checked at once.
    is_plain: bool = field(init=False)
    most_plain_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_plain", self.compression is None and not self.log_append_time)
        most_bytes = min(self.max_message_bytes, self.segment_bytes, LARGE_BATCH_BYTES)
        object.__setattr__(self, "most_plain_bytes", most_bytes)
        is_checked = (self.validation >= (Validation.FULL if codec else Validation.FRAMING) for codec in Compression)
        codecs = sum(1 << codec for codec, checked in zip(Compression, is_checked) if checked or self.needs_records)
        object.__setattr__(self, "checked_codecs", codecs)

    @property
    def needs_records(self) -> bool:
        """Returns whether the topic's own rules concern single records."""
        return self.compact or (self.timestamp_before_max_ms != FOREVER_MS and not self.log_append_time)

    def opens(self, header: BatchHeader, now_ms: int) -> bool:
        """Returns whether the records of a batch are checked."""
        codec = header.compression
        assert codec is not None, "checked with the header"
        if self.checked_codecs >> codec & 1:
            return True
        if self.compression is not None and self.compression is not codec:
            return True
        return not self.log_append_time and header.max_timestamp - now_ms > self.timestamp_after_max_ms


def append_rules(values: Mapping[str, Any], config: LogConfig, validation: str = "full") -> AppendRules:
    """Builds the rules from a topic's typed values and the broker's `odradek.produce.validation`."""
    name = values["compression.type"]
    codec = None if name == "producer" else _CODECS.get(name, Compression.NONE)
    return AppendRules(
        compression=codec,
        level=values[f"compression.{name}.level"] if codec in LEVELS else None,
        log_append_time=values["message.timestamp.type"] == "LogAppendTime",
        timestamp_before_max_ms=values["message.timestamp.before.max.ms"],
        timestamp_after_max_ms=values["message.timestamp.after.max.ms"],
        compact=config.compact,
        min_insync_replicas=values["min.insync.replicas"],
        max_message_bytes=config.max_message_bytes,
        max_decompressed_bytes=values["max.decompressed.message.bytes"],
        segment_bytes=config.segment_bytes,
        validation=Validation[validation.upper()],
    )


class CheckedBatch(NamedTuple):
    """The batch to write. `header` is that of `buffer`, which may differ from the received one."""

    buffer: Any
    header: BatchHeader


#: A thread checks a larger batch, and the loop writes it in parts: to do both at once would hold the loop for a
#: millisecond a megabyte. With the default `max.message.bytes` there is none. The frame of such a batch has a buffer of
#: its own, larger than the one that connections share, so that the batch is not copied for the thread.
LARGE_BATCH_BYTES = 1 << 21
#: A larger batch that must be recompressed goes to a thread.
RECOMPRESSED_AT_ONCE_BYTES = 4096
#: The maximum number of rejected records that a response lists. A few kilobytes may hold a million of them.
MOST_RECORD_ERRORS = 1000
#: The maximum number of records that are searched for errors or get other offsets. Both are done in Python, and a
#: thread that does it takes the interpreter's lock from the loop.
MOST_EXAMINED_RECORDS = 20_000


def check_batch(
    records: Any, rules: AppendRules, version: int, now_ms: int, partition: str, run_to_completion: bool = False
) -> CheckedBatch:
    """Checks the records for one partition, "topic-index", in a Produce request. Raises Rejected.

    `run_to_completion`: on the event loop; raises NotAtOnce where a thread must do the work.
    """
    try:
        header = _only_batch(records, version)
        buffer = records if header.size == len(records) else records[: header.size]
        if header.base_offset != 0:
            raise Rejected(ErrorCode.INVALID_RECORD)
        if header.size > rules.max_message_bytes:
            raise Rejected(ErrorCode.MESSAGE_TOO_LARGE)
        if run_to_completion and header.size > LARGE_BATCH_BYTES:
            raise NotAtOnce
        batch.check_crc(buffer, 0, header)
        _check_header(header)
        if rules.opens(header, now_ms):
            checked = _check_records(buffer, header, rules, now_ms, partition, run_to_completion)
        else:
            checked = CheckedBatch(buffer, _stamped(buffer, header, rules, now_ms, header.max_timestamp))
    except BatchError as error:
        raise Rejected(error.error_code) from None
    if checked.header.size > rules.max_message_bytes:
        raise Rejected(ErrorCode.MESSAGE_TOO_LARGE)
    if checked.header.size > rules.segment_bytes:
        raise Rejected(ErrorCode.RECORD_LIST_TOO_LARGE)
    return checked


def _only_batch(records: Any, version: int) -> BatchHeader:
    """Returns the header of the only batch allowed. A truncated batch after it is cut off, as in Kafka."""
    size = 0 if records is None else _whole_batch(records, 0)
    if not size:
        raise RejectedUnseen(ErrorCode.INVALID_RECORD)
    header = batch.read_header(records)
    if version < FIRST_VERSION_WITH_ZSTD and header.compression is Compression.ZSTD:
        raise RejectedUnseen(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if _whole_batch(records, size):
        raise RejectedUnseen(ErrorCode.INVALID_RECORD)
    return header


def _whole_batch(records: Any, at: int) -> int:
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


def _stamped(buffer: Any, header: BatchHeader, rules: AppendRules, now_ms: int, max_timestamp: int) -> BatchHeader:
    """Sets the batch's timestamp in its header: the append time where the topic requires that."""
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


def _check_records(
    buffer: Any, header: BatchHeader, rules: AppendRules, now_ms: int, partition: str, run_to_completion: bool
) -> CheckedBatch:
    codec = header.compression
    packed = memoryview(buffer)[HEADER_BYTES : header.size]
    checked = _Contents(buffer, header, rules, now_ms, partition, run_to_completion)
    if codec is Compression.NONE:
        if run_to_completion and len(packed) >= header.record_count and not AT_ONCE.takes(header.record_count, now_ms):
            raise NotAtOnce
        return checked.check(packed)
    try:
        if run_to_completion:
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

    buffer: Any
    header: BatchHeader
    rules: AppendRules
    now_ms: int
    partition: str
    run_to_completion: bool

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
        if self.run_to_completion and (codec or len(payload) > RECOMPRESSED_AT_ONCE_BYTES):
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
            releases_gil=not self.run_to_completion,
        )
        if found.fault != WHOLE:
            is_endless = found.fault == ENDLESS_LENGTH and not header.compression
            raise Rejected(ErrorCode.UNKNOWN_SERVER_ERROR if is_endless else ErrorCode.INVALID_RECORD)
        is_stamped = rules.log_append_time and header.attributes & batch.LOG_APPEND_TIME_FLAG
        if found.keyless or found.out_of_range or is_stamped:
            if self.run_to_completion and header.record_count > WALKED_AT_ONCE_RECORDS // 100:
                raise NotAtOnce
            total = header.record_count if is_stamped else found.keyless + found.out_of_range
            errors = _record_errors(payload, header, rules, self.now_ms, self.partition)
            _reject_records(errors, total, of_time=bool(found.out_of_range or is_stamped))
        return found

    def _rebuilt(self, payload: Any, target: Compression, max_timestamp: int) -> CheckedBatch:
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


_Error = tuple[int, str]
_KEYLESS = "Compacted topic cannot accept message without key in topic partition "
_STAMPED = "Invalid timestamp type in message. Producer should not set timestamp type to LogAppendTime."


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


# The first validation of a produced batch: a batch that passes is written unchanged.
#
# One walk checks that the header, the CRC, the records and the topic's rules agree. The kernel (kernel/validation.c)
# does all of it but the CRC in one call, for gzip and zstd where the packages `isal` and `zstandard` are installed;
# without the kernel, this module does the same. `batch_validation.py` decides on batches that do not pass, so this
# validation may reject good batches, and never accepts bad ones.


try:
    from odradek_kernel import validate_batch as _validate_batch
except ImportError:  # pip had no compiler; the kernel may be of another version in a checkout.
    _validate_batch = None

_unpack_header = struct.Struct(">qiibIhiqqqhii").unpack_from
_new_tuple = tuple.__new__
#: The greatest value of a batch's attributes with a codec and nothing else.
_ZSTD = 4
#: The kernel leaves the records to a library.
_UNOPENED = -1


def pure_plain_header(
    records: Any, version: int, now_ms: int, rules: AppendRules, base_offset: int, leader_epoch: int
) -> BatchHeader | None:
    """Returns the header of a batch that is plainly good, with its offset and epoch; None for any other.

    `records` has a header's size or more. `version` is that of the Produce request. Whether a transaction is open is not
    looked at.
    """
    (
        first_offset, length, _, magic, crc, attributes, last_delta, base_timestamp, max_timestamp, producer_id,
        producer_epoch, sequence, count,
    ) = _unpack_header(records)  # fmt: skip
    codec = attributes & ~TRANSACTIONAL_FLAG
    if (
        magic != 2
        or first_offset != 0
        or length + LOG_OVERHEAD != len(records)
        or not 0 <= codec <= _ZSTD
        or (codec == _ZSTD and version < FIRST_VERSION_WITH_ZSTD)
        or not 0 < count == last_delta + 1
        or (producer_id >= 0 > sequence)
        or crc32c(memoryview(records)[21:]) != crc
    ):
        return None
    fields = (
        base_offset, length, leader_epoch, 2, crc, attributes, last_delta, base_timestamp, max_timestamp, producer_id,
        producer_epoch, sequence, count,
    )  # fmt: skip
    header = _new_tuple(BatchHeader, fields)
    if not rules.checked_codecs >> codec & 1:
        return header if max_timestamp <= now_ms + rules.timestamp_after_max_ms else None
    budget = AT_ONCE.budget.of_request(now_ms)
    if count > budget.records_left or (codec and len(records) - HEADER_BYTES > OPENED_AT_ONCE_BYTES):
        return None
    return header if _has_good_records(records, header, now_ms, rules, budget) else None


def _has_good_records(records: Any, header: BatchHeader, now_ms: int, rules: AppendRules, budget: InlineBudget) -> bool:
    """Returns whether the records match the header and the topic's rules, as far as the loop can check at once."""
    count, payload, start, most = header[12], records, HEADER_BYTES, INT_MAX
    budget.records_left -= count
    codec = header[5] & COMPRESSION_MASK
    if codec:
        try:
            payload = budget.decompress(codec, memoryview(records)[HEADER_BYTES:])
        except CorruptBatch:
            return False
        if payload is None:
            return False
        start, most = 0, rules.max_decompressed_bytes
    latest = min(now_ms + rules.timestamp_after_max_ms, LONG_MAX)
    earliest = now_ms - rules.timestamp_before_max_ms
    found = raw_walk(payload, start, count, most, header[7], earliest, latest, rules.compact, False)
    return found == (0, header[8], 0, 0, 0)


def _compiled_plain_header(
    records: Any, version: int, now_ms: int, rules: AppendRules, base_offset: int, leader_epoch: int
) -> BatchHeader | None:
    """Does the same by the kernel."""
    budget = AT_ONCE.budget
    if budget.request_ms != now_ms:
        budget.begin(now_ms)
    found = _validate_batch(
        records, budget.scratch, version, now_ms, rules.timestamp_before_max_ms, rules.timestamp_after_max_ms,
        rules.max_decompressed_bytes, rules.compact, rules.checked_codecs, budget.records_left,
        OPENED_AT_ONCE_BYTES if budget.bytes_left > 0 else 0, base_offset, leader_epoch,
    )  # fmt: skip
    if found is None or crc32c(memoryview(records)[21:]) != found[4]:
        return None
    header: BatchHeader = _new_tuple(BatchHeader, found[:13])
    made = found[13]
    if made == _UNOPENED:
        return header if _has_good_records(records, header, now_ms, rules, budget) else None
    budget.bytes_left -= made
    budget.records_left -= header[12]
    return header


plain_header: Callable[[Any, int, int, AppendRules, int, int], BatchHeader | None] = (
    pure_plain_header if _validate_batch is None else _compiled_plain_header
)


# The result of an append, and a batch whose result is not known yet.


class QueuedAppend:
    """A batch in the queue. `then` must be set in the turn in which the batch was queued."""

    __slots__ = ("found", "is_in_transaction", "now_ms", "required_acks", "size", "then")

    def __init__(self, size: int, now_ms: int, required_acks: int, *, is_in_transaction: bool) -> None:
        self.size = size
        self.now_ms = now_ms
        self.required_acks = required_acks
        self.is_in_transaction = is_in_transaction
        #: The thread's result, once it is done.
        self.found: CheckedBatch | BaseException | None = None
        self.then: Callable[[AppendResult], object] = _forget


class AppendResult(NamedTuple):
    """The result of an append. `error` is a Kafka error code; offsets and time are -1 where they are not known."""

    error: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    #: The offset after the batch, for `when_committed`.
    end_offset: int = -1
    #: (index of the record, reason) where single records were rejected, and the error message for all of them.
    record_errors: list[tuple[int, str]] | tuple[()] = ()
    error_message: str | None = None
    #: True if `flush.messages` requires a flush before the producer gets its response (`want_flushed`).
    must_flush: bool = False
    #: Set if a thread opens the batch first and it is written later; nothing else is known yet.
    queued: QueuedAppend | None = None


def _forget(_: AppendResult) -> None:
    """Ignores the result."""
