"""Segments and metadata snapshots as rows: batches, their records, and damage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...protocol.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, BatchHeader, read_header
from ...protocol.records.errors import CorruptBatch, InvalidBatch, OldFormatInLog, UnsupportedCompression
from ...protocol.records.record import decode_batch
from ...storage.segments.batches import batches_of
from .contents import Decode, as_text

if TYPE_CHECKING:
    from ...protocol.json_value import JsonObject


class DumpSelection:
    """`records`: those of each batch, too. `first` and `last`: only batches with offsets between, both included."""

    def __init__(self, *, records: bool, first: int = 0, last: int = (1 << 63) - 1) -> None:
        self.records, self.first, self.last = records, first, last


def segment_rows(path: Path, selection: DumpSelection, decode: Decode) -> Iterator[JsonObject]:
    size, end = path.stat().st_size, 0
    try:
        for position, header, batch in batches_of(str(path), size):
            end = position + header.size
            if header.last_offset < selection.first:
                continue
            if header.base_offset > selection.last:
                return
            yield _batch(position, header)
            if selection.records:
                yield from _records(batch, header, decode)
    except OldFormatInLog as error:
        yield {"kind": "damage", "position": end, "bytes": size - end, "reason": str(error)}
        return
    if end != size:
        yield {"kind": "damage", "position": end, "bytes": size - end, "reason": _reason(path, end, size)}


def _reason(path: Path, position: int, size: int) -> str:
    with path.open("rb") as file:
        file.seek(position)
        head = file.read(min(size - position, 1 << 16))
    if not any(head):
        return "zeros, as a preallocated file has them"
    try:
        header = read_header(head, 0)
    except (CorruptBatch, InvalidBatch):
        return "no batch begins here"
    if position + header.size > size:
        return f"a batch of {header.size} bytes is cut short: a torn tail"
    return f"the batch of offsets {header.base_offset} to {header.last_offset} has a wrong CRC"


def _batch(position: int, header: BatchHeader) -> JsonObject:
    try:
        compression = header.compression.name.lower()
    except UnsupportedCompression:
        compression = "unknown"
    return {
        "kind": "batch",
        "position": position,
        "bytes": header.size,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.record_count,
        "leader_epoch": header.leader_epoch,
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "compression": compression,
        "transactional": bool(header.attributes & TRANSACTIONAL_FLAG),
        "control": bool(header.attributes & CONTROL_FLAG),
        "crc": header.crc,
    }


def _records(batch: memoryview, header: BatchHeader, decode: Decode) -> Iterator[JsonObject]:
    try:
        records = decode_batch(batch, 0, header)
    except (CorruptBatch, InvalidBatch, UnsupportedCompression) as error:
        yield {"kind": "damage", "base_offset": header.base_offset, "reason": f"its records cannot be read: {error}"}
        return
    is_control = bool(header.attributes & CONTROL_FLAG)
    for one in records:
        row: JsonObject = {"kind": "record", "offset": one.offset, "timestamp": one.timestamp}
        row |= decode(one.key, one.value, is_control)
        if one.headers:
            row["headers"] = [{"key": name, "value": as_text(content)} for name, content in one.headers]
        yield row
