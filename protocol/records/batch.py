"""The header of a record batch, format 2 (KIP-98): reading, validation and patching without decoding the records.

```
 0 base_offset        int64   not under the CRC: the broker assigns it
 8 length             int32   of what follows it
12 leader_epoch       int32   not under the CRC either
16 magic              int8    2
17 crc                uint32  CRC-32C of all that follows it
21 attributes         int16   codec (3 bits), timestamp type, transactional, control, delete horizon
23 last_offset_delta  int32
27 base_timestamp     int64   or, by its attribute, the delete horizon (KIP-534)
35 max_timestamp      int64
43 producer_id        int64
51 producer_epoch     int16
53 base_sequence      int32
57 record_count       int32
61 the records, compressed as a whole
```

`buf` is any buffer and `pos` the position of the batch in it; functions that write need a writable one. Nothing
is copied.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from ..checksum import crc32c
from .compression import Compression
from .errors import CorruptBatch, InvalidBatch, OldMessageFormat, UnsupportedCompression

if TYPE_CHECKING:
    from ..buffer import Buffer

MAGIC = 2
HEADER_BYTES = 61
#: The base offset and the length; the length does not count them.
LOG_OVERHEAD = 12
#: The least that the length may be, and that of format 0 and 1 messages, which distinguishes an old message from damage.
LEAST_LENGTH = HEADER_BYTES - LOG_OVERHEAD
LEAST_OLD_LENGTH = 14
MAGIC_AT = 16
#: The first byte that the CRC is of.
CRC_FROM = 21
#: The byte with the codec and the flags: the attributes have no bit in the other one.
FLAGS_AT = 22
PRODUCER_AT = 43
#: The last sequence number before the wrap to zero.
MAX_SEQUENCE = 0x7FFFFFFF
NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

_CRC_AT = 17

_HEADER = struct.Struct(">qiibIhiqqqhii")
_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_LENGTH_TO_MAGIC = struct.Struct(">8xiib")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP = struct.Struct(">q")
#: Producer id, epoch and first sequence number, at PRODUCER_AT.
unpack_producer = struct.Struct(">qhi").unpack_from

_CODECS: tuple[Compression | None, ...] = (*Compression, None, None, None)


class TimestampType(IntEnum):
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Returns the size of the whole batch in bytes."""
        return LOG_OVERHEAD + self.length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> Compression:
        codec = _CODECS[self.attributes & COMPRESSION_MASK]
        if codec is None:
            raise UnsupportedCompression(f"compression type {self.attributes & COMPRESSION_MASK} does not exist")
        return codec

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME_FLAG else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_FLAG != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & DELETE_HORIZON_FLAG != 0

    @property
    def is_cleaned(self) -> bool:
        """Returns whether compaction has rewritten the batch; it leaves a batch of which it takes nothing as it is."""
        return self.record_count <= self.last_offset_delta or self.has_delete_horizon

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Returns the sequence number of the last record, or NO_SEQUENCE."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE


def read_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """Returns the header of the batch at `pos`. Only its magic and minimum length are checked.

    The batch may end outside `buf`. Raises CorruptBatch, OldMessageFormat.
    """
    try:
        header: BatchHeader = tuple.__new__(BatchHeader, _HEADER.unpack_from(buf, pos))
    except struct.error:
        raise _not_a_header(buf, pos) from None
    if header.magic != MAGIC or header.length < HEADER_BYTES - LOG_OVERHEAD:
        raise _not_a_header(buf, pos)
    return header


def _not_a_header(buf: Buffer, pos: int) -> CorruptBatch | OldMessageFormat:
    if len(buf) - pos <= MAGIC_AT:
        return CorruptBatch(f"{len(buf) - pos} bytes are too few for a record batch")
    length, _, magic = _LENGTH_TO_MAGIC.unpack_from(buf, pos)
    if magic in (0, 1) and length >= LEAST_OLD_LENGTH:
        return OldMessageFormat(f"message format {magic} was dropped in Kafka 4.0; only format {MAGIC} is accepted")
    if magic != MAGIC:
        return CorruptBatch(f"message format {magic} does not exist")
    if length < HEADER_BYTES - LOG_OVERHEAD:
        return CorruptBatch(f"record batch of {length + LOG_OVERHEAD} bytes, but the header alone has {HEADER_BYTES}")
    return CorruptBatch(f"{len(buf) - pos} bytes are too few for the header of a record batch")


