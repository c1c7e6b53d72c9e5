"""Putting an empty batch in the place of a poisoned one (segment_faults.py) in the files of a stopped partition.

An empty batch keeps the offsets, the epoch and the sequence numbers, as compaction leaves it where all records of a
batch are gone: consumers pass over it. The segment is written anew and takes the place of the old one as a
compacted one does: a crash at any point leaves either.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..compaction.cleaning import empty_batch
from ..files.open_files import OpenFile
from ..files.partition_directory import PartitionDirectory
from ..files.segment_files import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    base_offset_of,
)
from ..files.writes import sync_directory, unlink_if_exists, write_fully
from ..segments.batches import DEFAULT_INDEX_INTERVAL_BYTES, scan, write_indexes
from ..segments.damage import Damage

if TYPE_CHECKING:
    from ...protocol.records.batch import BatchHeader
    from .segment_faults import SegmentFault

_KINDS = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX)
_WRITE_BYTES = 1 << 20


def skip_batch(path: str, poisoned: SegmentFault) -> None:
    """Puts an empty batch in the place of a poisoned one. No other process may use the directory. Raises OSError."""
    directory, base_offset = PartitionDirectory(path), base_offset_of(poisoned.file)
    assert poisoned.header is not None and base_offset is not None, "only whole batches of segments have offsets"
    source = directory.file(base_offset, LOG_SUFFIX)
    made = directory.file(base_offset, LOG_SUFFIX + CLEANED_SUFFIX)
    old_size = os.stat(source).st_size
    size = _copy(source, made, poisoned.position, poisoned.header)
    found = scan(made, base_offset, size, DEFAULT_INDEX_INTERVAL_BYTES)
    write_indexes(directory, base_offset, found, CLEANED_SUFFIX)
    for before, after in ((CLEANED_SUFFIX, SWAP_SUFFIX), (SWAP_SUFFIX, "")):
        for kind in _KINDS:
            os.rename(directory.file(base_offset, kind + before), directory.file(base_offset, kind + after))
        sync_directory(path)
    damage = Damage.load(directory)
    damage.move(poisoned.file, poisoned.position, size - old_size)
    damage.save()


def _copy(source: str, target: str, position: int, header: BatchHeader) -> int:
    """Writes the segment with the batch at `position` emptied, and has it on the disk; its size."""
    unlink_if_exists(target)
    out, end = OpenFile(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), os.stat(source).st_size
    empty = empty_batch(header)
    written = _copy_range(source, out.fd, 0, position, 0)
    write_fully(out.fd, empty, written)
    written = _copy_range(source, out.fd, position + header.size, end, written + len(empty))
    os.fsync(out.fd)
    stat = os.stat(source)
    os.utime(target, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # retention goes by it
    return written


def _copy_range(source: str, fd: int, start: int, end: int, at: int) -> int:
    """Copies [start, end) to `at`; returns where the copy ends."""
    file = OpenFile(source)
    while start < end:
        piece = os.pread(file.fd, min(_WRITE_BYTES, end - start), start)
        if not piece:
            raise EOFError(f"{source} ends at {start}")
        write_fully(fd, piece, at)
        start, at = start + len(piece), at + len(piece)
    return at
