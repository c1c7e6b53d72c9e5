"""What a broker asks of a batch that a producer sends, and what it makes of it before it is written.

Most batches are asked for their header and their CRC only: that is `HostedPartition.append` itself
(hosted_partition.py), which comes here with every batch that is not plainly good. Here the checks stand in Apache
Kafka's order, so that a batch with two faults is told of the same one:

1. There is one batch and no more, of format 2 (else INVALID_RECORD); zstd only since Produce v7
   (UNSUPPORTED_COMPRESSION_TYPE).
2. Its base offset is 0 (INVALID_RECORD), it is within `max.message.bytes` (MESSAGE_TOO_LARGE), its CRC is right
   (CORRUPT_MESSAGE).
3. Its count and offsets agree, it is no control batch, its sequence is a number (INVALID_RECORD).
4. Its records are in order (INVALID_RECORD, INVALID_TIMESTAMP).
5. What was made of it is within `max.message.bytes` (MESSAGE_TOO_LARGE) and `segment.bytes` (RECORD_LIST_TOO_LARGE).

Records are opened where nothing else can tell (`AppendRules.opens`): on a compacted topic, which takes no record
without a key; where `message.timestamp.before.max.ms` is set, or the largest timestamp in the header is past
`message.timestamp.after.max.ms`; where `compression.type` asks for another codec than the batch has. Apache Kafka
opens every batch; what it finds only so, records that do not parse inside a batch whose CRC is right, is then found by
whoever reads them. Refused records are told one by one (KIP-467).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..protocol.errors import ErrorCode
from ..protocol.records import batch
from ..protocol.records.batch import BatchHeader
from ..protocol.records.compression import LEVELS, Compression
from ..protocol.records.errors import BatchError
from ..protocol.records.record import Record, decode_batch, encode_batch
from ..storage.config import LogConfig

FOREVER_MS = (1 << 63) - 1
#: Produce requests before this version must not hold zstd (KIP-110).
FIRST_VERSION_WITH_ZSTD = 7
#: From here on a second batch shows its magic.
_LEAST_SECOND_BATCH = 17
#: What follows the length in the smallest message of any format.
_LEAST_LENGTH = 14

_CODECS = {"gzip": Compression.GZIP, "snappy": Compression.SNAPPY, "lz4": Compression.LZ4, "zstd": Compression.ZSTD}


class Refused(Exception):
    """The batch is not taken. `record_errors`: (index of the record, why), where single records are at fault."""

    def __init__(
        self, error: int, record_errors: list[tuple[int, str]] | None = None, message: str | None = None
    ) -> None:
        super().__init__(message)
        self.error = error
        self.record_errors = record_errors or []
        self.message = message


class RefusedUnseen(Refused):
    """Refused before the partition is looked at: the answer does not know where its log starts."""


@dataclass(frozen=True, slots=True)
class AppendRules:
    """A topic's settings as far as they concern producers. Shared by its partitions."""

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

    @property
    def is_plain(self) -> bool:
        """Whether a good header and CRC are enough, and the batch is written as it came."""
        return not (
            self.compression is not None
            or self.log_append_time
            or self.compact
            or self.timestamp_before_max_ms != FOREVER_MS
        )

    def opens(self, header: BatchHeader, now_ms: int) -> bool:
        """Whether the records of a batch must be looked at."""
        if self.compact or (self.compression is not None and self.compression is not header.compression):
            return True
        if self.log_append_time:
            return False
        return self.timestamp_before_max_ms != FOREVER_MS or header.max_timestamp - now_ms > self.timestamp_after_max_ms


def append_rules(values: Mapping[str, Any], config: LogConfig) -> AppendRules:
    """From a topic's typed values."""
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
    )


class CheckedBatch(NamedTuple):
    """What is to be written. `header` is that of `buffer`, which may be another than the one that came."""

    buffer: Any
    header: BatchHeader


#: A batch of no codec that is no larger is opened at once: giving it to a thread takes as long.
OPENED_AT_ONCE_BYTES = 4096


def is_costly(records: Any, rules: AppendRules, now_ms: int) -> bool:
    """Whether records have to be opened that may be many; of what is no batch, that is not asked."""
    if records is None:
        return False
    try:
        header = batch.read_header(records)
    except BatchError:
        return False
    codec = header.attributes & batch.COMPRESSION_MASK
    if codec > Compression.ZSTD or (not codec and len(records) <= OPENED_AT_ONCE_BYTES):
        return False
    return rules.opens(header, now_ms)


def check_batch(records: Any, rules: AppendRules, version: int, now_ms: int, partition: str) -> CheckedBatch:
    """All that is asked of the records for one partition, "topic-index", in a Produce request. Raises Refused."""
    try:
        header = _only_batch(records, version)
        buffer = records if header.size == len(records) else records[: header.size]
        if header.base_offset != 0:
            raise Refused(ErrorCode.INVALID_RECORD)
        if header.size > rules.max_message_bytes:
            raise Refused(ErrorCode.MESSAGE_TOO_LARGE)
        batch.check_crc(buffer, 0, header)
        _check_header(buffer, header)
        checked = _check_records(buffer, header, rules, now_ms, partition) if rules.opens(header, now_ms) else None
    except BatchError as error:
        raise Refused(error.error_code) from None
    if checked is None:
        checked = CheckedBatch(buffer, _stamped(buffer, header, rules, now_ms))
    if checked.header.size > rules.max_message_bytes:
        raise Refused(ErrorCode.MESSAGE_TOO_LARGE)
    if checked.header.size > rules.segment_bytes:
        raise Refused(ErrorCode.RECORD_LIST_TOO_LARGE)
    return checked


