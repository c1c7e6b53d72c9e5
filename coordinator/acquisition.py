"""Acquisition: selects the records that a member acquires from the batches that were read for it.

Records that are available again come first, in offset order. Records that were never delivered follow. Acquisition
takes whole batches, so that nothing is cut or copied: a member may get somewhat more than it requested, unless it
requests a strict limit (KIP-1206). Records that failed often are delivered in ever smaller numbers, and finally one
at a time, so that one bad record does not use up the deliveries of its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple, Protocol

from .share_partition import SharePartition
from .share_runs import AcquiredRange, RecordState, Run


class FetchedBatch(Protocol):
    """A batch that was read: its offset range."""

    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...


class AcquireRequest(NamedTuple):
    """The limits of one acquisition. `batch_size`: the records per acquired range, as far as batch ends permit."""

    max_records: int
    batch_size: int
    is_record_limit: bool = False


class Acquired(NamedTuple):
    first: int
    last: int
    delivery_count: int


def acquire(
    partition: SharePartition,
    member_id: str,
    request: AcquireRequest,
    fetch_offset: int,
    batches: Sequence[FetchedBatch],
    now_ms: int,
) -> list[Acquired]:
    """Acquires records for a member. `batches`: the log's batches from `fetch_offset` on, in order; some or all."""
    if not batches or request.max_records <= 0 or batches[-1].last_offset < partition.start_offset:
        return []
    first, last = max(batches[0].base_offset, partition.start_offset), batches[-1].last_offset
    room, last = _room(partition, request.max_records, fetch_offset, last)
    if room <= 0:
        return []
    _archive_holes(partition, fetch_offset, first)
    taking = _Taking(partition, member_id, request, room, batches, now_ms)
    taking.take_again(first, min(last, partition.end_offset - 1))
    if not taking.is_full and last >= partition.end_offset:
        taking.take_new(max(first, partition.end_offset), last)
    return taking.acquired


def _room(partition: SharePartition, max_records: int, fetch_offset: int, last: int) -> tuple[int, int]:
    """Returns the maximum number of records and the last offset.

    The limit of record locks does not apply below the partition's end, where records are in flight already.
    """
    room = min(max_records, partition.limits.record_locks - partition.in_flight_count)
    end = partition.end_offset
    if room <= 0 and fetch_offset < end:
        return min(max_records, end - fetch_offset), min(last, end - 1)
    return room, last


def _archive_holes(partition: SharePartition, fetch_offset: int, first: int) -> None:
    """Archives available records between `fetch_offset` and `first`: the log has them no longer (compaction)."""
    if fetch_offset < first:
        for run in partition.runs.overlapping(fetch_offset, first - 1):
            if run.is_available:
                partition.archive(max(run.first, fetch_offset), min(run.last, first - 1))


class _Taking:
    def __init__(
        self,
        partition: SharePartition,
        member_id: str,
        request: AcquireRequest,
        room: int,
        batches: Sequence[FetchedBatch],
        now_ms: int,
    ) -> None:
        self.partition = partition
        self.member_id = member_id
        self.request = request
        self.left = room
        self.batches = batches
        self.now_ms = now_ms
        self.acquired: list[Acquired] = []
        self.is_throttled = False
        #: A record with at least this many deliveries counts as failing.
        self.throttle_from = max(2, -(-partition.limits.delivery_count // 2))

    @property
    def is_full(self) -> bool:
        return self.left <= 0 or self.is_throttled

    def take_again(self, first: int, last: int) -> None:
        """Acquires the available records between `first` and `last`, all of them below the partition's end."""
        if first > last:
            return
        found = self.partition.runs.overlapping(first, last)
        for acquired_range, runs in groupby(found, key=attrgetter("acquired_range")):
            if self.is_full:
                return
            available = [run for run in runs if run.is_available]
            if not available:
                continue
            if any(run.delivery_count >= self.throttle_from for run in available):
                # Failing records are delivered without others: now if nothing is acquired yet, else by the next fetch.
                self.is_throttled = True
                if not self.acquired:
                    self._give_few(available, acquired_range, first, last)
                return
            for run in available:
                low = max(run.first, first)
                is_limited = acquired_range is None or self.request.is_record_limit
                high = min(run.last, last, self._end_of_request(low) if is_limited else last)
                for low_one, high_one in self._divided(low, high) if acquired_range is None else ((low, high),):
                    self._give_between(low_one, high_one)

    def _give_few(self, available: Sequence[Run], acquired_range: AcquiredRange | None, first: int, last: int) -> None:
        """Acquires fewer failing records with each delivery: half of the range, a quarter, finally one record."""
        limits, given, most = self.partition.limits, 0, 0
        for run in available:
            is_last_time = limits.delivery_count > 2 and run.delivery_count == limits.delivery_count - 1
            if is_last_time and given:
                return
            if not most and run.delivery_count >= self.throttle_from:
                size = len(run if acquired_range is None else acquired_range)
                most = max(1, size >> (run.delivery_count - self.throttle_from + 1))
            low, high = max(run.first, first), min(run.last, last)
            room = 1 if is_last_time else self.left if self.request.is_record_limit else len(run)
            if given < most:
                room = min(room, most - given)
            high = min(high, low + room - 1)
            self._give_between(low, high)
            given += high - low + 1
            if is_last_time or given == most or (self.request.is_record_limit and self.left <= 0):
                return

    def _give_between(self, first: int, last: int) -> None:
        for run in self.partition.runs.between(first, last):
            self._give(run)

    def take_new(self, first: int, last: int) -> None:
        runs, acquired_range = self.partition.runs, None
        if first > runs.end:
            # The log has no records at these offsets.
            runs.append(Run(runs.end, first - 1, RecordState.ARCHIVED, 0))
        last = min(last, self._end_of_request(first))
        for low, high in self._divided(first, last):
            acquired_range = AcquiredRange(low, high)
            run = Run(low, high, RecordState.AVAILABLE, 0, acquired_range=acquired_range)
            runs.append(run)
            self._give(run)
        # With a strict limit the rest of the batch is acquired next.
        ends_at = next((b.last_offset for b in self.batches if b.last_offset >= last), last)
        if ends_at > last and acquired_range is not None:
            acquired_range.last, acquired_range.is_cut = ends_at, True
            runs.append(Run(last + 1, ends_at, RecordState.AVAILABLE, 0, acquired_range=acquired_range))

    def _give(self, run: Run) -> None:
        if run.acquired_range is None:
            run.acquired_range = AcquiredRange(run.first, run.last)
        self.partition.give(run, self.member_id, self.now_ms)
        self.left -= len(run)
        self.acquired.append(Acquired(run.first, run.last, run.delivery_count))

    def _end_of_request(self, first: int) -> int:
        """Returns the last offset to acquire, beginning at `first`: the end of a batch, unless the limit is strict."""
        wanted = first + self.left - 1
        if not self.request.is_record_limit:
            for batch in self.batches:
                if batch.last_offset >= wanted:
                    return batch.last_offset
        return wanted

    def _divided(self, first: int, last: int) -> list[tuple[int, int]]:
        """Splits the range into ranges of about `batch_size` records that end where batches end."""
        ranges: list[tuple[int, int]] = []
        if not self.request.is_record_limit and last - first + 1 > self.request.batch_size:
            for batch in self.batches:
                if batch.base_offset > last:
                    break
                if batch.base_offset - first >= self.request.batch_size:
                    ranges.append((first, batch.base_offset - 1))
                    first = batch.base_offset
        return [*ranges, (first, last)]
