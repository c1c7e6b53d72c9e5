"""What is left of a segment after a crash: the whole batches from its start, up to the first byte that is none.

Also the one place where indexes are built from a log file. A batch counts when it lies within the file, its CRC is right,
and its offsets go on from those before it; a torn or damaged batch ends the log.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..protocol.records.batch import HEADER_BYTES, BatchHeader, check_crc, read_header
from ..protocol.records.errors import CorruptBatch, OldFormatInLog, OldMessageFormat
from .descriptors import open_fd
from .files import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, Place, write_fully
from .index import MAX_RELATIVE_OFFSET, NO_TIMESTAMP, OffsetIndex, TimeIndex

DEFAULT_INDEX_INTERVAL_BYTES = 4096
_CHUNK_BYTES = 1 << 20
_MAGIC_AT = 16

#: Called with each whole batch: its header, and its bytes (valid during the call only).
OnBatch = Callable[[BatchHeader, memoryview], None]


class WholeBatches(NamedTuple):
    """What a scan found, and the indexes that belong to it."""

    size: int
    next_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int
    offset_index: bytes
    time_index: bytes


def batches_of(
    path: str, size: int, position: int = 0, *, verify: bool = True
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """(position, header, bytes) of the batches in the first `size` bytes of a file, until one is not whole or, with
    `verify`, its CRC is wrong. The bytes are valid until the next step. Raises OldFormatInLog at the file's start.
    """
    fd = open_fd(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        chunk, chunk_at = memoryview(b""), position
        while size - position >= HEADER_BYTES:
            at = position - chunk_at
            if len(chunk) - at < HEADER_BYTES:
                chunk, chunk_at, at = _read(fd, min(_CHUNK_BYTES, size - position), position), position, 0
            try:
                header = read_header(chunk, at)
            except OldMessageFormat:
                if position == 0:
                    raise OldFormatInLog(path, chunk[at + _MAGIC_AT]) from None
                return
            except CorruptBatch:
                return
            if header.size > size - position:
                return
            if len(chunk) - at < header.size:
                wanted = min(max(_CHUNK_BYTES, header.size), size - position)
                chunk, chunk_at, at = _read(fd, wanted, position), position, 0
            if not _is_whole(chunk, at, header, verify):
                return
            yield position, header, chunk[at : at + header.size]
            position += header.size
    finally:
        os.close(fd)


def _read(fd: int, size: int, position: int) -> memoryview:
    return memoryview(os.pread(fd, size, position))


def _is_whole(chunk: memoryview, at: int, header: BatchHeader, verify: bool) -> bool:
    if len(chunk) - at < header.size or header.last_offset_delta < 0:
        return False
    if verify:
        try:
            check_crc(chunk, at, header)
        except CorruptBatch:
            return False
    return True


def scan(
    path: str, base_offset: int, size: int, interval: int, on_batch: OnBatch | None = None, *, verify: bool = True
) -> WholeBatches:
    """Goes through a log file from its start and makes its indexes, entry by entry as appending would have."""
    offsets, times = bytearray(), bytearray()
    end, next_offset, last_entry_at = 0, base_offset, 0
    indexed_timestamp = max_timestamp = NO_TIMESTAMP
    max_at = base_offset
    for position, header, view in batches_of(path, size, verify=verify):
        last_offset = header.last_offset
        if header.base_offset < next_offset or last_offset - base_offset > MAX_RELATIVE_OFFSET:
            break
        if header.max_timestamp > max_timestamp:
            max_timestamp, max_at = header.max_timestamp, last_offset
        if position - last_entry_at > interval:
            offsets += OffsetIndex.ENTRY.pack(last_offset - base_offset, position)
            if max_timestamp > indexed_timestamp:
                times += TimeIndex.ENTRY.pack(max_timestamp, max_at - base_offset)
                indexed_timestamp = max_timestamp
            last_entry_at = position
        if on_batch is not None:
            on_batch(header, view)
        end, next_offset = position + header.size, last_offset + 1
    if max_timestamp > indexed_timestamp:
        times += TimeIndex.ENTRY.pack(max_timestamp, max_at - base_offset)
    return WholeBatches(end, next_offset, max_timestamp, max_at, bytes(offsets), bytes(times))


def write_indexes(place: Place, base_offset: int, found: WholeBatches, suffix: str = "") -> None:
    for kind, content in ((INDEX_SUFFIX, found.offset_index), (TIME_INDEX_SUFFIX, found.time_index)):
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        fd = open_fd(place.file(base_offset, kind + suffix), flags, 0o644)
        try:
            write_fully(fd, content, 0)
        finally:
            os.close(fd)


def rebuild_indexes(path: str, place: Place, base_offset: int, size: int, suffix: str = "") -> None:
    """For a segment whose data is not in doubt, but whose indexes are missing or cannot be right."""
    write_indexes(place, base_offset, scan(path, base_offset, size, DEFAULT_INDEX_INTERVAL_BYTES, verify=False), suffix)


def recover_segment(place: Place, base_offset: int, interval: int, on_batch: OnBatch) -> tuple[WholeBatches, int]:
    """Cuts a segment behind its last whole batch and rebuilds its indexes. What it now is, and how many bytes went."""
    path = place.file(base_offset, LOG_SUFFIX)
    size = os.stat(path).st_size
    found = scan(path, base_offset, size, interval, on_batch)
    if found.size < size:
        os.truncate(path, found.size)
    write_indexes(place, base_offset, found)
    return found, size - found.size