def _only_batch(records: Any, version: int) -> BatchHeader:
    """The header of the one batch there may be."""
    if records is None or len(records) < _LEAST_SECOND_BATCH:
        raise RefusedUnseen(ErrorCode.INVALID_RECORD)
    _check_first_bytes(records)
    header = batch.read_header(records)
    if header.size > len(records):
        raise RefusedUnseen(ErrorCode.INVALID_RECORD)
    if version < FIRST_VERSION_WITH_ZSTD and header.compression is Compression.ZSTD:
        raise RefusedUnseen(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    # A torn batch behind the first is cut off, as Kafka does.
    if len(records) - header.size >= _LEAST_SECOND_BATCH:
        second = batch.read_header(records, header.size)
        if second.size <= len(records) - header.size:
            raise RefusedUnseen(ErrorCode.INVALID_RECORD)
    return header


def _check_first_bytes(records: Any) -> None:
    """A length or a magic that no batch has, told in Kafka's words: people search for them."""
    length, magic = int.from_bytes(records[8:12], "big", signed=True), records[_LEAST_SECOND_BATCH - 1]
    if length < _LEAST_LENGTH:
        why = f"Record size {length} is less than the minimum record overhead ({_LEAST_LENGTH})"
        raise RefusedUnseen(ErrorCode.CORRUPT_MESSAGE, message=why)
    if magic > batch.MAGIC:
        raise RefusedUnseen(ErrorCode.CORRUPT_MESSAGE, message=f"Invalid magic found in record: {magic}")


def _check_header(buffer: Any, header: BatchHeader) -> None:
    """What must hold of every producer's batch; the CRC has been checked."""
    consistent = 0 < header.record_count == header.last_offset_delta + 1
    if not consistent or header.is_control or (header.has_producer_id and header.base_sequence < 0):
        raise Refused(ErrorCode.INVALID_RECORD)
    assert header.compression is not None


def _stamped(buffer: Any, header: BatchHeader, rules: AppendRules, now_ms: int) -> BatchHeader:
    """The time of the log, where that is the topic's; unopened."""
    if rules.log_append_time:
        if header.attributes & batch.LOG_APPEND_TIME_FLAG:
            raise Refused(ErrorCode.INVALID_TIMESTAMP)
        return batch.set_log_append_time(buffer, 0, header, now_ms)
    if header.attributes & batch.LOG_APPEND_TIME_FLAG:
        header = header._replace(attributes=header.attributes & ~batch.LOG_APPEND_TIME_FLAG)
        batch.write_header(buffer, 0, header)
        return header._replace(crc=batch.seal(buffer, 0, header.size))
    return header


def _check_records(buffer: Any, header: BatchHeader, rules: AppendRules, now_ms: int, partition: str) -> CheckedBatch:
    records = decode_batch(buffer, 0, header, rules.max_decompressed_bytes)
    _raise_if_any(_record_errors(records, header, rules, now_ms, partition))
    source = header.compression
    target = source if rules.compression is None else rules.compression
    in_order = all(record.offset == number for number, record in enumerate(records))
    if target is source and (source is Compression.NONE or in_order):
        return CheckedBatch(buffer, _stamped(buffer, header, rules, now_ms))
    return _rebuilt(records, header, rules, target, now_ms)


def _rebuilt(
    records: list[Record], header: BatchHeader, rules: AppendRules, target: Compression, now_ms: int
) -> CheckedBatch:
    for number, record in enumerate(records):
        record.offset = number
    made = bytearray(
        encode_batch(
            records,
            compression=target,
            level=rules.level,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            log_append_time=now_ms if rules.log_append_time else None,
            transactional=header.is_transactional,
        )
    )
    return CheckedBatch(made, batch.read_header(made))


_Error = tuple[ErrorCode, int, str]
_KEYLESS = "Compacted topic cannot accept message without key in topic partition "
_STAMPED = "Invalid timestamp type in message. Producer should not set timestamp type to LogAppendTime."


def _record_errors(
    records: list[Record], header: BatchHeader, rules: AppendRules, now_ms: int, partition: str
) -> list[_Error]:
    """(code, index, why) of each record that is refused, in Kafka's words: people search for them."""
    earliest, latest = now_ms - rules.timestamp_before_max_ms, now_ms + rules.timestamp_after_max_ms
    stamped = bool(header.attributes & batch.LOG_APPEND_TIME_FLAG)
    errors: list[_Error] = []
    for index, record in enumerate(records):
        if rules.compact and record.key is None:
            errors.append((ErrorCode.INVALID_RECORD, index, _KEYLESS + partition))
        elif rules.log_append_time or record.timestamp == batch.NO_TIMESTAMP:
            if stamped:
                errors.append((ErrorCode.INVALID_TIMESTAMP, index, _STAMPED))
        elif not earliest <= record.timestamp <= latest:
            why = f"Timestamp {record.timestamp} of message with offset {record.offset} is out of range. "
            why += f"The timestamp should be within [{earliest}, {latest}]"
            errors.append((ErrorCode.INVALID_TIMESTAMP, index, why))
    return errors


def _raise_if_any(errors: list[_Error]) -> None:
    if not errors:
        return
    told = [(index, why) for _, index, why in errors]
    if any(code is ErrorCode.INVALID_TIMESTAMP for code, _, _ in errors):
        message = "One or more records have been rejected due to invalid timestamp"
        raise Refused(ErrorCode.INVALID_TIMESTAMP, told, message)
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{why}')" for index, why in told[:3])
    message = f"One or more records have been rejected due to {len(told)} record errors in total, "
    message += f"and only showing the first three errors at most: [{shown}]"
    raise Refused(ErrorCode.INVALID_RECORD, told, message)
