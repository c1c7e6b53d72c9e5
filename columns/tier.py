"""The part of a topic that only a remote store has: its splits, of segments of tiered storage (KIP-405), and their reader.

The metadata of segments is in `__remote_log_metadata`, which is read as any topic. The broker's LATEST_TIERED offset and its
epoch name the last segment of the leader's log; the leader epochs that are stored with that segment are the history of the
log before it. So each offset is read once, from a segment of the right history, also where several leaders copied it.

The indexes of aborted transactions are read with the plan. A transaction that is open at the end of the store's part is in
the producer snapshot of its last segment; its end is in the log, which a broker or a directory has.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..client.properties import StoreSettings
from ..protocol.records.batch import HEADER_BYTES
from ..tiers.auxiliary_state import fetch_auxiliary_state, parse_leader_epochs
from ..tiers.cache import RemoteLogMetadataCache
from ..tiers.checked_reads import remote_index, remote_range
from ..tiers.events import DamagedMetadata, decode_event
from ..tiers.index_cache import IndexCache
from ..tiers.lineage import Epochs, OffsetAndEpoch, extended_epochs, highest_remote_offset, remote_start_offset
from ..tiers.metadata_snapshot import CorruptSnapshot, read_any_snapshot
from ..tiers.metadata_topic import MetadataPartition, metadata_partition
from ..tiers.named_store import make_store
from ..tiers.object_names import object_name
from ..tiers.reading import MOST_BATCH_BYTES, aborted_transactions, next_segment_with_aborted, segment_ranges
from ..tiers.segment_metadata import METADATA_TOPIC, RemoteLogSegmentMetadata, SegmentRange, TopicIdPartition
from ..tiers.store import (
    DamagedRemoteObject,
    InvalidStore,
    PartType,
    RemoteResourceNotFound,
    RemoteStorageError,
    RemoteStore,
)
from . import kernel, layout
from .batches import Aborted, Bounds, data_rows
from .directory import TIER_SNAPSHOT, Segment, leader_epochs, topic_id_of
from .errors import InvalidScan, RemoteStoreUnavailable
from .layout import Numbers
from .plan import PartitionPlan, RemoteHead, Request, overlapping, plan_directory
from .reading import Batches, FileReader, ReadOptions, RemotePart, Split, SplitReader

_INDEX_BYTES = 64 << 20
#: A marker behind the store's part.
_FAR = 1 << 62

#: (offset, value) of records of the metadata topic.
Events = Iterable[tuple[int, bytes | None]]


class MetadataEvents(NamedTuple):
    """The records of a partition of the metadata topic from an offset on, and its present bounds."""

    start: int
    end: int
    events: Events


#: Aborted transactions, (producer id, first offset), that a reader of an offset gets; None where no record from it on is
#: stable.
Outcomes = Callable[[int], list[tuple[int, int]] | None]


class Tier:
    """The segments of one store, as the metadata topic has them. `settings` names the store."""

    def __init__(self, settings: StoreSettings) -> None:
        self._settings = settings
        self._states: dict[int, MetadataPartition] = {}
        self._indexes: IndexCache | None = None
        self._epochs: dict[bytes, list[tuple[int, int]]] = {}

    def caches(
        self,
        partitions: Sequence[TopicIdPartition],
        count: int,
        read: Callable[[dict[int, int]], dict[int, MetadataEvents]],
    ) -> dict[TopicIdPartition, RemoteLogMetadataCache]:
        """The segments of partitions at present. `count`: the partitions of the metadata topic. `read` returns the events of
        some of them, from the next offsets on.
        """
        for one in partitions:
            number = metadata_partition(one, count)
            self._states.setdefault(number, MetadataPartition(number)).follow(one, 0)
        left = {metadata_partition(one, count) for one in partitions}
        while left:
            asked = {number: self._states[number].fetch_offset for number in left}
            for number, found in read(asked).items():
                state = self._states[number]
                state.begin_at(found.start, found.end)
                if state.fetch_offset < asked[number]:
                    continue  # the topic was cut, and is read again from its start
                for offset, value in found.events:
                    state.consume(offset, value)
                state.advance(found.end)
                left.discard(number)
        return {one: self._states[metadata_partition(one, count)].followed[one].cache for one in partitions}

    def splits(
        self, whole: Split, cache: RemoteLogMetadataCache, latest: OffsetAndEpoch, split_bytes: int, outcomes: Outcomes
    ) -> tuple[Split, ...]:
        """Splits of the offsets of `whole` that the store has, from its first one on without a gap.

        `latest`: the last offset in the store and its epoch, by the leader. Raises RemoteStoreUnavailable.
        """
        last = cache.segment_for(latest.epoch, latest.offset)
        if last is None:  # the metadata is damaged, or the segment is deleted by now: brokers decide
            return ()
        end = min(whole.next_offset, latest.offset + 1)
        try:
            epochs = self._epochs_of(last)
            ranges = segment_ranges(cache, epochs, whole.first_offset, end)
            aborted: tuple[Aborted, ...] | None = None
            if whole.aborted is not None and ranges:
                aborted, end = self._aborted(cache, epochs, ranges, last, outcomes)
                ranges = [one._replace(next_offset=min(one.next_offset, end)) for one in ranges]
        except RemoteStorageError as error:
            raise RemoteStoreUnavailable(
                f"{whole.topic}-{whole.partition}: offset {whole.first_offset}: {self._settings}: "
                f"{object_name(last, PartType.LEADER_EPOCHS)} or an index of transactions cannot be read: {error}"
            ) from None
        return tuple(
            self._split(whole, group, aborted)
            for group in _grouped([one for one in ranges if one.first_offset < one.next_offset], split_bytes)
        )

    def _split(self, whole: Split, group: list[SegmentRange], aborted: tuple[Aborted, ...] | None) -> Split:
        first, end = group[0].first_offset, group[-1].next_offset
        return replace(
            whole, first_offset=first, next_offset=end, aborted=overlapping(aborted, first, end),
            size=sum(_bytes_of(one) for one in group), remote=RemotePart(*self._settings, tuple(group)),
        )  # fmt: skip

    def _epochs_of(self, segment: RemoteLogSegmentMetadata) -> list[tuple[int, int]]:
        """The leader epochs of the log up to the end of a segment. Raises RemoteStorageError."""
        found = self._epochs.get(segment.segment_id)
        if found is None:
            store = open_store(*self._settings)
            found = parse_leader_epochs(segment, remote_index(store, segment, PartType.LEADER_EPOCHS))
            self._epochs = {segment.segment_id: found}
        return found

    # ---- transactions

    def _aborted(
        self,
        cache: RemoteLogMetadataCache,
        epochs: Epochs,
        ranges: Sequence[SegmentRange],
        last: RemoteLogSegmentMetadata,
        outcomes: Outcomes,
    ) -> tuple[tuple[Aborted, ...], int]:
        """The aborted transactions with records in the ranges, and the offset up to which they are all. `last`: the last
        segment of the log's history; copies behind a gap do not count. Raises RemoteStorageError.
        """
        store = open_store(*self._settings)
        if self._indexes is None:
            self._indexes = IndexCache(store, _INDEX_BYTES)
        first, end = ranges[0], ranges[-1].next_offset
        reached = [*ranges, *segment_ranges(cache, epochs, end, last.end_offset + 1)][-1]

        def following(offset: int) -> RemoteLogSegmentMetadata | None:
            segment = next_segment_with_aborted(cache, epochs, offset)
            return segment if segment is not None and segment.start_offset < reached.next_offset else None

        found, are_all = aborted_transactions(self._indexes, first.segment, first.first_offset, end, following, epochs)
        known = tuple(Aborted(one.producer_id, one.first_offset, one.last_offset) for one in found)
        if are_all:
            return known, end
        opened = {
            one.producer_id: one.current_txn_first_offset
            for one in fetch_auxiliary_state(store, reached.segment).producers
            if 0 <= one.current_txn_first_offset < end
        }
        if not opened:
            return known, end
        ended = outcomes(reached.next_offset)
        if ended is None:
            return known, min(end, *opened.values())
        late = tuple(Aborted(*one, _FAR) for one in ended if opened.get(one[0]) == one[1])
        return known + late, end


class DirectoryTier:
    """The remote part of the topics of a data directory, by the metadata that is in the directory.

    It has the logs of the metadata topic where the broker has replicas of it, and snapshots of what the broker has read.
    `settings`: the store; None where it is not named.
    """

    def __init__(self, settings: StoreSettings | None) -> None:
        self._tier = None if settings is None else Tier(settings)
        self._caches: dict[str, dict[TopicIdPartition, RemoteLogMetadataCache]] = {}

    def find(
        self, path: str, topic: str, partition: int, segments: Sequence[Segment], log_end: int
    ) -> RemoteHead | None:
        """The remote part of a partition; None without one."""
        topic_id = topic_id_of(path)
        if topic_id is None or topic == METADATA_TOPIC:
            return None
        directory = os.path.dirname(path)
        if directory not in self._caches:
            self._caches[directory] = _caches_in(directory)
        cache = self._caches[directory].get(TopicIdPartition(topic_id, topic, partition))
        if cache is None:
            return None
        own = leader_epochs(path, segments)
        epochs = extended_epochs(cache.segments(), own, segments[0].base_offset)
        start = remote_start_offset(cache, epochs)
        if start is None:
            return None
        latest = highest_remote_offset(cache, epochs, log_end)
        tier = self._tier

        def splits(head: Split, split_bytes: int, aborted: Sequence[Aborted]) -> tuple[Split, ...]:
            assert tier is not None
            ended = [(one.producer_id, one.first_offset) for one in aborted]
            return tier.splits(head, cache, latest, split_bytes, lambda _: ended)

        return RemoteHead(start, None if tier is None else splits)


def _caches_in(directory: str) -> dict[TopicIdPartition, RemoteLogMetadataCache]:
    """The segments of all partitions, by the metadata in a data directory."""
    states: list[MetadataPartition] = []
    for file in glob.glob(f"{glob.escape(directory)}/{TIER_SNAPSHOT}*.snapshot"):
        with suppress(CorruptSnapshot, OSError):
            states.append(read_any_snapshot(file))
    if glob.glob(f"{glob.escape(directory)}/{METADATA_TOPIC}-[0-9]*"):
        plan = plan_directory(f"{directory}/{METADATA_TOPIC}", Request(), lambda *_: None)
        states += [_read(one) for one in plan.partitions]  # newer than the snapshots
    return {
        partition: followed.cache
        for state in states
        for partition, followed in state.followed.items()
        if followed.cache.segments()
    }


def _read(plan: PartitionPlan) -> MetadataPartition:
    """The whole log of a partition of the metadata topic."""
    state = MetadataPartition(plan.partition)
    for split in plan.splits:
        for batch in FileReader(split, ReadOptions(("offset", "value"))):
            for offset, value in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                with suppress(DamagedMetadata):  # noted by `consume`
                    state.follow(decode_event(value or b"").partition, plan.end)
                state.consume(offset, value)
    return state


def _grouped(ranges: Sequence[SegmentRange], split_bytes: int) -> list[list[SegmentRange]]:
    """Groups of about `split_bytes`; a segment of several times as much is cut at offsets."""
    groups: list[list[SegmentRange]] = []
    filled = 0
    for one in (part for whole in ranges for part in _cut(whole, split_bytes)):
        if not groups or filled >= split_bytes:
            groups.append([])
            filled = 0
        groups[-1].append(one)
        filled += _bytes_of(one)
    return groups


def _cut(segment_range: SegmentRange, split_bytes: int) -> list[SegmentRange]:
    count = segment_range.next_offset - segment_range.first_offset
    parts = max(1, min(_bytes_of(segment_range) // split_bytes, count))
    bounds = [segment_range.first_offset + count * number // parts for number in range(parts + 1)]
    return [segment_range._replace(first_offset=first, next_offset=end) for first, end in pairwise(bounds)]


def _bytes_of(segment_range: SegmentRange) -> int:
    """Bytes of the range, by its part of the segment's offsets."""
    segment = segment_range.segment
    offsets = segment.end_offset + 1 - segment.start_offset
    return segment.size_bytes * (segment_range.next_offset - segment_range.first_offset) // offsets


