"""The loop over the records of a batch, compiled into straight-line code as protocol/lower_decode.py does for messages.

A record consists mostly of varints, and nearly all of them take one or two bytes: those are inlined. Keys and values
are not checked against the record's end one by one. `pos` only grows, and must equal the record's end after its last
field.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..source import Source
from ..varint import Fault
from ..zigzag import raw_varint

#: The minimum size of a record without its length: attributes, two deltas, two lengths, a count.
LEAST_BODY_BYTES = 6


def _varint(source: Source, target: str) -> None:
    """Reads the encoded number. It is zigzag, so an odd one is negative."""
    source(f"{target} = data[pos]")
    source("pos += 1")
    with source.block(f"if {target} > 127:"):
        source("more = data[pos]")
        with source.block("if more < 128:"):
            source(f"{target} += (more << 7) - 128")
            source("pos += 1")
        with source.block("else:"):
            source(f"{target}, pos = raw_varint(data, pos - 1)")


def _delta(source: Source, target: str, base: str) -> None:
    _varint(source, "number")
    source(f"{target} = {base} + (number >> 1 ^ -(number & 1))")


def _bytes(source: Source, target: str) -> None:
    _varint(source, "size")
    with source.block("if size & 1:"):
        source(f"{target} = None")
    with source.block("else:"):
        source("stop = pos + (size >> 1)")
        source(f"{target} = data[pos:stop]")
        source("pos = stop")


def lower_records(record_class: type, read_headers: Callable[..., Any]) -> Callable[..., Any]:
    """Compiles `decode(data, count, base_offset, base_timestamp, timestamp) -> (records, position after the last)`.

    If `timestamp` is not None, every record gets it. Raises Fault and IndexError.
    """
    source = Source("decode(data, count, base_offset, base_timestamp, timestamp)")
    source.constants.update(
        Fault=Fault, raw_varint=raw_varint, new=object.__new__, Record=record_class, read_headers=read_headers
    )
    source("records = []")
    source("pos = 0")
    with source.block("for _ in range(count):"):
        _varint(source, "size")
        source(f"if size & 1 or size < {2 * LEAST_BODY_BYTES}: raise Fault")
        source("end = pos + (size >> 1)")
        source("pos += 1")
        source("record = new(Record)")
        _delta(source, "record.timestamp", "base_timestamp")
        source("if timestamp is not None: record.timestamp = timestamp")
        _delta(source, "record.offset", "base_offset")
        _bytes(source, "record.key")
        _bytes(source, "record.value")
        with source.block("if data[pos]:"):
            source("record.headers, pos = read_headers(data, pos, end)")
        with source.block("else:"):
            source("record.headers = []")
            source("pos += 1")
        source("if pos != end: raise Fault")
        source("records.append(record)")
    source("return records, pos")
    return source.compile("<decode records>")
