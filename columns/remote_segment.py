"""The batches of a segment of a remote store, from an offset on.

A segment is read in large ranges. The next one is fetched by a thread while the records of the last one are decoded. What a
store returns is checked as by a broker: batches follow one another within the segment's offsets and leader epochs, and have
the right CRC.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from ..protocol.records.batch import HEADER_BYTES
from ..tiers.checked_reads import remote_range
from ..tiers.index_cache import IndexCache
from ..tiers.object_names import object_name
from ..tiers.reading import MOST_BATCH_BYTES
from ..tiers.segment_metadata import RemoteLogSegmentMetadata
from ..tiers.store import DamagedRemoteObject, PartType, RemoteResourceNotFound, RemoteStore
from . import kernel, layout
from .layout import Numbers

#: Bytes of one request to the store. Two are in memory.
CHUNK_BYTES = 8 << 20
_ROWS = 8192
_INDEX_BYTES = 64 << 20


class RemoteChunk(NamedTuple):
    """Whole batches: their bytes, the position of data[0] in the segment, and the rows of their headers.

    Their records from `end` on are not of this chunk.
    """

    name: str
    data: memoryview
    data_at: int
    rows: Numbers
    end: int

    @property
    def next_offset(self) -> int:
        return int(self.rows[-1, layout.BASE_OFFSET] + self.rows[-1, layout.LAST_DELTA]) + 1

    def batch(self, row: Numbers) -> bytes:
        at = int(row[layout.POSITION]) - self.data_at
        return bytes(self.data[at : at + int(row[layout.SIZE])])


class RemoteSegmentReader:
    """The batches of a remote segment from an offset up to before `end`."""

    def __init__(
        self, store: RemoteStore, thread: ThreadPoolExecutor, segment: RemoteLogSegmentMetadata, offset: int, end: int
    ) -> None:
        self._store = store
        self._thread = thread
        self._segment = segment
        self._end = end
        self._name = object_name(segment, PartType.LOG)
        self._epochs = np.array([epoch for epoch, _ in segment.epochs], np.int64)
        self._epoch_starts = np.array([start for _, start in segment.epochs], np.int64)
        self._offset = offset
        self._expected = segment.start_offset
        self._loading: Future[bytes] | None = None

    def close(self) -> None:
        if self._loading is not None:
            self._loading.cancel()

    def chunks(self) -> Iterator[RemoteChunk]:
        """Raises RemoteStorageError; DamagedRemoteObject after the batches before the damage."""
        position, wanted, size = self._start(), CHUNK_BYTES, self._segment.size_bytes
        while position < size and self._expected < self._end:
            data = memoryview(self._loaded(position, wanted))
            rows, needed, reason = self._walked(data, position)
            if needed:
                wanted = needed
                continue
            wanted, at = CHUNK_BYTES, position
            if len(rows):
                position = int(rows[-1, layout.POSITION] + rows[-1, layout.SIZE])
                self._expected = int(rows[-1, layout.BASE_OFFSET] + rows[-1, layout.LAST_DELTA]) + 1
            if not reason and position < size and self._expected < self._end:
                self._loading = self._submit(position, wanted)
            inside = rows[rows[:, layout.BASE_OFFSET] < self._end]
            if len(inside):
                yield RemoteChunk(self._name, data, at, inside, self._end)
            if reason:
                raise DamagedRemoteObject(self._name, position, reason)

    def _start(self) -> int:
        """The position of an indexed batch at or before the offset. A damaged or missing index costs time only."""
        if self._offset == self._segment.start_offset:
            return 0
        with suppress(DamagedRemoteObject, RemoteResourceNotFound):
            position = IndexCache(self._store, _INDEX_BYTES).indexes(self._segment).position_of(self._offset)
            data = remote_range(self._store, self._segment, position, HEADER_BYTES) if position else b""
            row = np.empty((1, layout.HEADER_COLUMNS), np.int64)
            view = np.frombuffer(data, np.uint8)
            count, _, _ = kernel.walk_headers(view, 0, len(view), position, self._expected, False, row)
            if count and int(row[0, layout.BASE_OFFSET]) <= self._offset:
                self._expected = int(row[0, layout.BASE_OFFSET])
                return position
        return 0

    def _submit(self, position: int, size: int) -> Future[bytes]:
        return self._thread.submit(remote_range, self._store, self._segment, position, size)

    def _loaded(self, position: int, wanted: int) -> bytes:
        loading, self._loading = self._loading or self._submit(position, wanted), None
        return loading.result()

    def _walked(self, data: memoryview, position: int) -> tuple[Numbers, int, str]:
        """Returns the rows of the whole batches in `data`, the bytes to load instead if it has none, and what is wrong then.

        The last batch is left to the next chunk where the header behind it is not in this one: no CRC covers its base
        offset, and the next batch may contradict it.
        """
        view, found, at, expected = np.frombuffer(data, np.uint8), [], 0, self._expected
        while True:
            rows = np.empty((_ROWS, layout.HEADER_COLUMNS), np.int64)
            count, at, result = kernel.walk_headers(view, at, len(view), position, expected, True, rows)
            found.append(rows[:count])
            if count:
                expected = int(rows[count - 1, layout.BASE_OFFSET] + rows[count - 1, layout.LAST_DELTA]) + 1
            if result != layout.ROWS_FULL:
                break
        rows = np.concatenate(found)
        is_end = position + len(data) >= self._segment.size_bytes
        if result == layout.OUT_OF_ORDER:
            return self._checked(rows[:-1], "a batch has offsets that do not follow those before it")
        if result == layout.NO_BATCH:
            return self._checked(rows, "no batch begins here")
        left = len(data) - at
        if is_end:
            return self._checked(rows, f"the last {left} bytes are no batch" if left else "")
        if left >= HEADER_BYTES and len(rows):
            return self._checked(rows, "")
        if left < HEADER_BYTES and len(rows) > 1:
            return self._checked(rows[:-1], "")
        size = int(rows[0, layout.SIZE]) if len(rows) else int.from_bytes(data[8:12]) + 12
        if size > min(MOST_BATCH_BYTES, self._segment.size_bytes - position):
            return rows[:0], 0, f"a batch of {size} bytes does not fit in the segment"
        return rows[:0], size + HEADER_BYTES, ""

    def _checked(self, rows: Numbers, reason: str) -> tuple[Numbers, int, str]:
        """Cuts the rows before the first batch that is not of the segment's offsets and leader epochs."""
        base, epochs = rows[:, layout.BASE_OFFSET], rows[:, layout.LEADER_EPOCH]
        last = base + rows[:, layout.LAST_DELTA]
        written_in = self._epochs[np.searchsorted(self._epoch_starts, base, side="right") - 1]
        wrong = np.flatnonzero((last > self._segment.end_offset) | ((epochs != written_in) & (epochs >= 0)))
        if len(wrong):
            return rows[: int(wrong[0])], 0, "a batch is not of the segment's offsets and leader epochs"
        return rows, 0, reason
