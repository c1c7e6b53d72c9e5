"""Verification of a segment's file: each batch is whole, its CRC is right, and its offsets follow those before it.

A `SegmentVerifier` reads its file in pieces, so that a thread may do a little of it at a time. When bytes are not a
batch, it looks for the next batch: by the header of the damaged batch if that is sound, else by a search for bytes
that are a batch with offsets of this segment and a right CRC. The bytes between are a `DamagedRange`.

The indexes are compared with the batches: `.index` and `.timeindex` of closed segments, `.txnindex` of all
segments.

Pieces that are in the page cache are read there. Others are read from the disk and dropped from the cache again, so
that verifying an old log does not displace what clients read.
"""

from __future__ import annotations

import errno
import os
import re
import struct
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.checksum import crc32c
from ...protocol.records.batch import (
    CRC_FROM,
    HEADER_BYTES,
    LEAST_LENGTH,
    LEAST_OLD_LENGTH,
    LOG_OVERHEAD,
    MAGIC,
    read_header,
)
from ...protocol.records.errors import OldFormatInLog
from ..files.descriptors import open_fd
from ..files.page_cache import pread_nowait
from ..files.segment_files import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from ..segments.aborted import is_plausible, plausible_aborted, read_aborted
from ..segments.damage import DamagedRange
from ..segments.index import NO_TIMESTAMP, OffsetIndex, TimeIndex
from ..segments.poison import MOST_POISONED, PoisonedBatch, fault_of
from .aborted_check import AbortedCheck, TransactionMarkers

if TYPE_CHECKING:
    from ..files.partition_directory import PartitionDirectory
    from ..segments.aborted import AbortedTransaction
    from ..segments.segment import Segment

#: Read and checked at a time: about 0.1 ms of CPU for large batches, 4 ms for the smallest ones.
PIECE_BYTES = 256 * 1024
_PREFIX = struct.Struct(">qiibIhi")  # base offset, length, epoch, magic, CRC, attributes, last offset delta
#: Base offset, length and leader epoch stand before the magic.
_BEFORE_MAGIC = 16


class Job(NamedTuple):
    """The segment to verify: `size` bytes of its file hold the offsets from `base_offset` up to `next_offset`.

    `is_compacted`: offsets may be missing at its end. `checks_indexes` is not for the segment that is appended to.
    `earlier`: (base offset, size) of the segments before it, as many as `AbortedCheck` asks for.
    """

    directory: PartitionDirectory
    base_offset: int
    next_offset: int
    size: int
    is_compacted: bool
    checks_indexes: bool
    earlier: tuple[tuple[int, int], ...] = ()


