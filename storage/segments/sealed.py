"""A cheap look at a sealed segment: whether its file ends where its index and the next segment say.

Some reads of a few kilobytes, however large the segment is. A start does it for each segment that it does not read
through.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records.batch import HEADER_BYTES, MAGIC, read_header
from ...protocol.records.errors import BatchError
from ..files.descriptors import open_fd
from ..files.segment_files import INDEX_SUFFIX, LOG_SUFFIX

if TYPE_CHECKING:
    from ..files.partition_directory import PartitionDirectory

_READ_BYTES = 8192
_ENTRY = struct.Struct(">ii")
#: Bytes of batches behind the last index entry, in multiples of `index.interval.bytes`: with more, entries are missing.
_MOST_UNINDEXED = 16


class SealedEnd(NamedTuple):
    """`is_dense`: the batches that were looked at leave no offsets out, as those of a log that was never compacted."""

    next_offset: int
    is_dense: bool


def sealed_end(directory: PartitionDirectory, base_offset: int, size: int, interval: int) -> SealedEnd | None:
    """None when the file, or the index, cannot be right: the segment is to be read through."""
    if not size:
        return SealedEnd(base_offset, is_dense=True)
    try:
        entry = _last_entry(directory.file(base_offset, INDEX_SUFFIX))
    except FileNotFoundError:
        return None
    if entry is None:
        return None
    relative, position = entry
    if not 0 <= position < size or relative < 0:
        return None
    indexed = base_offset + relative if position else None
    return _walk(directory.file(base_offset, LOG_SUFFIX), base_offset, position, size, indexed, interval)


def _last_entry(path: str) -> tuple[int, int] | None:
    """(relative offset, position); of the segment's start when there is no entry, None when the file is no index."""
    fd = open_fd(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        count, rest = divmod(os.fstat(fd).st_size, _ENTRY.size)
        if rest:
            return None
        if not count:
            return 0, 0
        relative, position = _ENTRY.unpack(os.pread(fd, _ENTRY.size, (count - 1) * _ENTRY.size))
        return (relative, position) if position else None
    finally:
        os.close(fd)


def _walk(
    path: str, base_offset: int, position: int, size: int, indexed: int | None, interval: int
) -> SealedEnd | None:
    fd = open_fd(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        next_offset, is_dense, start = -1, True, position
        last_at = position
        while position < size:
            chunk = os.pread(fd, _READ_BYTES, position)
            at = 0
            while at + HEADER_BYTES <= len(chunk):
                header = read_header(chunk, at)
                goes_on = next_offset <= header.base_offset if next_offset >= 0 else base_offset <= header.base_offset
                if not goes_on or header.magic != MAGIC or header.last_offset_delta < 0:
                    return None
                if next_offset < 0 and indexed is not None and header.last_offset != indexed:
                    return None
                if header.record_count != header.last_offset_delta + 1 or next_offset not in (-1, header.base_offset):
                    is_dense = False
                next_offset, last_at = header.next_offset, position + at
                at += header.size
            position += at
            if not at:
                return None
    except BatchError:
        return None
    finally:
        os.close(fd)
    misses_entries = last_at - start > _MOST_UNINDEXED * interval + (1 << 20)
    return None if position != size or misses_entries else SealedEnd(next_offset, is_dense)
