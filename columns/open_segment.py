"""An open segment's file, whose batches are read in chunks, by their headers or whole."""

from __future__ import annotations

import os

import numpy as np

from ..protocol.records.batch import HEADER_BYTES, MAGIC_AT
from ..storage.segments.resync import next_whole_batch
from . import kernel, layout
from .layout import Numbers
from .segment import Segment, check_format, position_of_offset
from .split import Split

#: Bytes read at once. A larger batch has a read of its own size.
_CHUNK_BYTES = 8 << 20
_FAR = 1 << 62
#: First bytes of a walk over headers; with small batches the reads grow.
_LEAST_READ = 4 << 10
#: Records of batches that are larger on the average are passed over.
_LARGE_BATCH = 16 << 10
_REASONS = {
    layout.END_OF_BUFFER: "no whole batch is left",
    layout.ROWS_FULL: "",
    layout.NO_BATCH: "no batch begins here",
    layout.OUT_OF_ORDER: "a batch has offsets that do not follow those before it",
}


class OpenSegment:
    """An open segment. `data` are bytes from `data_at` on; `position` is where the next chunk begins."""

    def __init__(self, segment: Segment, offset: int, split: Split) -> None:
        self.segment = segment
        self._fd = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
        status = os.fstat(self._fd)
        self._identity = (status.st_dev, status.st_ino)
        self.size = status.st_size
        if offset <= segment.base_offset:
            self.position, self.expected = 0, segment.base_offset
        elif segment.base_offset == split.base_offset and offset == split.first_offset and self._is_batch(split):
            self.position, self.expected = split.position, split.first_offset if split.position else segment.base_offset
        else:
            self.position, self.expected = position_of_offset(segment, offset)
        self.limit = segment.next_base if segment.next_base is not None else _FAR
        self.data: memoryview = memoryview(b"")
        self.data_at = 0
        self.leader_epoch = -1
        self.reason = ""
        self.is_dense = True
        self._buffer = bytearray(0)
        self._read_bytes = _LEAST_READ
        self._rows = np.empty((4096, layout.HEADER_COLUMNS), np.int64)

    def _is_batch(self, split: Split) -> bool:
        """Returns whether the file still has a batch with the split's first offset at the split's position."""
        head = np.frombuffer(os.pread(self._fd, HEADER_BYTES, split.position), np.uint8)
        row = np.empty((1, layout.HEADER_COLUMNS), np.int64)
        count, _, _ = kernel.walk_headers(head, 0, len(head), split.position, 0, False, row)
        return bool(count) and int(row[0, layout.BASE_OFFSET]) == split.first_offset

    def is_same(self, segment: Segment) -> bool:
        if segment.base_offset != self.segment.base_offset:
            return False
        try:
            status = os.stat(segment.path)
        except FileNotFoundError:
            return False
        return (status.st_dev, status.st_ino) == self._identity

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def is_at_end(self) -> bool:
        return self.position >= self.size

    def read(self) -> Numbers:
        """Rows of the whole batches of the next chunk; none at the end, and where something else than a batch is."""
        rows, self.reason = self._walked(_CHUNK_BYTES)
        return self._advance(rows)

    def read_headers(self) -> Numbers:
        """Rows of the next batches, as `read` has them. Records of large batches are passed over."""
        self._fill(self._read_bytes)
        rows, end, result = self._walk(whole=False)
        while len(rows) and int(rows[-1, layout.POSITION] + rows[-1, layout.SIZE]) > self.size:
            rows = rows[:-1]
        if not len(rows):
            return self.read()
        is_large = end / len(rows) >= _LARGE_BATCH
        self._read_bytes = _LEAST_READ if is_large else min(_CHUNK_BYTES, 4 * self._read_bytes)
        self.reason = _REASONS[result]
        return self._advance(rows)

    def load(self, row: Numbers) -> None:
        """Reads one batch to `data`."""
        position = self.position
        self.position = int(row[layout.POSITION])
        self._fill(int(row[layout.SIZE]))
        self.position = position

    def _advance(self, rows: Numbers) -> Numbers:
        if not len(rows):
            return rows
        bases, deltas = rows[:, layout.BASE_OFFSET], rows[:, layout.LAST_DELTA]
        if self.is_dense:
            follows = bool((bases[1:] == (bases + deltas + 1)[:-1]).all()) and int(bases[0]) == self.expected
            self.is_dense = follows and bool((rows[:, layout.COUNT] == deltas + 1).all())
        last = rows[-1]
        self.position = int(last[layout.POSITION] + last[layout.SIZE])
        self.expected = int(last[layout.BASE_OFFSET] + last[layout.LAST_DELTA]) + 1
        self.leader_epoch = int(last[layout.LEADER_EPOCH])
        return rows

    def _walked(self, wanted: int) -> tuple[Numbers, str]:
        self._fill(wanted)
        rows, _, result = self._walk(whole=True)
        if not len(rows) and result == layout.END_OF_BUFFER:
            return self._grown()
        if not len(rows) and self.data_at == 0 and len(self.data) > MAGIC_AT:
            check_format(self.segment.path, self.data)
        return rows, _REASONS[result]

    def _walk(self, *, whole: bool) -> tuple[Numbers, int, int]:
        data = np.frombuffer(self.data, np.uint8)
        count, end, result = kernel.walk_headers(data, 0, len(data), self.data_at, self.expected, whole, self._rows)
        rows = self._rows[:count]
        behind = np.flatnonzero(rows[:, layout.BASE_OFFSET] + rows[:, layout.LAST_DELTA] >= self.limit)
        if len(behind):
            rows, result = rows[: int(behind[0])], layout.OUT_OF_ORDER
        return self._without_misplaced(rows), end, result

    def _grown(self) -> tuple[Numbers, str]:
        """Reads a batch that is larger than a chunk. No rows where the file has not all of it."""
        data = self.data
        if len(data) >= HEADER_BYTES:
            size = int.from_bytes(self.data[8:12]) + 12
            if size <= self.size - self.position:
                if size > len(data):
                    return self._walked(size)
                return self._rows[:0], "no batch begins here"
            return self._rows[
                :0
            ], f"a batch of {size} bytes is cut short: the file has {self.size - self.position} of them"
        return self._rows[:0], f"{len(data)} bytes are too few for a batch"

    def _without_misplaced(self, rows: Numbers) -> Numbers:
        """Leaves out a last batch whose base offset, which no CRC covers, is contradicted by the batch behind it."""
        if not len(rows):
            return rows
        before = int(rows[-2, layout.BASE_OFFSET] + rows[-2, layout.LAST_DELTA]) + 1 if len(rows) > 1 else self.expected
        base = int(rows[-1, layout.BASE_OFFSET])
        if base == before:
            return rows
        following = int(rows[-1, layout.POSITION] + rows[-1, layout.SIZE])
        head = np.frombuffer(os.pread(self._fd, HEADER_BYTES, following), np.uint8)
        row = np.empty((1, layout.HEADER_COLUMNS), np.int64)
        count, _, _ = kernel.walk_headers(head, 0, len(head), following, before, False, row)
        contradicted = count and int(row[0, layout.BASE_OFFSET]) <= base + int(rows[-1, layout.LAST_DELTA])
        return rows[:-1] if contradicted else rows

    def _fill(self, wanted: int) -> None:
        # A new file was perhaps appended to since it was opened, and may have been cut.
        self.size = os.fstat(self._fd).st_size
        wanted = max(0, min(wanted, self.size - self.position))
        if len(self._buffer) < wanted:
            self._buffer = bytearray(wanted)
        view = memoryview(self._buffer)
        found = os.preadv(self._fd, [view[:wanted]], self.position) if wanted else 0
        while 0 < found < wanted:
            more = os.preadv(self._fd, [view[found:wanted]], self.position + found)
            if not more:
                break
            found += more
        self.data, self.data_at = view[:found], self.position

    def batch(self, row: Numbers) -> bytes:
        """The bytes of one batch, of this file and not of another that has its name now."""
        return os.pread(self._fd, int(row[layout.SIZE]), int(row[layout.POSITION]))

    def resync(self, next_offset: int) -> tuple[int, int] | None:
        """(position, base offset) of the next whole batch behind `position`, where none begins."""
        # Linux opens this file by its descriptor, also when it was removed or replaced.
        path = f"/proc/self/fd/{self._fd}" if os.path.isdir("/proc/self/fd") else self.segment.path
        found = next_whole_batch(path, self.size, self.position, next_offset, self.limit, self.leader_epoch)
        return (found[0], found[1].base_offset) if found is not None else None
