"""Reads a split from segments of a remote store, without a broker in between.

Damaged and deleted offsets are UnreadableOffsets; a store that fails is RemoteStoreUnavailable, so that its outage is not
taken for a loss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pyarrow as pa

from ..tiers.object_names import object_name
from ..tiers.segment_metadata import RemoteLogSegmentMetadata, SegmentRange
from ..tiers.store import DamagedRemoteObject, PartType, RemoteResourceNotFound, RemoteStorageError, RemoteStore
from . import layout
from .batch_selection import Bounds, data_rows
from .errors import REMOVED, RemoteStoreUnavailable
from .layout import Numbers
from .remote_segment import RemoteChunk, RemoteSegmentReader
from .remote_store import open_store
from .split import Split
from .split_reader import Batches, ReadOptions, SplitReader


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

        def one(chunk: RemoteChunk, row: Numbers, wanted: Numbers, behind: int | None) -> Iterator[pa.RecordBatch]:
            return self._decoded(decoder, self._batches(chunk, row, wanted), behind)

        return sum(
            self._counted(chunk.rows, self._wanted(chunk), self._bounds(chunk), partial(one, chunk))
            for chunk in self._chunks()
        )

    def _batches(self, chunk: RemoteChunk, rows: Numbers, wanted: Numbers) -> Batches:
        return Batches(self._named(chunk.name), chunk.data, chunk.data_at, rows, wanted, self._bounds(chunk))

    def _chunks(self) -> Iterator[RemoteChunk]:
        split = self.split
        store = open_store(self._remote.class_name, self._remote.keys)
        with ThreadPoolExecutor(1, "remote reads") as thread:
            for one in self._remote.ranges:
                end = min(one.next_offset, split.next_offset)
                if self.next_offset >= end or _is_older(one.segment, split.first_timestamp):
                    self.next_offset = max(self.next_offset, end)
                    continue
                yield from self._of_segment(store, thread, one, end)
                self._end_faulty(end)
                self.next_offset = max(self.next_offset, end)

    def _of_segment(
        self, store: RemoteStore, thread: ThreadPoolExecutor, segment_range: SegmentRange, end: int
    ) -> Iterator[RemoteChunk]:
        """Yields what the segment has from `next_offset` up to before `end`."""
        reading = RemoteSegmentReader(store, thread, segment_range.segment, self.next_offset, end)
        try:
            for chunk in reading.chunks():
                self._end_faulty(int(chunk.rows[0, layout.BASE_OFFSET]))
                yield chunk
                self.next_offset = max(self.next_offset, min(chunk.next_offset, end))
        except RemoteResourceNotFound as error:
            self._gone(segment_range, end, str(error))
        except DamagedRemoteObject as damage:
            self._unreadable(end, self._named(damage.name), damage.position, damage.reason)
        except RemoteStorageError as error:
            split = self.split
            raise RemoteStoreUnavailable(
                f"{split.topic}-{split.partition}: offset {self.next_offset}: "
                f"{self._named(object_name(segment_range.segment, PartType.LOG))} cannot be read: {error}"
            ) from None
        finally:
            reading.close()

    def _wanted(self, chunk: RemoteChunk) -> Numbers:
        aborted = self.split.aborted
        if aborted is not None:
            aborted += self._aborts.added(self._named(chunk.name), chunk.batch, chunk.rows)
        return data_rows(chunk.rows, self._bounds(chunk), aborted)

    def _bounds(self, chunk: RemoteChunk) -> Bounds:
        """A batch may reach over the end of its range, and the next range has the rest of it."""
        return self.split.bounds._replace(first_offset=self.next_offset, last_offset=chunk.end - 1)

    def _named(self, name: str) -> str:
        """The name of an object, with its store."""
        place = self._remote.keys.get("url") or self._remote.keys.get("dir") or ""
        return f"{self._remote.class_name}:{place.rstrip('/')}/{name}"

    def _gone(self, segment_range: SegmentRange, end: int, reason: str) -> None:
        """A segment whose object is missing: the log may start behind it by now."""
        start = self._log_start(self.split) if self._log_start is not None else 0
        name = self._named(object_name(segment_range.segment, PartType.LOG))
        if start > self.next_offset:
            self._unreadable(min(start, end), name, -1, REMOVED)
        self._unreadable(end, name, -1, reason)


def _is_older(segment: RemoteLogSegmentMetadata, first_timestamp: int | None) -> bool:
    return first_timestamp is not None and segment.max_timestamp_ms < first_timestamp
