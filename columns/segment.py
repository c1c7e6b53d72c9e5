"""A segment's file, as a scan sees it: the headers of its batches, its end, positions by its indexes. Nothing is written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from ..protocol.records.batch import HEADER_BYTES, LEAST_OLD_LENGTH, MAGIC, MAGIC_AT, check_crc, read_header
from ..protocol.records.errors import BatchError, OldFormatInLog
from ..storage.files.partition_directory import PartitionDirectory
from ..storage.files.segment_files import SWAP_SUFFIX
from ..storage.log.epochs import UNDEFINED_EPOCH
from ..storage.segments.index import CorruptIndex, OffsetIndex, TimeIndex
from . import kernel, layout
from .layout import Numbers

#: Bytes that a walk over headers reads: few where batches are large, as their records are passed over.
_LEAST_READ, _MOST_READ = 4 << 10, 1 << 20
_ROWS = 8192
#: A batch of more bytes on the average is passed over, not read.
_LARGE_BATCH = 16 << 10


class Segment(NamedTuple):
    """A segment's file. `next_base`: where the next segment begins, None for the last one."""

    path: str
    base_offset: int
    size: int
    next_base: int | None


def walk(segment: Segment, position: int = 0, least_offset: int | None = None) -> Iterator[Numbers]:
    """Yields rows of headers (layout.py) from the batch at `position` on, until the end or something else than a batch.

    Records of large batches are not read. Raises OSError, OldFormatInLog.
    """
    fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield from walk_file(fd, segment, position, least_offset)
    finally:
        os.close(fd)


def walk_file(fd: int, segment: Segment, position: int = 0, least_offset: int | None = None) -> Iterator[Numbers]:
    """Walks as `walk` does, over an open file."""
    expected = segment.base_offset if least_offset is None else least_offset
    size = os.fstat(fd).st_size
    rows = np.empty((_ROWS, layout.HEADER_COLUMNS), np.int64)
    wanted = _LEAST_READ
    while size - position >= HEADER_BYTES:
        data = np.frombuffer(os.pread(fd, min(wanted, size - position), position), np.uint8)
        count, end, result = kernel.walk_headers(data, 0, len(data), position, expected, False, rows)
        if not count:
            if position == 0 and len(data) > MAGIC_AT and data[MAGIC_AT] < MAGIC:
                check_format(segment.path, data)
            return
        found = rows[:count]
        last = found[-1]
        is_cut = int(last[layout.POSITION] + last[layout.SIZE]) > size
        if is_cut:
            found = found[:-1]
        if len(found):
            yield found.copy()
        if is_cut or result in (layout.NO_BATCH, layout.OUT_OF_ORDER):
            return
        expected = int(last[layout.BASE_OFFSET] + last[layout.LAST_DELTA]) + 1
        wanted = _LEAST_READ if end / count >= _LARGE_BATCH else min(_MOST_READ, 4 * wanted)
        position += end


def check_format(path: str, data: Numbers) -> None:
    """Raises OldFormatInLog for bytes that begin with a message of format 0 or 1."""
    if int.from_bytes(bytes(data[8:12])) >= LEAST_OLD_LENGTH and data[MAGIC_AT] in (0, 1):
        raise OldFormatInLog(path, int(data[MAGIC_AT]))


def first_epoch(segment: Segment) -> int | None:
    """The leader epoch of the first batch; None without one."""
    with suppress(FileNotFoundError, OldFormatInLog):
        for rows in walk(segment):
            return int(rows[0][layout.LEADER_EPOCH])
    return None


def last_epoch(segment: Segment) -> int:
    position, least = indexed_position(segment, segment.size)
    last = UNDEFINED_EPOCH
    for rows in walk(segment, position, least if position else None):
        last = int(rows[-1][layout.LEADER_EPOCH])
    return last


