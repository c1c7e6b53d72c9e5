"""Indexes and producer snapshots as rows."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...storage.files.partition_directory import PartitionDirectory
from ...storage.files.segment_files import base_offset_of
from ...storage.segments.aborted import read_aborted
from ...storage.segments.snapshots import CorruptSnapshot, decode_snapshot
from .contents import plain_content
from .small_files import read_limited

if TYPE_CHECKING:
    from ...protocol.json_value import JsonObject

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_INDEX_PIECE_BYTES = 1 << 20


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


def offset_index(path: Path) -> Iterator[JsonObject]:
    base = _base(path)
    for relative, position in _entries(path, _OFFSET_ENTRY):
        yield {"kind": "offset_index", "offset": base + relative, "position": position}


def time_index(path: Path) -> Iterator[JsonObject]:
    base = _base(path)
    for timestamp, relative in _entries(path, _TIME_ENTRY):
        yield {"kind": "time_index", "timestamp": timestamp, "offset": base + relative}


def transaction_index(path: Path) -> Iterator[JsonObject]:
    for one in read_aborted(PartitionDirectory(str(path.parent)), _base(path)):
        yield {"kind": "aborted_transaction", **one._asdict()}


def producer_snapshot(path: Path) -> Iterator[JsonObject]:
    try:
        entries = decode_snapshot(read_limited(path))
    except CorruptSnapshot as error:
        yield {"kind": "damage", "reason": f"no producer snapshot: {error}"}
        return
    for one in entries:
        content = plain_content(one)
        assert isinstance(content, dict)
        yield {"kind": "producer", **content}
