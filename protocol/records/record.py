"""Decoding of a batch into records, and encoding of records as a batch.

Each record is a length and a body of varints: attributes (unused), timestamp and offset as deltas from the batch's
first, key, value, headers; -1 stands for a null key, value or header value (KIP-98, KIP-82). It is used only where the
records of a batch are needed: compaction, loading of internal topics, recompression, tests. Produce and Fetch do not
use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..varint import Fault
from ..zigzag import encode_zigzag, zigzag_varint
from . import batch
from .batch import TimestampType
from .compression import MAX_DECOMPRESSED_BYTES, Compression, compress, decompress
from .errors import CorruptBatch, InvalidBatch
from .lower_record import LEAST_BODY_BYTES, lower_records

if TYPE_CHECKING:
    from ..buffer import Buffer
    from .batch import BatchHeader

Header = tuple[str, bytes | None]

#: The minimum size of a record with its length.
_LEAST_RECORD_BYTES = LEAST_BODY_BYTES + 1
_NULL = encode_zigzag(-1)
#: The varints of small sizes and deltas, which are most of them.
_SMALL = tuple(map(encode_zigzag, range(256)))
_HALF = 1 << 63


@dataclass(slots=True)
class Record:
    """One record. `timestamp` is in milliseconds; with LogAppendTime it is the batch's."""

    offset: int = 0
    timestamp: int = batch.NO_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = None
    headers: list[Header] = field(default_factory=list)


def decode_batch(
    buf: Buffer, pos: int = 0, header: BatchHeader | None = None, limit: int = MAX_DECOMPRESSED_BYTES
) -> list[Record]:
    """Returns the records of the batch at `pos`. Does not verify the CRC (see `check_crc`).

    `limit`: the maximum decompressed size. Raises CorruptBatch, InvalidBatch, UnsupportedCompression.
    """
    header = header or batch.read_header(buf, pos)
    if header.size > len(buf) - pos:
        raise CorruptBatch(f"record batch of {header.size} bytes, {len(buf) - pos} remain")
    packed = memoryview(buf)[pos + batch.HEADER_BYTES : pos + header.size]
    codec = header.compression
    data = bytes(decompress(codec, packed, limit) if codec else packed)
    if not 0 <= header.record_count * _LEAST_RECORD_BYTES <= len(data):
        raise InvalidBatch(f"a record batch of {len(data)} bytes has the record count {header.record_count}")
    try:
        return _decode_records(data, header)
    except (Fault, IndexError):
        raise InvalidBatch(f"record batch at offset {header.base_offset}: a record does not parse") from None


def _decode_records(data: bytes, header: BatchHeader) -> list[Record]:
    appended = header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    records, pos = _decode_all(data, header.record_count, header.base_offset, header.base_timestamp, appended)
    if pos != len(data):
        raise InvalidBatch(f"{len(data) - pos} bytes left after the last record of a batch")
    found: list[Record] = records
    return found


def _decode_bytes(data: bytes, pos: int, stop: int) -> tuple[bytes | None, int]:
    size, pos = zigzag_varint(data, pos)
    if size < 0:
        return None, pos
    end = pos + size
    if end > stop:
        raise Fault
    return data[pos:end], end


def _decode_headers(data: bytes, pos: int, stop: int) -> tuple[list[Header], int]:
    count, pos = zigzag_varint(data, pos)
    if not 0 <= count <= stop - pos:
        raise Fault
    headers: list[Header] = []
    for _ in range(count):
        name, pos = _decode_bytes(data, pos, stop)
        if name is None:
            raise Fault
        value, pos = _decode_bytes(data, pos, stop)
        headers.append((name.decode(errors="replace"), value))
    return headers, pos


_decode_all = lower_records(Record, _decode_headers)


def encode_batch(
    records: Iterable[Record],
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
    leader_epoch: int = batch.NO_LEADER_EPOCH,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    producer_id: int = batch.NO_PRODUCER_ID,
    producer_epoch: int = batch.NO_PRODUCER_EPOCH,
    base_sequence: int = batch.NO_SEQUENCE,
    log_append_time: int | None = None,
    delete_horizon: int | None = None,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """Returns one batch of `records`, with its CRC.

    `base_offset`, `last_offset`: by default those of the first and the last record; a compacted batch keeps its
    original ones. `log_append_time`: the timestamp of all records with LogAppendTime. `delete_horizon`: the time when
    tombstones may be deleted (KIP-534). A batch without records (compaction keeps one for a producer's last sequence)
    needs both offsets.
    """
    kept = list(records)
    first = kept[0].offset if base_offset is None else base_offset
    last = kept[-1].offset if last_offset is None else last_offset
    attributes: int = compression
    if log_append_time is not None:
        attributes |= batch.LOG_APPEND_TIME_FLAG
    if transactional:
        attributes |= batch.TRANSACTIONAL_FLAG
    if control:
        attributes |= batch.CONTROL_FLAG
    if delete_horizon is not None:
        attributes |= batch.DELETE_HORIZON_FLAG
    newest = kept[0].timestamp if len(kept) == 1 else max((r.timestamp for r in kept), default=batch.NO_TIMESTAMP)
    base_timestamp = kept[0].timestamp if kept else batch.NO_TIMESTAMP
    if delete_horizon is not None:
        base_timestamp = delete_horizon
    payload: Buffer = _encode_records(kept, first, base_timestamp)
    if compression:
        payload = compress(compression, payload, level)
    fields = (
        first, batch.HEADER_BYTES - batch.LOG_OVERHEAD + len(payload), leader_epoch, batch.MAGIC, 0, attributes,
        last - first, base_timestamp, newest if log_append_time is None else log_append_time,
        producer_id, producer_epoch, base_sequence, len(kept),
    )  # fmt: skip
    return batch.sealed(fields, payload)


def _encode_records(records: Sequence[Record], base_offset: int, base_timestamp: int) -> bytes:
    pieces: list[bytes] = []
    for record in records:
        body = _encode_body(record, base_offset, base_timestamp)
        size = len(body)
        pieces += (_SMALL[size] if size < 256 else encode_zigzag(size), body)
    return b"".join(pieces)


def encoded_size(record: Record, *, base_offset: int = 0, base_timestamp: int) -> int:
    """Returns the uncompressed size that a record adds to its batch, in bytes."""
    body = len(_encode_body(record, base_offset, base_timestamp))
    return len(encode_zigzag(body)) + body


def _encode_body(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    key, value, headers = record.key, record.value, record.headers
    delta = record.timestamp - base_timestamp
    if not -_HALF <= delta < _HALF:
        # In 64 bits, as in Java; the sum is correct again.
        delta = (delta + _HALF) % (2 * _HALF) - _HALF
    place = record.offset - base_offset
    pieces = [
        b"\0",
        _SMALL[delta] if 0 <= delta < 256 else encode_zigzag(delta),
        _SMALL[place] if 0 <= place < 256 else encode_zigzag(place),
    ]
    for content in (key, value):
        if content is None:
            pieces.append(_NULL)
        else:
            size = len(content)
            pieces += (_SMALL[size] if size < 256 else encode_zigzag(size), content)
    count = len(headers)
    pieces.append(_SMALL[count] if count < 256 else encode_zigzag(count))
    for name, content in headers:
        encoded = name.encode()
        pieces += (encode_zigzag(len(encoded)), encoded)
        pieces += (_NULL,) if content is None else (encode_zigzag(len(content)), content)
    return b"".join(pieces)