class SegmentVerifier:
    """`step` until `is_done`; then `found` has the damaged ranges. One thread at a time may call it."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.path = job.directory.file(job.base_offset, LOG_SUFFIX)
        self.found: list[DamagedRange] = []
        #: Whole batches whose records cannot be read (segments/damage.py): no damage.
        self.poisoned: list[PoisonedBatch] = []
        self.is_done = False
        #: An index of the segment disagrees with the log.
        self.is_index_wrong = False
        #: The entries that `.txnindex` should have for markers below the job's `next_offset`; None where that is not known.
        self.aborted: list[AbortedTransaction] | None = None
        self.is_aborted_wrong = False
        self._markers: TransactionMarkers | None = None
        #: The length of the file; None where there is none.
        self.file_size: int | None = None
        self._fd = -1
        self._size = 0
        self._position = 0
        #: The next batch starts here or, in a compacted log, above; and the same before the last batch.
        self._expected = self._expected_before = job.base_offset
        self._last: tuple[int, int, int] | None = None  # position, size and last offset delta of the last batch
        self._indexed: list[tuple[int, int]] = []

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def run(self) -> SegmentVerifier:
        """All of it at once."""
        while not self.is_done:
            self.step()
        return self

    def step(self) -> int:
        """Checks the next batches; the number of bytes that were read. Raises OSError, but not for what cannot be read."""
        if self._fd < 0 and not self._open():
            return 0
        if self._position >= self._size:
            self._end()
            return 0
        chunk = self._read(self._position, PIECE_BYTES)
        before = self._position
        try:
            at = self._check(chunk)
        except OldFormatInLog:
            self._finish()  # the start has said so, and readers do
            return len(chunk)
        if at == 0 and not self.is_done:
            self._check_large(chunk)
        return max(len(chunk) if self._position == before else self._position - before, 1)

    # ---- the file

    def _open(self) -> bool:
        job = self.job
        try:
            self._fd = open_fd(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            if not os.path.isdir(job.directory.path):
                raise
            self._add(0, 0, job.base_offset, job.next_offset, "the file is gone")
            self.is_done = True
            return False
        self.file_size = os.fstat(self._fd).st_size
        self._size = min(job.size, self.file_size)
        if job.checks_indexes:
            self._read_indexes()
        return True

    def _read(self, position: int, size: int) -> bytes | bytearray:
        """Bytes that the disk does not give count as zeros, which are no batch."""
        size = min(size, self._size - position)
        try:
            return pread_nowait(self._fd, size, position)
        except BlockingIOError:
            pass
        try:
            piece = os.pread(self._fd, size, position)
            os.posix_fadvise(self._fd, position, size, os.POSIX_FADV_DONTNEED)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return bytes(size)
        return piece

    # ---- batches

    def _check(self, chunk: bytes | bytearray) -> int:
        """Passes the good batches that `chunk` has whole; how many bytes they take."""
        at, available, start = 0, len(chunk), self._position
        view, next_offset, size = memoryview(chunk), self.job.next_offset, self._size
        indexed = self._indexed
        while available - at >= HEADER_BYTES:
            base, length, _, magic, crc, _, last_delta = _PREFIX.unpack_from(chunk, at)
            position, whole = start + at, length + LOG_OVERHEAD
            if magic in (0, 1) and position == 0 and length >= LEAST_OLD_LENGTH:
                raise OldFormatInLog(self.path, magic)
            if magic != MAGIC or length < LEAST_LENGTH or position + whole > size:
                break
            if at + whole > available:
                break
            last = base + last_delta
            if not (last_delta >= 0 and last < next_offset) or crc32c(view[at + CRC_FROM : at + whole]) != crc:
                break
            if base < self._expected and not self._blames_last(base):
                break
            if indexed and position >= indexed[-1][1]:
                self._check_index(position, last)
            self._look_inside(view[at : at + whole])
            self._expected_before, self._expected = self._expected, last + 1
            self._last = (position, whole, last_delta)
            at += whole
        self._position = start + at
        return at

    def _look_inside(self, batch: memoryview) -> None:
        header = read_header(batch)
        if header.producer_id >= 0 and header.is_transactional:
            if self._markers is None:
                self._markers = TransactionMarkers(self.job.directory, self.job.base_offset)
            self._markers.follow(header, batch)
        reason = fault_of(header, batch)
        if reason is not None and len(self.poisoned) < MOST_POISONED:
            self.poisoned.append(PoisonedBatch(header.base_offset, header.last_offset, reason))

    def _blames_last(self, base: int) -> bool:
        """The CRC does not cover the base offset: of two sound batches that overlap, the one that left a gap is wrong."""
        if self._last is None:
            return False
        position, size, last_delta = self._last
        if base < self._expected_before + last_delta + 1:
            return False
        self._add(position, size, self._expected_before, base, "wrong offset")
        self._expected = base
        return True

    def _check_large(self, chunk: bytes | bytearray) -> None:
        """Checks a batch at `_position` that is larger than a piece, if there is one."""
        whole = self._whole_at(self._position, chunk)
        if whole is not None and whole > len(chunk):
            chunk = self._read(self._position, whole)
            if self._check(chunk):
                return
        self._resynchronize(chunk)

    def _whole_at(self, position: int, chunk: bytes | bytearray) -> int | None:
        """The size of the batch whose header `chunk` begins with; None where the header cannot be of this place."""
        if len(chunk) < HEADER_BYTES:
            return None
        base, length, _, magic, _, _, last_delta = _PREFIX.unpack_from(chunk)
        is_sound = (
            magic == MAGIC
            and LEAST_LENGTH <= length <= self._size - position - LOG_OVERHEAD
            and last_delta >= 0
            and self._expected <= base
            and base + last_delta < self.job.next_offset
        )
        return length + LOG_OVERHEAD if is_sound else None

    # ---- damage

    def _resynchronize(self, chunk: bytes | bytearray) -> None:
        """Finds the next whole batch behind the damage at `_position`."""
        start, expected = self._position, self._expected
        whole = self._whole_at(start, chunk)
        if whole is not None:
            base, _, _, _, _, _, last_delta = _PREFIX.unpack_from(chunk)
            if self._follows(start + whole, base + last_delta + 1):
                # In a compacted log the offsets between may be missing without damage.
                first = base if self.job.is_compacted else expected
                self._add(start, whole, first, base + last_delta + 1, "bad CRC")
                self._position, self._expected = start + whole, base + last_delta + 1
                self._expected_before, self._last = self._expected, None
                return
        position = self._search(start + 1)
        if position is None:
            self._position = self._size
            self._add(start, self._size - start, expected, self.job.next_offset, "no batch")
            self._expected = self.job.next_offset
        else:
            (base,) = struct.unpack(">q", self._read(position, 8))
            self._add(start, position - start, expected, base, "no batch")
            self._position, self._expected = position, base
        self._expected_before, self._last = self._expected, None

    def _follows(self, position: int, expected: int) -> bool:
        """Returns whether the file ends at `position`, or a sound header is there."""
        if position == self._size:
            return self.job.is_compacted or expected == self.job.next_offset
        before, self._expected = self._expected, expected
        header = self._read(position, HEADER_BYTES)
        is_sound = self._whole_at(position, header) is not None
        if is_sound and not self.job.is_compacted:
            is_sound = struct.unpack_from(">q", header)[0] == expected
        self._expected = before
        return is_sound

    def _search(self, position: int) -> int | None:
        """The next place from `position` on where a whole batch with a right CRC starts."""
        low, high = struct.pack(">q", self._expected), struct.pack(">q", max(self.job.next_offset - 1, self._expected))
        same = next((at for at in range(8) if low[at] != high[at]), 8)
        wanted = re.compile(b"(?s)(?=" + re.escape(low[:same]) + b"." * (_BEFORE_MAGIC - same) + b"\\x02)")
        while self._size - position >= HEADER_BYTES:
            chunk = self._read(position, PIECE_BYTES)
            for match in wanted.finditer(chunk):
                if self._is_batch(position + match.start()):
                    return position + match.start()
            if position + len(chunk) >= self._size or len(chunk) <= _BEFORE_MAGIC:
                return None
            position += len(chunk) - _BEFORE_MAGIC
        return None

    def _is_batch(self, position: int) -> bool:
        header = self._read(position, HEADER_BYTES)
        whole = self._whole_at(position, header)
        if whole is None:
            return False
        batch = self._read(position, whole)
        _, _, _, _, crc, _, _ = _PREFIX.unpack_from(batch)
        return bool(crc32c(memoryview(batch)[CRC_FROM:]) == crc)

    def _add(self, position: int, size: int, first_offset: int, next_offset: int, reason: str) -> None:
        if first_offset < next_offset:
            self.found.append(
                DamagedRange(os.path.basename(self.path), position, size, first_offset, next_offset, reason)
            )

    def _end(self) -> None:
        job, size = self.job, self._size
        lost = self._expected < job.next_offset and (size < job.size or not job.is_compacted)
        if lost:
            last = self.found[-1] if self.found else None
            if last is None or last.next_offset < job.next_offset:
                self._add(size, 0, self._expected, job.next_offset, "the file is cut")
        if not all(self._is_damaged(position) for _, position in self._indexed):
            self.is_index_wrong = True  # entries for what is behind the end
        self._check_aborted()
        self._finish()

    def _finish(self) -> None:
        self.is_done = True
        self.close()

    # ---- indexes

    def _read_indexes(self) -> None:
        """Entries of the offset index, the last one first. An index that does not ascend is wrong already."""
        try:
            offsets = self._entries(INDEX_SUFFIX, OffsetIndex.ENTRY)
            times = self._entries(TIME_INDEX_SUFFIX, TimeIndex.ENTRY)
        except (FileNotFoundError, struct.error):
            self.is_index_wrong = True
            return
        span = self.job.next_offset - self.job.base_offset
        self.is_index_wrong = not (_ascends(offsets, span) and _ascends([(at, time) for time, at in times], span))
        if not self.is_index_wrong:
            self._indexed = offsets[::-1]

    def _entries(self, suffix: str, entry: struct.Struct) -> list[tuple[int, int]]:
        fd = open_fd(self.job.directory.file(self.job.base_offset, suffix), os.O_RDONLY | os.O_CLOEXEC)
        try:
            return list(entry.iter_unpack(os.read(fd, os.fstat(fd).st_size)))
        finally:
            os.close(fd)

    def _is_damaged(self, position: int) -> bool:
        return any(one.position <= position < one.position + one.size for one in self.found)

    def _check_index(self, position: int, last_offset: int) -> None:
        """An entry names the last offset of a batch and where the batch starts."""
        indexed = self._indexed
        while indexed and indexed[-1][1] <= position:
            relative, entry_position = indexed.pop()
            if not self._is_damaged(entry_position) and (
                entry_position != position or relative + self.job.base_offset != last_offset
            ):
                self.is_index_wrong = True
                indexed.clear()

    def _check_aborted(self) -> None:
        """Checks the index of aborted transactions. In a damaged segment, it stays unless it cannot be right."""
        job = self.job
        entries = [one for one in read_aborted(job.directory, job.base_offset) if one.last_offset < job.next_offset]
        # For the active segment, entries may be newer than the job.
        limit = job.next_offset if job.checks_indexes else 1 << 63
        can_be_right = plausible_aborted(job.directory, job.base_offset, limit) is not None
        if self.found and can_be_right:
            return
        self.aborted = entries
        if entries or self._markers is not None:
            markers = self._markers or TransactionMarkers(job.directory, job.base_offset)
            corrected = AbortedCheck(job.directory, markers, job.is_compacted, job.earlier).corrected(entries)
            if corrected is not None:
                lost = {one.last_offset: one for one in entries if self._is_lost(one)}
                by_marker = lost | {one.last_offset: one for one in corrected}
                self.aborted = [by_marker[offset] for offset in sorted(by_marker)]
        self.is_aborted_wrong = self.aborted != entries or not can_be_right

    def _is_lost(self, entry: AbortedTransaction) -> bool:
        """Returns whether the entry's marker lies in a damaged range, so that it may be right."""
        return is_plausible(entry) and any(
            one.first_offset <= entry.last_offset < one.next_offset for one in self.found
        )


