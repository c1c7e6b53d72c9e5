"""Finding poisoned batches in the files of a partition, and putting empty ones in their places.

An empty batch keeps the offsets, the epoch and the sequence numbers, as compaction leaves it where all records of a
batch are gone: consumers pass over it. The segment is written anew and takes the place of the old one as a
compacted one does: a crash at any point leaves either.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

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
from ..segments.batches import DEFAULT_INDEX_INTERVAL_BYTES, batches_of, scan, write_indexes
from ..segments.poison import fault_of

if TYPE_CHECKING:
    from ...protocol.records.batch import BatchHeader

_KINDS = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX)
_WRITE_BYTES = 1 << 20


class BadBatch(NamedTuple):
    """`header` is None where the bytes from `position` on are no whole batch: damage, or the end of a log in use."""

    file: str
    position: int
    header: BatchHeader | None
    reason: str


def bad_batches(path: str) -> Iterator[BadBatch]:
    """Returns the bad batches of a partition's directory, ordered by offset. Raises OSError, OldFormatInLog."""
    for name in sorted(name for name in os.listdir(path) if _is_segment(name)):
        file = f"{path}/{name}"
        size, end = os.stat(file).st_size, 0
        for position, header, batch in batches_of(file, size):
            reason = fault_of(header, batch)
            if reason is not None:
                yield BadBatch(name, position, header, reason)
            end = position + header.size
        if end != size:
            yield BadBatch(name, end, None, f"{size - end} bytes that are not a complete batch with a valid CRC")


def _is_segment(name: str) -> bool:
    return name.endswith(LOG_SUFFIX) and base_offset_of(name) is not None


def empty_one(path: str, bad: BadBatch) -> None:
    """Puts an empty batch in the place of a poisoned one. No other process may use the directory. Raises OSError."""
    directory, base_offset = PartitionDirectory(path), base_offset_of(bad.file)
    assert bad.header is not None and base_offset is not None, "only whole batches of segments have offsets"
    source = directory.file(base_offset, LOG_SUFFIX)
    made = directory.file(base_offset, LOG_SUFFIX + CLEANED_SUFFIX)
    size = _copy(source, made, bad.position, bad.header)
    found = scan(made, base_offset, size, DEFAULT_INDEX_INTERVAL_BYTES, verify=False)
    write_indexes(directory, base_offset, found, CLEANED_SUFFIX)
    for before, after in ((CLEANED_SUFFIX, SWAP_SUFFIX), (SWAP_SUFFIX, "")):
        for kind in _KINDS:
            os.rename(directory.file(base_offset, kind + before), directory.file(base_offset, kind + after))
        sync_directory(path)


def _copy(source: str, made: str, position: int, header: BatchHeader) -> int:
    """Writes the segment with the batch at `position` emptied, and has it on the disk; its size."""
    unlink_if_exists(made)
    out, end = OpenFile(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), os.stat(source).st_size
    empty = empty_batch(header)
    written = _copy_range(source, out.fd, 0, position, 0)
    write_fully(out.fd, empty, written)
    written = _copy_range(source, out.fd, position + header.size, end, written + len(empty))
    os.fsync(out.fd)
    stat = os.stat(source)
    os.utime(made, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # retention goes by it
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
