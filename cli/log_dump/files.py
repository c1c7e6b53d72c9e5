"""Files of a data directory as rows: batches and records of segments and snapshots, entries of indexes, checkpoints.

A row is a mapping whose `kind` names it. Files are read in pieces; nothing is changed, and a broker may run meanwhile.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...protocol.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, BatchHeader, read_header
from ...protocol.records.errors import CorruptBatch, InvalidBatch, OldFormatInLog, UnsupportedCompression
from ...protocol.records.record import decode_batch
from ...storage.files.open_files import PartitionDirectory, base_offset_of
from ...storage.segments.aborted import CorruptSnapshot, decode_snapshot, read_aborted
from ...storage.segments.recovery import batches_of
from .contents import Decode, as_text, plain_content

if TYPE_CHECKING:
    from ...protocol.json_value import JsonValue


Row = dict[str, "JsonValue"]

_SNAPSHOT_OF_METADATA = re.compile(r"\d{20}-\d{10}\.checkpoint")
_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_INDEX_PIECE_BYTES = 1 << 20
#: Limit of a text file or a producer snapshot.
_MOST_BYTES = 64 << 20


class Selection:
    """`records`: those of each batch, too. `first` and `last`: only batches with offsets between, both included."""

    def __init__(self, *, records: bool, first: int = 0, last: int = (1 << 63) - 1) -> None:
        self.records, self.first, self.last = records, first, last


def rows_of(path: Path, selection: Selection, decode: Decode) -> Iterator[Row]:
    """Rows of one file. Raises OSError, and ValueError for a file that is none of a data directory."""
    name = path.name
    if name.endswith(".log") or _SNAPSHOT_OF_METADATA.fullmatch(name):
        yield from _segment(path, selection, decode)
    elif name.endswith((".index", ".timeindex", ".txnindex", ".snapshot")):
        yield from _INDEXES[path.suffix](path)
    elif name in _TEXTS or name.endswith("-checkpoint"):
        yield from _text(path)
    else:
        raise ValueError(f"{path} is not a segment, index, snapshot or checkpoint of Kafka")


def is_known(name: str) -> bool:
    suffixes = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", "-checkpoint")
    return name.endswith(suffixes) or name in _TEXTS or _SNAPSHOT_OF_METADATA.fullmatch(name) is not None


# ---- segments


def _segment(path: Path, selection: Selection, decode: Decode) -> Iterator[Row]:
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


def _batch(position: int, header: BatchHeader) -> Row:
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


def _records(batch: memoryview, header: BatchHeader, decode: Decode) -> Iterator[Row]:
    try:
        records = decode_batch(batch, 0, header)
    except (CorruptBatch, InvalidBatch, UnsupportedCompression) as error:
        yield {"kind": "damage", "base_offset": header.base_offset, "reason": f"its records cannot be read: {error}"}
        return
    is_control = bool(header.attributes & CONTROL_FLAG)
    for one in records:
        row: Row = {"kind": "record", "offset": one.offset, "timestamp": one.timestamp}
        row |= decode(one.key, one.value, is_control)
        if one.headers:
            row["headers"] = [{"key": name, "value": as_text(content)} for name, content in one.headers]
        yield row


# ---- indexes


def _entries(path: Path, entry: struct.Struct) -> Iterator[tuple[int, ...]]:
    """Up to the zeros that Apache Kafka keeps at the end of an index in use, 10 MB of them."""
    with path.open("rb") as file:
        while piece := file.read(_INDEX_PIECE_BYTES - _INDEX_PIECE_BYTES % entry.size):
            for found in entry.iter_unpack(piece[: len(piece) - len(piece) % entry.size]):
                if not any(found):
                    return
                yield found


def _base(path: Path) -> int:
    base = base_offset_of(path.name)
    if base is None:
        raise ValueError(f"{path}: an index is named after its segment's first offset")
    return base


def _offset_index(path: Path) -> Iterator[Row]:
    base = _base(path)
    for relative, position in _entries(path, _OFFSET_ENTRY):
        yield {"kind": "offset_index", "offset": base + relative, "position": position}


def _time_index(path: Path) -> Iterator[Row]:
    base = _base(path)
    for timestamp, relative in _entries(path, _TIME_ENTRY):
        yield {"kind": "time_index", "timestamp": timestamp, "offset": base + relative}


def _transaction_index(path: Path) -> Iterator[Row]:
    for one in read_aborted(PartitionDirectory(str(path.parent)), _base(path)):
        yield {"kind": "aborted_transaction", **one._asdict()}


def _producer_snapshot(path: Path) -> Iterator[Row]:
    try:
        entries = decode_snapshot(_limited(path))
    except CorruptSnapshot as error:
        yield {"kind": "damage", "reason": f"no producer snapshot: {error}"}
        return
    for one in entries:
        content = plain_content(one)
        assert isinstance(content, dict)
        yield {"kind": "producer", **content}


_INDEXES: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".index": _offset_index,
    ".timeindex": _time_index,
    ".txnindex": _transaction_index,
    ".snapshot": _producer_snapshot,
}

# ---- texts

_TEXTS = ("meta.properties", "partition.metadata", "quorum-state", "bootstrap.checkpoint")


def _limited(path: Path) -> bytes:
    if path.stat().st_size > _MOST_BYTES:
        raise ValueError(f"{path} has more than {_MOST_BYTES >> 20} MB: it is none of these files")
    return path.read_bytes()


def _text(path: Path) -> Iterator[Row]:
    for line in _limited(path).decode(errors="backslashreplace").splitlines():
        yield {"kind": "line", "text": line}
