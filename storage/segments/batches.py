"""The whole batches of a segment's file, and the holes between them.

Also the one place where indexes are built from a log file. A batch counts when it lies within the file, its CRC is
right, and its offsets follow those before it. Bad bytes with a whole batch behind them are a hole (`next_whole_batch`).
Bad bytes without one are the tail; the caller decides whether it is torn or damaged (log/loading.py).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from ...protocol.records.batch import HEADER_BYTES, LOG_OVERHEAD, MAGIC_AT, BatchHeader, check_crc, read_header
from ...protocol.records.errors import CorruptBatch, OldFormatInLog, OldMessageFormat
from ..files.descriptors import open_fd
from ..files.segment_files import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from ..files.writes import read_if_exists, write_fully
from .index import MAX_RELATIVE_OFFSET, NO_TIMESTAMP, OffsetIndex, TimeIndex
from .resync import CHUNK_BYTES, next_whole_batch

if TYPE_CHECKING:
    from ..files.partition_directory import PartitionDirectory


DEFAULT_INDEX_INTERVAL_BYTES = 4096
#: Reasons of a hole.
OFFSETS_OUT_OF_ORDER, NO_WHOLE_BATCH = "offsets out of order", "no whole batch"
_OLD_HEAD = struct.Struct(">8xiI")

#: Called with each whole batch: its position, its header, and its bytes (valid during the call only).
OnBatch = Callable[[int, BatchHeader, memoryview], None]


class Hole(NamedTuple):
    """Bytes of a file between whole batches: what lay there had the offsets from `first_offset` up to `next_offset`."""

    position: int
    size: int
    first_offset: int
    next_offset: int
    reason: str


class WholeBatches(NamedTuple):
    """The result of a scan, with its indexes. `size`: the end of the last whole batch."""

    size: int
    next_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int
    offset_index: bytes
    time_index: bytes
    holes: tuple[Hole, ...] = ()


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
                chunk, chunk_at, at = _read(fd, min(CHUNK_BYTES, size - position), position), position, 0
            try:
                header = read_header(chunk, at)
            except OldMessageFormat:
                if position == 0 and _is_old_message(chunk, at):
                    raise OldFormatInLog(path, chunk[at + MAGIC_AT]) from None
                return
            except CorruptBatch:
                return
            if header.size > size - position:
                return
            if len(chunk) - at < header.size:
                wanted = min(max(CHUNK_BYTES, header.size), size - position)
                chunk, chunk_at, at = _read(fd, wanted, position), position, 0
            if not _is_whole(chunk, at, header, verify):
                return
            yield position, header, chunk[at : at + header.size]
            position += header.size
    finally:
        os.close(fd)


def _read(fd: int, size: int, position: int) -> memoryview:
    return memoryview(os.pread(fd, size, position))


def _is_old_message(chunk: memoryview, at: int) -> bool:
    """Returns whether there is a whole message of format 0 or 1, not a damaged batch: its CRC-32 comes before its format."""
    fields: tuple[int, int] = _OLD_HEAD.unpack_from(chunk, at)
    length, crc = fields
    return length > len(chunk) - at - LOG_OVERHEAD or crc32(chunk[at + MAGIC_AT : at + LOG_OVERHEAD + length]) == crc


def _is_whole(chunk: memoryview, at: int, header: BatchHeader, verify: bool) -> bool:
    if len(chunk) - at < header.size or header.last_offset_delta < 0:
        return False
    if verify:
        try:
            check_crc(chunk, at, header)
        except CorruptBatch:
            return False
    return True


class _Scan:
    """Follows the batches of one file, and makes its indexes entry by entry as appending would have."""

    def __init__(
        self, base_offset: int, interval: int, limit_offset: int, on_batch: OnBatch | None, *, is_dense: bool
    ) -> None:
        self._is_dense = is_dense
        self._base_offset = base_offset
        self._interval = interval
        self._on_batch = on_batch
        self.limit_offset = min(limit_offset, base_offset + MAX_RELATIVE_OFFSET + 1)
        self.end = 0
        self.next_offset = base_offset
        self.leader_epoch = -1
        self.offsets = bytearray()
        self.times = bytearray()
        self.max_timestamp = self._indexed_timestamp = NO_TIMESTAMP
        self.max_at = base_offset
        self._last_entry_at = 0

    def follow(self, batches: Iterator[tuple[int, BatchHeader, memoryview]], path: str, size: int) -> str:
        """Takes the batches that follow. Returns why it stopped, when that is before the end of the file."""
        for position, header, view in batches:
            last_offset = header.last_offset
            if header.base_offset < self.next_offset or last_offset >= self.limit_offset:
                return OFFSETS_OUT_OF_ORDER
            if header.base_offset > self.next_offset and self._is_misplaced(path, size, position, header):
                return OFFSETS_OUT_OF_ORDER
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.max_at = header.max_timestamp, last_offset
            if position - self._last_entry_at > self._interval:
                self.offsets += OffsetIndex.ENTRY.pack(last_offset - self._base_offset, position)
                self._index_time()
                self._last_entry_at = position
            if self._on_batch is not None:
                self._on_batch(position, header, view)
            self.end, self.next_offset, self.leader_epoch = position + header.size, last_offset + 1, header.leader_epoch
        return NO_WHOLE_BATCH

    def _is_misplaced(self, path: str, size: int, position: int, header: BatchHeader) -> bool:
        """Returns whether a batch that leaves offsets out has a damaged offset (no CRC covers it): later ones have these."""
        if self._is_dense:
            return True
        after, limit = position + header.size, self.limit_offset
        for _, following, _ in batches_of(path, size, after):
            return self.next_offset < following.base_offset < header.next_offset
        found = (
            next_whole_batch(path, size, after, self.next_offset, limit, self.leader_epoch) if after < size else None
        )
        return found is not None and found[1].base_offset < header.next_offset

    def _index_time(self) -> None:
        if self.max_timestamp > self._indexed_timestamp:
            self.times += TimeIndex.ENTRY.pack(self.max_timestamp, self.max_at - self._base_offset)
            self._indexed_timestamp = self.max_timestamp

    def found(self, holes: tuple[Hole, ...]) -> WholeBatches:
        self._index_time()
        return WholeBatches(
            self.end, self.next_offset, self.max_timestamp, self.max_at, bytes(self.offsets), bytes(self.times), holes
        )


def scan(
    path: str,
    base_offset: int,
    size: int,
    interval: int,
    on_batch: OnBatch | None = None,
    *,
    verify: bool = True,
    limit_offset: int = 1 << 62,
    is_dense: bool = False,
) -> WholeBatches:
    """Goes through the first `size` bytes of a log file. `limit_offset`: where the next segment begins. `is_dense`: batches
    of this log never leave offsets out.
    """
    found = _Scan(base_offset, interval, limit_offset, on_batch, is_dense=is_dense)
    holes: list[Hole] = []
    position = 0
    while True:
        reason = found.follow(batches_of(path, size, position, verify=verify), path, size)
        bad_at, offset = found.end, found.next_offset
        following = None
        if size > bad_at:
            following = next_whole_batch(path, size, bad_at, offset, found.limit_offset, found.leader_epoch)
        if following is None:
            return found.found(tuple(holes))
        position, header = following
        holes.append(Hole(bad_at, position - bad_at, offset, header.base_offset, reason))
        found.next_offset = header.base_offset  # the hole accounts for the offsets between


def write_indexes(
    directory: PartitionDirectory, base_offset: int, whole_batches: WholeBatches, suffix: str = ""
) -> None:
    for kind, content in ((INDEX_SUFFIX, whole_batches.offset_index), (TIME_INDEX_SUFFIX, whole_batches.time_index)):
        path = directory.file(base_offset, kind + suffix)
        if _has_content(path, content):
            continue  # as in thousands of partitions with few records
        fd = open_fd(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            write_fully(fd, content, 0)
        finally:
            os.close(fd)


def _has_content(path: str, content: bytes) -> bool:
    """Returns whether a file is as it would be written: to truncate and write one is slow."""
    try:
        return os.stat(path).st_size == len(content) and (not content or read_if_exists(path) == content)
    except FileNotFoundError:
        return False


def rebuild_indexes(path: str, directory: PartitionDirectory, base_offset: int, size: int, suffix: str = "") -> None:
    """Rebuilds the indexes of a segment with sound data, whose indexes are missing or cannot be right."""
    write_indexes(
        directory, base_offset, scan(path, base_offset, size, DEFAULT_INDEX_INTERVAL_BYTES, verify=False), suffix
    )


def recover_segment(
    directory: PartitionDirectory,
    base_offset: int,
    interval: int,
    on_batch: OnBatch | None,
    limit_offset: int = 1 << 62,
    *,
    is_dense: bool = False,
) -> WholeBatches:
    """Reads a segment through and writes its indexes."""
    path = directory.file(base_offset, LOG_SUFFIX)
    size = os.stat(path).st_size
    found = scan(path, base_offset, size, interval, on_batch, limit_offset=limit_offset, is_dense=is_dense)
    write_indexes(directory, base_offset, found)
    return found
