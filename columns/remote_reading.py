"""Reading one split from a remote store: segments of tiered storage, as RecordBatches, without a broker in between.

Segments are read in large ranges. The next one is fetched by a thread while the records of the last one are decoded. What a
store returns is checked as by a broker: batches follow one another within the segment's offsets and leader epochs, and have
the right CRC. Damaged and deleted offsets are UnreadableOffsets; a store that fails is RemoteStoreUnavailable, so that its
outage is not taken for a loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..protocol.records.batch import HEADER_BYTES
from ..tiers.indexes import IndexCache
from ..tiers.reading import MOST_BATCH_BYTES
from ..tiers.segment_metadata import RemoteLogSegmentMetadata, SegmentRange
from ..tiers.store import (
    DamagedRemoteObject,
    InvalidStore,
    PartType,
    RemoteResourceNotFound,
    RemoteStorageError,
    RemoteStore,
    make_store,
    object_name,
    remote_range,
)
from . import kernel
from .batches import Bounds, Numbers, data_rows
from .errors import InvalidScan, RemoteStoreUnavailable
from .reading import Batches, ReadOptions, Split, SplitReader

#: Bytes of one request to the store. Two are in memory.
CHUNK_BYTES = 8 << 20
_ROWS = 8192
_INDEX_BYTES = 64 << 20
_REMOVED = "removed by retention or DeleteRecords since the scan was planned"
_MOST_STORES = 4


def open_store(class_name: str, keys: dict[str, str]) -> RemoteStore:
    """The store of these settings, one for each process. Raises InvalidScan."""
    return _opened(class_name, tuple(sorted(keys.items())))


@lru_cache(_MOST_STORES)
def _opened(class_name: str, keys: tuple[tuple[str, str], ...]) -> RemoteStore:
    try:
        return make_store(class_name, dict(keys))
    except InvalidStore as error:
        raise InvalidScan(f"the remote store cannot be opened: {error}") from None


class RemoteReader(SplitReader):
    """Yields the records of a split from segments of a remote store."""

    def __init__(self, split: Split, options: ReadOptions, log_start: Callable[[Split], int] | None = None) -> None:
        """`log_start` asks the cluster for the start of the log: records before it were removed on purpose."""
        super().__init__(split, options)
        assert split.remote is not None
        self._remote = split.remote
        self._log_start = log_start

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        decoder = self._new_decoder(self._options.columns)
        for chunk in self._chunks():
            yield from self._decoded(decoder, self._batches(chunk, chunk.rows, self._wanted(chunk)))

    def count(self) -> int:
        """The number of records, by the headers of their batches. Batches that reach over a bound are decoded."""
        decoder = self._new_decoder(())

        def one(chunk: _Chunk, row: Numbers, behind: int | None) -> Iterator[pa.RecordBatch]:
            return self._decoded(decoder, self._batches(chunk, row, np.ones(1, bool)), behind)

        return sum(
            self._counted(chunk.rows, self._wanted(chunk), self._bounds(chunk), partial(one, chunk))
            for chunk in self._chunks()
        )

    def _batches(self, chunk: _Chunk, rows: Numbers, wanted: Numbers) -> Batches:
        return Batches(self._named(chunk.name), chunk.data, chunk.data_at, rows, wanted, self._bounds(chunk))

    # ---- segments

    def _chunks(self) -> Iterator[_Chunk]:
        split = self.split
        store = open_store(self._remote.class_name, self._remote.keys)
        with ThreadPoolExecutor(1, "remote reads") as thread:
            for one in self._remote.ranges:
                end = min(one.next_offset, split.next_offset)
                if self.next_offset >= end or one.segment.max_timestamp_ms < split.first_timestamp:
                    self.next_offset = max(self.next_offset, end)
                    continue
                yield from self._of_segment(store, thread, one, end)
                self._end_faulty(end)
                self.next_offset = max(self.next_offset, end)

    def _of_segment(
        self, store: RemoteStore, thread: ThreadPoolExecutor, one: SegmentRange, end: int
    ) -> Iterator[_Chunk]:
        """Yields what the segment has from `next_offset` up to before `end`."""
        reading = _SegmentReading(store, thread, one.segment, self.next_offset, end)
        try:
            for chunk in reading.chunks():
                self._end_faulty(int(chunk.rows[0, kernel.BASE_OFFSET]))
                yield chunk
                self.next_offset = max(self.next_offset, min(chunk.next_offset, end))
        except RemoteResourceNotFound as error:
            self._gone(one, end, str(error))
        except DamagedRemoteObject as damage:
            self._unreadable(end, self._named(damage.name), damage.position, damage.reason)
        except RemoteStorageError as error:
            split = self.split
            raise RemoteStoreUnavailable(
                f"{split.topic}-{split.partition}: offset {self.next_offset}: "
                f"{self._named(object_name(one.segment, PartType.LOG))} cannot be read: {error}"
            ) from None
        finally:
            reading.close()

    def _wanted(self, chunk: _Chunk) -> Numbers:
        aborted = self.split.aborted
        if aborted is not None:
            aborted += self._aborts.added(self._named(chunk.name), chunk.batch, chunk.rows)
        return data_rows(chunk.rows, self._bounds(chunk), aborted)

    def _bounds(self, chunk: _Chunk) -> Bounds:
        """A batch may reach over the end of its range, and the next range has the rest of it."""
        return self.split.bounds._replace(first_offset=self.next_offset, next_offset=chunk.end)

    # ---- offsets that cannot be read

    def _named(self, name: str) -> str:
        """The name of an object, with its store."""
        place = self._remote.keys.get("url") or self._remote.keys.get("dir") or ""
        return f"{self._remote.class_name}:{place.rstrip('/')}/{name}"

    def _gone(self, one: SegmentRange, end: int, reason: str) -> None:
        """A segment whose object is missing: the log may start behind it by now."""
        start = self._log_start(self.split) if self._log_start is not None else 0
        name = self._named(object_name(one.segment, PartType.LOG))
        if start > self.next_offset:
            self._unreadable(min(start, end), name, -1, _REMOVED)
        self._unreadable(end, name, -1, reason)


class _Chunk(NamedTuple):
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
        return int(self.rows[-1, kernel.BASE_OFFSET] + self.rows[-1, kernel.LAST_DELTA]) + 1

    def batch(self, row: Numbers) -> bytes:
        at = int(row[kernel.POSITION]) - self.data_at
        return bytes(self.data[at : at + int(row[kernel.SIZE])])


class _SegmentReading:
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

    def chunks(self) -> Iterator[_Chunk]:
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
                position = int(rows[-1, kernel.POSITION] + rows[-1, kernel.SIZE])
                self._expected = int(rows[-1, kernel.BASE_OFFSET] + rows[-1, kernel.LAST_DELTA]) + 1
            if not reason and position < size and self._expected < self._end:
                self._loading = self._submit(position, wanted)
            inside = rows[rows[:, kernel.BASE_OFFSET] < self._end]
            if len(inside):
                yield _Chunk(self._name, data, at, inside, self._end)
            if reason:
                raise DamagedRemoteObject(self._name, position, reason)

    def _start(self) -> int:
        """The position of an indexed batch at or before the offset. A damaged or missing index costs time only."""
        if self._offset == self._segment.start_offset:
            return 0
        with suppress(DamagedRemoteObject, RemoteResourceNotFound):
            position = IndexCache(self._store, _INDEX_BYTES).indexes(self._segment).position_of(self._offset)
            data = remote_range(self._store, self._segment, position, HEADER_BYTES) if position else b""
            row = np.empty((1, kernel.HEADER_COLUMNS), np.int64)
            view = np.frombuffer(data, np.uint8)
            count, _, _ = kernel.walk_headers(view, 0, len(view), position, self._expected, False, row)
            if count and int(row[0, kernel.BASE_OFFSET]) <= self._offset:
                self._expected = int(row[0, kernel.BASE_OFFSET])
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
            rows = np.empty((_ROWS, kernel.HEADER_COLUMNS), np.int64)
            count, at, result = kernel.walk_headers(view, at, len(view), position, expected, True, rows)
            found.append(rows[:count])
            if count:
                expected = int(rows[count - 1, kernel.BASE_OFFSET] + rows[count - 1, kernel.LAST_DELTA]) + 1
            if result != kernel.ROWS_FULL:
                break
        rows = np.concatenate(found)
        is_end = position + len(data) >= self._segment.size_bytes
        if result == kernel.OUT_OF_ORDER:
            return self._checked(rows[:-1], "a batch has offsets that do not follow those before it")
        if result == kernel.NO_BATCH:
            return self._checked(rows, "no batch begins here")
        left = len(data) - at
        if is_end:
            return self._checked(rows, f"the last {left} bytes are no batch" if left else "")
        if left >= HEADER_BYTES and len(rows):
            return self._checked(rows, "")
        if left < HEADER_BYTES and len(rows) > 1:
            return self._checked(rows[:-1], "")
        size = int(rows[0, kernel.SIZE]) if len(rows) else int.from_bytes(data[8:12]) + 12
        if size > min(MOST_BATCH_BYTES, self._segment.size_bytes - position):
            return rows[:0], 0, f"a batch of {size} bytes does not fit in the segment"
        return rows[:0], size + HEADER_BYTES, ""

    def _checked(self, rows: Numbers, reason: str) -> tuple[Numbers, int, str]:
        """Cuts the rows before the first batch that is not of the segment's offsets and leader epochs."""
        base, epochs = rows[:, kernel.BASE_OFFSET], rows[:, kernel.LEADER_EPOCH]
        last = base + rows[:, kernel.LAST_DELTA]
        written_in = self._epochs[np.searchsorted(self._epoch_starts, base, side="right") - 1]
        wrong = np.flatnonzero((last > self._segment.end_offset) | ((epochs != written_in) & (epochs >= 0)))
        if len(wrong):
            return rows[: int(wrong[0])], 0, "a batch is not of the segment's offsets and leader epochs"
        return rows, 0, reason