# ---- reading one split from a remote store, as RecordBatches, without a broker in between
#
# Segments are read in large ranges. The next one is fetched by a thread while the records of the last one are decoded. What
# a store returns is checked as by a broker: batches follow one another within the segment's offsets and leader epochs, and
# have the right CRC. Damaged and deleted offsets are UnreadableOffsets; a store that fails is RemoteStoreUnavailable, so
# that its outage is not taken for a loss.

#: Bytes of one request to the store. Two are in memory.
CHUNK_BYTES = 8 << 20
_ROWS = 8192
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

        def one(chunk: _Chunk, row: Numbers, wanted: Numbers, behind: int | None) -> Iterator[pa.RecordBatch]:
            return self._decoded(decoder, self._batches(chunk, row, wanted), behind)

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
                if self.next_offset >= end or _is_older(one.segment, split.first_timestamp):
                    self.next_offset = max(self.next_offset, end)
                    continue
                yield from self._of_segment(store, thread, one, end)
                self._end_faulty(end)
                self.next_offset = max(self.next_offset, end)

    def _of_segment(
        self, store: RemoteStore, thread: ThreadPoolExecutor, segment_range: SegmentRange, end: int
    ) -> Iterator[_Chunk]:
        """Yields what the segment has from `next_offset` up to before `end`."""
        reading = _SegmentReading(store, thread, segment_range.segment, self.next_offset, end)
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

    def _wanted(self, chunk: _Chunk) -> Numbers:
        aborted = self.split.aborted
        if aborted is not None:
            aborted += self._aborts.added(self._named(chunk.name), chunk.batch, chunk.rows)
        return data_rows(chunk.rows, self._bounds(chunk), aborted)

    def _bounds(self, chunk: _Chunk) -> Bounds:
        """A batch may reach over the end of its range, and the next range has the rest of it."""
        return self.split.bounds._replace(first_offset=self.next_offset, last_offset=chunk.end - 1)

    # ---- offsets that cannot be read

    def _named(self, name: str) -> str:
        """The name of an object, with its store."""
        place = self._remote.keys.get("url") or self._remote.keys.get("dir") or ""
        return f"{self._remote.class_name}:{place.rstrip('/')}/{name}"

    def _gone(self, segment_range: SegmentRange, end: int, reason: str) -> None:
        """A segment whose object is missing: the log may start behind it by now."""
        start = self._log_start(self.split) if self._log_start is not None else 0
        name = self._named(object_name(segment_range.segment, PartType.LOG))
        if start > self.next_offset:
            self._unreadable(min(start, end), name, -1, _REMOVED)
        self._unreadable(end, name, -1, reason)


def _is_older(segment: RemoteLogSegmentMetadata, first_timestamp: int | None) -> bool:
    return first_timestamp is not None and segment.max_timestamp_ms < first_timestamp


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
        return int(self.rows[-1, layout.BASE_OFFSET] + self.rows[-1, layout.LAST_DELTA]) + 1

    def batch(self, row: Numbers) -> bytes:
        at = int(row[layout.POSITION]) - self.data_at
        return bytes(self.data[at : at + int(row[layout.SIZE])])


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
                position = int(rows[-1, layout.POSITION] + rows[-1, layout.SIZE])
                self._expected = int(rows[-1, layout.BASE_OFFSET] + rows[-1, layout.LAST_DELTA]) + 1
            if not reason and position < size and self._expected < self._end:
                self._loading = self._submit(position, wanted)
            inside = rows[rows[:, layout.BASE_OFFSET] < self._end]
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
