"""The part of a topic that only a remote store has: its splits, of segments of tiered storage (KIP-405).

The metadata of segments is in `__remote_log_metadata`, which is read as any topic. The broker's LATEST_TIERED offset and its
epoch name the last segment of the leader's log; the leader epochs that are stored with that segment are the history of the
log before it. So each offset is read once, from a segment of the right history, also where several leaders copied it.

The indexes of aborted transactions are read with the plan. A transaction that is open at the end of the store's part is in
the producer snapshot of its last segment; its end is in the log, which a broker or a directory has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from ..client.properties import StoreSettings
from ..tiers.auxiliary_state import fetch_auxiliary_state, parse_leader_epochs
from ..tiers.cache import RemoteLogMetadataCache
from ..tiers.checked_reads import remote_index
from ..tiers.index_cache import IndexCache
from ..tiers.lineage import Epochs, OffsetAndEpoch
from ..tiers.metadata_topic import MetadataPartition, metadata_partition
from ..tiers.object_names import object_name
from ..tiers.reading import aborted_transactions, next_segment_with_aborted, segment_ranges
from ..tiers.segment_metadata import RemoteLogSegmentMetadata, SegmentRange, TopicIdPartition
from ..tiers.store import PartType, RemoteStorageError
from .batch_selection import Aborted
from .divided_splits import overlapping
from .errors import RemoteStoreUnavailable
from .remote_store import open_store
from .split import RemotePart, Split

_INDEX_BYTES = 64 << 20
#: A marker behind the store's part.
_FAR = 1 << 62

#: (offset, value) of records of the metadata topic.
Events = Iterable[tuple[int, bytes | None]]
#: Aborted transactions, (producer id, first offset), that a reader of an offset gets; None where no record from it on is
#: stable.
Outcomes = Callable[[int], list[tuple[int, int]] | None]


class MetadataEvents(NamedTuple):
    """The records of a partition of the metadata topic from an offset on, and its present bounds."""

    start: int
    end: int
    events: Events


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
            if whole.is_read_committed and ranges:
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