def end_of(segment: Segment) -> tuple[int, int]:
    """(offset after the last whole batch, its end in the file) of a segment, from its last index entry on.

    The last batch counts when its CRC is right: a broker may be writing it.
    """
    position, least = indexed_position(segment, segment.size)
    offset, end = (segment.base_offset if position == 0 else least), position
    previous: tuple[int, int] | None = None
    last: Numbers | None = None
    for rows in walk(segment, position, least if position else None):
        for row in rows[-2:] if len(rows) > 1 else rows[-1:]:
            previous, (offset, end) = (offset, end), _end_of_row(row)
        last = rows[-1]
    if last is not None and not _is_whole(segment, last):
        assert previous is not None
        return previous
    return offset, end


def _end_of_row(row: Numbers) -> tuple[int, int]:
    offset = int(row[layout.BASE_OFFSET] + row[layout.LAST_DELTA]) + 1
    return offset, int(row[layout.POSITION] + row[layout.SIZE])


def _is_whole(segment: Segment, row: Numbers) -> bool:
    try:
        batch = read_batch(segment.path, row)
        check_crc(batch, 0, read_header(batch))
    except BatchError:
        return False
    return True


def read_batch(path: str, row: Numbers) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(fd, int(row[layout.SIZE]), int(row[layout.POSITION]))
    finally:
        os.close(fd)


def offset_index(segment: Segment) -> OffsetIndex | None:
    """The index of a segment; None where it is missing, or was preallocated and has no end yet."""
    directory = PartitionDirectory(os.path.dirname(segment.path))
    suffix = SWAP_SUFFIX if segment.path.endswith(SWAP_SUFFIX) else ""
    with suppress(CorruptIndex, OSError):
        return OffsetIndex(directory, segment.base_offset, suffix)
    return None


def indexed_position(segment: Segment, position: int, index: OffsetIndex | None = None) -> tuple[int, int]:
    """(position, base offset) of the last indexed batch that is not above `position`; those of the start without an index.

    An index that points to no batch counts as missing.
    """
    index = index if index is not None else offset_index(segment)
    at = index.floor_of_position(position) if index is not None else 0
    return _checked(segment, at)


def latest_timestamp(segment: Segment) -> int | None:
    """The largest timestamp of a closed segment, by its time index; None where the index does not have it for sure.

    A broker writes the last entry when it closes a segment. The headers behind the last indexed batch are compared with it:
    an index that was cut is not believed.
    """
    if segment.next_base is None:
        return None
    directory = PartitionDirectory(os.path.dirname(segment.path))
    suffix = SWAP_SUFFIX if segment.path.endswith(SWAP_SUFFIX) else ""
    with suppress(CorruptIndex, OSError, OldFormatInLog):
        index = TimeIndex(directory, segment.base_offset, suffix)
        if not len(index) or not segment.base_offset <= index.last_offset < segment.next_base:
            return None
        position, least = indexed_position(segment, segment.size)
        for rows in walk(segment, position, least if position else None):
            if int(rows[:, layout.MAX_TIMESTAMP].max()) > index.last_timestamp:
                return None
        return index.last_timestamp
    return None


def position_of_offset(segment: Segment, offset: int) -> tuple[int, int]:
    """(position, base offset) of an indexed batch that starts at or before `offset`."""
    index = offset_index(segment)
    at, base = _checked(segment, index.floor(offset) if index is not None else 0)
    return (at, base) if base <= offset else (0, segment.base_offset)


def _checked(segment: Segment, at: int) -> tuple[int, int]:
    if not 0 < at < segment.size:
        return 0, segment.base_offset
    with suppress(OSError, BatchError):
        fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            header = read_header(os.pread(fd, HEADER_BYTES, at))
        finally:
            os.close(fd)
        is_inside = at + header.size <= segment.size and header.base_offset >= segment.base_offset
        if is_inside and (segment.next_base is None or header.next_offset <= segment.next_base):
            return at, header.base_offset
    return 0, segment.base_offset
