"""Batches with a correct CRC and contradictory content, of every kind that a producer can send.

Each kind is a function of a codec and the time. It returns the bytes of a partition's records in a Produce request.
`KINDS` holds the kinds by name. `ODD` holds unusual batches, which the broker treats as Apache Kafka does.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from odradek.protocol.records.batch import sealed
from odradek.protocol.records.compression import Compression, compress
from odradek.protocol.zigzag import encode_zigzag

Kind = Callable[[Compression, int], bytes]

INT_MAX = (1 << 31) - 1
LONG_MIN = -(1 << 63)


def record(
    offset_delta: int = 0,
    timestamp_delta: int = 0,
    *,
    key: bytes | None = b"key",
    value: bytes | None = b"value",
    headers: Sequence[tuple[bytes | None, bytes | None]] = (),
    **lies: Any,
) -> bytes:
    """Returns a record. `lies` replace its fields: attributes, length, key_length, value_length, header_count."""
    body = bytes([lies.get("attributes", 0)]) + lies.get("raw_timestamp", encode_zigzag(timestamp_delta))
    body += lies.get("raw_offset", encode_zigzag(offset_delta))
    body += encode_zigzag(lies.get("key_length", -1 if key is None else len(key))) + (key or b"")
    body += encode_zigzag(lies.get("value_length", -1 if value is None else len(value))) + (value or b"")
    body += encode_zigzag(lies.get("header_count", len(headers)))
    for name, content in headers:
        body += encode_zigzag(-1 if name is None else len(name)) + (name or b"")
        body += encode_zigzag(-1 if content is None else len(content)) + (content or b"")
    body += lies.get("rest", b"")
    return bytes(lies.get("raw_length", encode_zigzag(lies.get("length", len(body))))) + body


def batch(payload: bytes, codec: Compression, now_ms: int, *, count: int = 3, **lies: Any) -> bytes:
    """Returns a batch with a correct CRC. `lies` replace fields of its header; `packed` replaces its compressed records."""
    packed = lies.get("packed", bytes(compress(codec, payload)) if codec else payload)
    fields = (
        lies.get("base_offset", 0), 49 + len(packed), -1, 2, 0, codec | lies.get("flags", 0),
        lies.get("last_offset_delta", count - 1), lies.get("base_timestamp", now_ms),
        lies.get("max_timestamp", now_ms), lies.get("producer_id", -1), lies.get("producer_epoch", -1),
        lies.get("base_sequence", -1), count,
    )  # fmt: skip
    return sealed(fields, packed)


def three(**lies: Any) -> bytes:
    """Returns three records; `lies` replace fields of the second one."""
    return record(0) + record(1, **lies) + record(2)


def good_batch(codec: Compression, now_ms: int, **fields: Any) -> bytes:
    return batch(three(), codec, now_ms, **fields)


def _header(**lies: Any) -> Kind:
    return lambda codec, now_ms: batch(three(), codec, now_ms, **lies)


def _record(**lies: Any) -> Kind:
    return lambda codec, now_ms: batch(three(**lies), codec, now_ms)


def _payload(payload: bytes, **lies: Any) -> Kind:
    return lambda codec, now_ms: batch(payload, codec, now_ms, **lies)


def _plain_under_codec(codec: Compression, now_ms: int) -> bytes:
    return batch(b"", codec or Compression.ZSTD, now_ms, packed=three())


def _cut_stream(codec: Compression, now_ms: int) -> bytes:
    payload = b"".join(record(number, value=bytes(range(200))) for number in range(3))
    packed = bytes(compress(codec, payload))
    return batch(b"", codec, now_ms, packed=packed[: len(packed) // 2])


def _empty_lz4_block(_: Compression, now_ms: int) -> bytes:
    """Returns an lz4 batch for any codec, since the others have no such block."""
    frame = bytes(compress(Compression.LZ4, three()))
    return batch(b"", Compression.LZ4, now_ms, packed=frame[:7] + struct.pack("<I", 1 << 31) + frame[7:])


def _followed_by(rest: Callable[[Compression, int], bytes]) -> Kind:
    return lambda codec, now_ms: good_batch(codec, now_ms) + rest(codec, now_ms)


_LONG_VARINT = b"\xff" * 9 + b"\x01"
#: A varint of five bytes whose last has bits past the 32nd: Java drops those bits, other clients do not.
_OVERFLOWING_VARINT = b"\x82\x80\x80\x80\x70"

#: The kinds that Apache Kafka rejects, or that stop a consumer, a tool or the cleaner.
KINDS: dict[str, Kind] = {
    "count and last offset of 2,000": _header(count=2000),
    "count and last offset of 2^31-1": _header(count=INT_MAX),
    "count of 1": _header(count=1),
    "count of 2": _header(count=2),
    "count of 4": _header(count=4),
    "count of 0": _header(count=0, last_offset_delta=2),
    "count of -1": _header(count=-1, last_offset_delta=2),
    "no records, consistent": _payload(b"", count=0),
    "last offset of 2^31-1 alone": _header(last_offset_delta=INT_MAX),
    "last offset of 1 alone": _header(last_offset_delta=1),
    "negative last offset": _header(last_offset_delta=-1),
    "base offset of 7": _header(base_offset=7),
    "base offset of -1": _header(base_offset=-1),
    "codec over plain bytes": _plain_under_codec,
    "codec 5": lambda codec, now_ms: batch(three(), Compression.NONE, now_ms, flags=5),
    "codec 7": lambda codec, now_ms: batch(three(), Compression.NONE, now_ms, flags=7),
    "cut stream": _cut_stream,
    "bytes after the stream": lambda codec, now_ms: batch(
        b"", codec, now_ms, packed=bytes(compress(codec, three())) + b"rubbish"
    ),
    "empty payload": lambda codec, now_ms: batch(b"", codec, now_ms, packed=b""),
    "empty records": _payload(b""),
    "rubbish payload": lambda codec, now_ms: batch(b"", codec, now_ms, packed=bytes(range(7, 200))),
    "rubbish records": _payload(bytes(range(7, 200))),
    "zeros for records": _payload(bytes(100)),
    "bytes after the last record": _payload(three() + b"\0"),
    "a record after the last": _payload(three() + record(3)),
    "many bytes after the last record": _payload(three() + b"x" * 1000),
    "last record cut": _payload(three()[:-1]),
    "record length of -1": _record(length=-1),
    "record length of 0": _record(length=0),
    "record length of 1": _record(length=1),
    "record length of 2^31-1": _record(length=INT_MAX),
    "record length of 2^31": _record(length=1 << 31),
    "record length of -2^31": _record(length=-(1 << 31)),
    "record length one short": _record(length=13),
    "record length one long": _record(length=15),
    "record length as endless varint": _record(raw_length=b"\xff" * 11),
    "record length of overflowing varint": _record(raw_length=b"\x9a\x80\x80\x80\x70"),
    "key longer than its record": _record(key_length=100),
    "key longer than its payload": _record(key_length=1 << 20),
    "key of 2^31-1": _record(key_length=INT_MAX),
    "key of 2^31": _record(key_length=1 << 31),
    "key of 2^40": _record(key_length=1 << 40),
    "key length of -2": _record(key_length=-2, key=None),
    "key one long": _record(key_length=4),
    "key one short": _record(key_length=2),
    "value longer than its record": _record(value_length=100),
    "value of 2^31-1": _record(value_length=INT_MAX),
    "value of 2^31": _record(value_length=1 << 31),
    "value length of -2": _record(value_length=-2, value=None),
    "value one long": _record(value_length=6),
    "value one short": _record(value_length=4),
    "header count of -1": _record(header_count=-1),
    "header count of 1": _record(header_count=1),
    "header count of 2^31-1": _record(header_count=INT_MAX),
    "header count of 2^31": _record(header_count=1 << 31),
    "header count of -2^31": _record(header_count=-(1 << 31)),
    "fewer headers counted": _record(headers=[(b"a", b"b"), (b"c", b"d")], header_count=1),
    "more headers counted": _record(headers=[(b"a", b"b")], header_count=2),
    "null header key": _record(headers=[(None, b"b")]),
    "null second header key": _record(headers=[(b"a", b"b"), (None, b"b")]),
    "header key of -2": _record(header_count=1, rest=encode_zigzag(-2) + encode_zigzag(0)),
    "header key longer than its record": _record(header_count=1, rest=encode_zigzag(50) + b"ab"),
    "header key of 2^31": _record(header_count=1, rest=encode_zigzag(1 << 31) + b"ab"),
    "header value longer than its record": _record(header_count=1, rest=b"\x02a" + encode_zigzag(50) + b"b"),
    "header value of 2^31": _record(header_count=1, rest=b"\x02a" + encode_zigzag(1 << 31) + b"b"),
    "bytes after the headers": _record(rest=b"xyz"),
    "attributes of a record of 255": _record(attributes=255),
    "header key that is no text": _record(headers=[(b"\xff\xfe", b"b")]),
    "offset delta as endless varint": _record(raw_offset=b"\x82" + b"\x80" * 9 + b"\0"),
    "offset delta of overflowing varint": _record(raw_offset=_OVERFLOWING_VARINT),
    "offset delta of ten bytes": _record(raw_offset=b"\x82" + b"\x80" * 8 + b"\0"),
    "timestamp delta as endless varint": _record(raw_timestamp=b"\x80" * 10 + b"\0"),
    "timestamp delta overflowing 64 bits": _record(raw_timestamp=b"\xfe" * 9 + b"\x7e"),
    "timestamp delta of 2^62": _record(timestamp_delta=1 << 62),
    "timestamp delta of 2^63-1": _record(timestamp_delta=(1 << 63) - 1),
    "timestamp delta of a year": _record(timestamp_delta=365 * 86_400_000),
    "base timestamp of 2^63-1": _header(base_timestamp=(1 << 63) - 1),
    "sequence without producer": _header(producer_id=5, producer_epoch=0, base_sequence=-1),
    "control batch": _header(flags=0x20),
    "an empty lz4 block": _empty_lz4_block,
    "a batch behind": _followed_by(good_batch),
    "a length of 13 behind": _followed_by(lambda codec, now_ms: bytes(8) + struct.pack(">i", 13)),
    "a length of 13 and more behind": _followed_by(lambda codec, now_ms: bytes(8) + struct.pack(">i", 13) + bytes(40)),
    "magic 3 behind": _followed_by(lambda codec, now_ms: bytes(8) + struct.pack(">iib", 100, 0, 3) + bytes(40)),
    "magic 1 behind": _followed_by(lambda codec, now_ms: bytes(8) + struct.pack(">iib", 14, 0, 1) + bytes(40)),
    "zeros behind": _followed_by(lambda codec, now_ms: bytes(100)),
    "rubbish behind": _followed_by(lambda codec, now_ms: b"\xff" * 100),
}  # fmt: skip

#: The kinds that the broker corrects, accepts or rejects as Apache Kafka does.
ODD: dict[str, Kind] = {
    "offsets 0, 5, 2": _record(raw_offset=encode_zigzag(5)),
    "offsets 0, -1, 2": _record(raw_offset=encode_zigzag(-1)),
    "offsets 0, 2^30, 2": _record(raw_offset=encode_zigzag(1 << 30)),
    "offsets 0, 0, 0": _payload(record(0) * 3),
    "offsets 1, 2, 3": _payload(record(1) + record(2) + record(3)),
    "timestamp delta of -2^62": _record(timestamp_delta=-(1 << 62)),
    "timestamp delta of -2^63": _record(timestamp_delta=LONG_MIN),
    "timestamp before 1970": _record(timestamp_delta=-(10**14)),
    "max timestamp of 2^63-1": _header(max_timestamp=(1 << 63) - 1),
    "max timestamp of -2^63": _header(max_timestamp=LONG_MIN),
    "max timestamp of -1": _header(max_timestamp=-1),
    "max timestamp of 0": _header(max_timestamp=0),
    "max timestamp below the records'": lambda codec, now_ms: batch(three(), codec, now_ms, max_timestamp=now_ms - 9),
    "max timestamp above the records'": lambda codec, now_ms: batch(three(), codec, now_ms, max_timestamp=now_ms + 9),
    "base timestamp of -1": _header(base_timestamp=-1, max_timestamp=-1),
    "base timestamp of -2": _header(base_timestamp=-2, max_timestamp=-2),
    "base timestamp of -2^63": _header(base_timestamp=LONG_MIN, max_timestamp=LONG_MIN),
    "log append time": _header(flags=0x08),
    "delete horizon": _header(flags=0x40),
    "unknown attributes": _header(flags=0x4F80),
    "negative attributes": _header(flags=-0x8000),
    "producer epoch of -1": _header(producer_id=5, producer_epoch=-1, base_sequence=0),
    "producer id of -2": _header(producer_id=-2),
    "leading sequence alone": _header(base_sequence=3),
    "null key": _record(key=None),
    "null value": _record(value=None),
    "long varints": _record(raw_offset=b"\x82\x80\x80\x80\x00", raw_timestamp=b"\x80\x80\x00"),
    "headers": _record(headers=[(b"", b""), (b"a", None), ("\u00e4\u20ac\U0001f600".encode(), b"b" * 200)]),
    "a batch and a half": lambda codec, now_ms: good_batch(codec, now_ms) + good_batch(codec, now_ms)[:-5],
    "a batch and its first 17 bytes": lambda codec, now_ms: good_batch(codec, now_ms) + good_batch(codec, now_ms)[:17],
    "a batch and its first 16 bytes": lambda codec, now_ms: good_batch(codec, now_ms) + good_batch(codec, now_ms)[:16],
    "a batch and its first 12 bytes": lambda codec, now_ms: good_batch(codec, now_ms) + good_batch(codec, now_ms)[:12],
    "a batch and its first 11 bytes": lambda codec, now_ms: good_batch(codec, now_ms) + good_batch(codec, now_ms)[:11],
    "a batch and a byte": lambda codec, now_ms: good_batch(codec, now_ms) + b"\0",
    "half a batch": lambda codec, now_ms: good_batch(codec, now_ms)[:-5],
    "a batch's first 20 bytes": lambda codec, now_ms: good_batch(codec, now_ms)[:20],
    "no bytes": lambda codec, now_ms: b"",
}