def iter_headers(buf: Buffer, pos: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Yields (position, header) of each batch from `pos` on that is completely in `buf`.

    It stops without an error before an incomplete last batch, as fetched bytes may have one. To make sure that all of
    `buf` was read, compare the end of the last batch with it. Raises CorruptBatch, OldMessageFormat for other errors.
    """
    end = len(buf)
    while end - pos >= HEADER_BYTES:
        header = read_header(buf, pos)
        if header.size > end - pos:
            return
        yield pos, header
        pos += header.size
    if end - pos > MAGIC_AT and buf[pos + MAGIC_AT] != MAGIC:
        raise _not_a_header(buf, pos)


def check_crc(buf: Buffer, pos: int, header: BatchHeader) -> None:
    """Verifies the CRC of a complete batch. Raises CorruptBatch."""
    if header.size > len(buf) - pos:
        raise CorruptBatch(f"record batch of {header.size} bytes, {len(buf) - pos} remain")
    found = crc32c(memoryview(buf)[pos + CRC_FROM : pos + header.size])
    if found != header.crc:
        raise CorruptBatch(
            f"record batch at offset {header.base_offset}: CRC {found:#010x}, but its header has {header.crc:#010x}"
        )


def check_batch(buf: Buffer, pos: int, header: BatchHeader) -> None:
    """Validates the header of a batch from a producer: complete, undamaged, consistent count and offsets, existing
    codec.

    A compacted batch on disk need not satisfy this. Raises CorruptBatch, InvalidBatch, UnsupportedCompression.
    """
    check_crc(buf, pos, header)
    if header.record_count <= 0:
        raise InvalidBatch(f"the record count of a record batch is {header.record_count}")
    if header.last_offset_delta != header.record_count - 1:
        raise InvalidBatch(
            f"record batch of {header.record_count} records ends {header.last_offset_delta} offsets after its first"
        )
    if header.attributes & COMPRESSION_MASK >= len(Compression):
        raise UnsupportedCompression(f"compression type {header.attributes & COMPRESSION_MASK} does not exist")


def patch(buf: bytearray | memoryview, pos: int, base_offset: int, leader_epoch: int) -> None:
    """Writes the fields that the leader assigns. The CRC covers neither, so it stays valid."""
    _OFFSET.pack_into(buf, pos, base_offset)
    _EPOCH.pack_into(buf, pos + LOG_OVERHEAD, leader_epoch)


def set_log_append_time(buf: bytearray | memoryview, pos: int, header: BatchHeader, now_ms: int) -> BatchHeader:
    """Sets the timestamp of every record to `now_ms` (`message.timestamp.type=LogAppendTime`). Returns the new header."""
    attributes = header.attributes | LOG_APPEND_TIME_FLAG
    _ATTRIBUTES.pack_into(buf, pos + CRC_FROM, attributes)
    _MAX_TIMESTAMP.pack_into(buf, pos + 35, now_ms)
    return header._replace(attributes=attributes, max_timestamp=now_ms, crc=seal(buf, pos, header.size))


def seal(buf: bytearray | memoryview, pos: int, size: int) -> int:
    """Computes and writes the CRC of the batch of `size` bytes at `pos`. Returns the CRC."""
    crc: int = crc32c(memoryview(buf)[pos + CRC_FROM : pos + size])
    _CRC.pack_into(buf, pos + _CRC_AT, crc)
    return crc


def sealed(header: BatchHeader | tuple[int, ...], payload: Buffer) -> bytes:
    """Returns a batch of these header fields and this payload, with the correct CRC."""
    fields = _HEADER.pack(*header)
    rest = fields[CRC_FROM:]
    return b"".join((fields[:_CRC_AT], _CRC.pack(crc32c(payload, crc32c(rest))), rest, payload))


def write_header(buf: bytearray | memoryview, pos: int, header: BatchHeader | tuple[int, ...]) -> None:
    """Writes `header`, or its fields, unchanged, including its CRC (see `seal`)."""
    _HEADER.pack_into(buf, pos, *header)