def build_indexes(segment: Segment, interval: int) -> tuple[bytes, bytes]:
    """The offset index and the time index of the batches outside of the damaged ranges, entry by entry as appending would
    have made them.
    """
    offsets, times = bytearray(), bytearray()
    base_offset, last_entry_at = segment.base_offset, 0
    indexed_timestamp, max_timestamp, max_at = NO_TIMESTAMP, NO_TIMESTAMP, base_offset
    for position, header in segment.headers(0):
        last_offset = header.last_offset
        if header.max_timestamp > max_timestamp:
            max_timestamp, max_at = header.max_timestamp, last_offset
        if position - last_entry_at > interval:
            offsets += OffsetIndex.ENTRY.pack(last_offset - base_offset, position)
            if max_timestamp > indexed_timestamp:
                times += TimeIndex.ENTRY.pack(max_timestamp, max_at - base_offset)
                indexed_timestamp = max_timestamp
            last_entry_at = position
    if max_timestamp > indexed_timestamp:
        times += TimeIndex.ENTRY.pack(max_timestamp, max_at - base_offset)
    return bytes(offsets), bytes(times)


def _ascends(entries: list[tuple[int, int]], span: int) -> bool:
    """Returns whether both columns ascend, and the first stays within the segment."""
    before = (-1, -(1 << 63))
    for one in entries:
        if one[0] < before[0] or one[1] < before[1] or one[0] >= span:
            return False
        before = one
    return True
