"""Reads records for one member of a share group, and acquires them.

The log is read in whole batches, which are sent as ranges of the files as in a Fetch. The response names the records that
the member has acquired.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ...coordinator.share_partition.acquiring import Acquired, AcquireRequest, acquire
from ...coordinator.share_partition.partition import SharePartition
from ...protocol.messages.share_fetch import AcquiredRecords, PartitionData
from ...storage.log.log import OffsetOutOfRange
from ...storage.segments.batch_walk import Pread
from ...storage.segments.segment import LogSlice
from ..partitions.page_cache import NotInPageCache, sendable, warm
from .share_partitions import LedSharePartition
from .share_records import Batch, aborted_ranges, batches_of, cut

#: How often one response reads a partition again when none of the records read may be acquired.
MOST_READS = 16


class Found(NamedTuple):
    """The batches that were read for a share partition, from `fetch_offset` on."""

    led: LedSharePartition
    fetch_offset: int
    records: LogSlice
    batches: list[Batch]


class ShareReader:
    """The reads of one ShareFetch. `is_isolated`: records of open and aborted transactions are left out."""

    __slots__ = ("_is_isolated", "_member_id", "wanted")

    def __init__(self, member_id: str, wanted: AcquireRequest, *, is_isolated: bool) -> None:
        self._member_id = member_id
        self._is_isolated = is_isolated
        #: The records that may still be acquired.
        self.wanted = wanted

    def read(self, led: LedSharePartition, max_bytes: int, pread: Pread) -> Found | None:
        """Reads the log from the next offset to acquire, with no more batches than requested. Raises BatchError, and
        NotInPageCache unless `pread` waits for the disk.
        """
        state_machine, hosted = led.state_machine, led.hosted
        if state_machine is None or not state_machine.can_acquire():
            return None
        log = hosted.log
        limit = hosted.last_stable_offset if self._is_isolated else hosted.high_watermark
        offset = state_machine.next_fetch_offset()
        if offset < log.log_start_offset:
            state_machine.log_start_moved(log.log_start_offset)
            offset = state_machine.next_fetch_offset()
        if offset >= limit:
            return None
        try:
            records = log.read(offset, max_bytes, limit, True, pread)
            batches = self._choose(records, offset, state_machine, pread)
        except BlockingIOError:
            raise NotInPageCache(partial(_warm_all, partial(log.read, offset, max_bytes, limit, True))) from None
        except OffsetOutOfRange:
            return None
        return Found(led, offset, records, batches) if batches else None

    def _choose(self, records: LogSlice, offset: int, state_machine: SharePartition, pread: Pread) -> list[Batch]:
        """Chooses the batches to acquire from. Between records in flight, of which other members hold some, it chooses
        twice the requested number, and everything that was acquired together with the last of it.
        """
        most = self.wanted.max_records
        is_again = offset < state_machine.end_offset
        last = state_machine.runs.end_of_range(offset + 2 * most - 1) if is_again else offset + most - 1
        batches: list[Batch] = []
        for batch in batches_of(records, pread) if records.size else ():
            batches.append(batch)
            if batch.last_offset >= last:
                break
        return batches

    def acquire(self, found: Found, now_ms: int, max_bytes: int, pread: Pread) -> PartitionData | None:
        """Acquires from the records found, and while none of them may be acquired, from those after them. Raises as `read`
        does.
        """
        one: Found | None = found
        for _ in range(MOST_READS):
            if one is None or self.wanted.max_records <= 0:
                return None
            acquired = self._acquire(one, now_ms)
            if acquired:
                return self._data_of(one, acquired)
            if not self._is_isolated:
                return None
            one = self.read(one.led, max_bytes, pread)
        return None

    def _acquire(self, found: Found, now_ms: int) -> list[Acquired]:
        state_machine = found.led.state_machine
        if state_machine is None:
            return []
        # May raise, and nothing is acquired then.
        ranges = aborted_ranges(found.led.hosted.log, found.batches) if self._is_isolated else []
        acquired = acquire(state_machine, self._member_id, self.wanted, found.fetch_offset, found.batches, now_ms)
        if acquired:
            for first, last in ranges:
                acquired = [piece for one in acquired for piece in _outside(one, first, last)]
                state_machine.archive_acquired(self._member_id, first, last)
        found.led.apply_output()
        return acquired

    def _data_of(self, found: Found, acquired: list[Acquired]) -> PartitionData:
        count = sum(one.last - one.first + 1 for one in acquired)
        self.wanted = self.wanted._replace(max_records=self.wanted.max_records - count)
        records = cut(found.records, found.batches, acquired[0].first, acquired[-1].last)
        hosted = found.led.hosted
        hosted.log.remember(records)
        data = PartitionData(partition_index=found.led.key.partition, records=b"")
        data.records = sendable(records, may_wait=True)
        data.acquired_records = [AcquiredRecords(*one) for one in acquired]
        hosted.counters.bytes_out += records.size
        hosted.counters.fetches += 1
        return data


def _outside(one: Acquired, first: int, last: int) -> list[Acquired]:
    """Returns the parts of an acquired range outside `first` to `last`."""
    pieces = []
    if one.first < first:
        pieces.append(one._replace(last=min(one.last, first - 1)))
    if one.last > last:
        pieces.append(one._replace(first=max(one.first, last + 1)))
    return pieces


def _warm_all(read: Callable[[], LogSlice]) -> None:
    records = read()
    if records.size:
        warm(records)
