"""Reads records for one member of a share group, and acquires them.

The log is read in whole batches, which are sent as ranges of the files as in a Fetch. The response names the
records that the member has acquired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ...coordinator.acquisition import acquire
from ...protocol.errors import ErrorCode
from ...protocol.messages.share_fetch import AcquiredRecords, ShareFetchPartitionData
from ...storage.log.log import OffsetOutOfRange
from ..fetch.fetch_response import is_remote
from ..partitions.remote_reads import RemoteSlice
from ..partitions.sendable_records import NotInPageCache, sendable, warm
from .share_batches import aborted_ranges, batches_in, batches_of, cut

if TYPE_CHECKING:
    from ...coordinator.acquisition import Acquired, AcquireRequest
    from ...coordinator.share_partition import SharePartition
    from ...storage.segments.aborted import AbortedTransaction
    from ...storage.segments.batch_walk import Pread
    from ...storage.segments.slices import LogSlice
    from .led_share_partition import LedSharePartition
    from .share_batches import ShareBatch
    from .share_remote_reads import ShareRemoteReads

#: How often one response reads a partition again when none of the records read may be acquired.
MOST_READS = 16


class ShareRead(NamedTuple):
    """The batches that were read for a share partition, from `fetch_offset` on. `aborted`: the aborted transactions that
    the remote store has for them; None: the local log has them.
    """

    led: LedSharePartition
    fetch_offset: int
    records: LogSlice | RemoteSlice
    batches: list[ShareBatch]
    aborted: list[AbortedTransaction] | None = None


class RemoteReadFailed(Exception):
    """The remote store did not return the records."""

    def __init__(self, error_code: int) -> None:
        super().__init__(error_code)
        self.error_code = error_code


class ShareReader:
    """The reads of one ShareFetch. `is_isolated`: records of open and aborted transactions are left out. `remote`: its
    reads of the remote store; None without tiered storage.
    """

    __slots__ = ("_is_isolated", "_member_id", "_remote", "wanted")

    def __init__(
        self, member_id: str, wanted: AcquireRequest, *, is_isolated: bool, remote: ShareRemoteReads | None = None
    ) -> None:
        self._member_id = member_id
        self._is_isolated = is_isolated
        self._remote = remote
        #: The records that may still be acquired.
        self.wanted = wanted

    def read(self, led: LedSharePartition, max_bytes: int, pread: Pread) -> ShareRead | None:
        """Reads the log from the next offset to acquire, with no more batches than requested. None: there are no records,
        or the remote store is still being read. Raises BatchError, RemoteReadFailed, and NotInPageCache unless `pread`
        waits for the disk.
        """
        state_machine, hosted = led.state_machine, led.hosted
        if state_machine is None or not state_machine.can_acquire():
            return None
        log = hosted.log
        limit = hosted.last_stable_offset if self._is_isolated else hosted.high_watermark
        offset = state_machine.next_fetch_offset()
        if offset < log.log_start_offset:
            state_machine.log_start_moved(log.log_start_offset)
            led.apply_output()
            offset = state_machine.next_fetch_offset()
        if offset >= limit:
            return None
        if is_remote(hosted, offset):
            return self._read_remote(led, state_machine, offset, max_bytes, limit, pread)
        return self._read_local(led, state_machine, offset, offset, max_bytes, limit, pread)

    def _read_local(
        self,
        led: LedSharePartition,
        state_machine: SharePartition,
        fetch_offset: int,
        offset: int,
        max_bytes: int,
        limit: int,
        pread: Pread,
    ) -> ShareRead | None:
        """Reads from `offset` on. The log has no records between `fetch_offset` and it."""
        log = led.hosted.open_log()
        try:
            records = log.read(offset, max_bytes, limit, True, pread)
            found = batches_of(records, pread) if records.size else ()
            batches = self._choose(found, fetch_offset, state_machine)
        except BlockingIOError:
            raise NotInPageCache(partial(_warm_all, partial(log.read, offset, max_bytes, limit, True))) from None
        except OffsetOutOfRange:
            return None
        return ShareRead(led, fetch_offset, records, batches) if batches else None

    def _read_remote(
        self,
        led: LedSharePartition,
        state_machine: SharePartition,
        offset: int,
        max_bytes: int,
        limit: int,
        pread: Pread,
    ) -> ShareRead | None:
        """Returns what the store has from an offset before the local log start; None while it is being read."""
        if self._remote is None:
            raise RemoteReadFailed(ErrorCode.REPLICA_NOT_AVAILABLE)
        found = self._remote.result(led, offset, max_bytes, isolated=self._is_isolated)
        if found is None or found.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            # Share consumers have no position to reset: those of a log start that moves meanwhile look again.
            return None
        if found.error:
            raise RemoteReadFailed(found.error)
        if not len(found.data):
            # Compaction has left nothing before the local log, or the quota of remote reads is used up.
            after = found.next_offset
            if not offset < after < limit:
                return None
            return self._read_local(led, state_machine, offset, after, max_bytes, limit, pread)
        batches = self._choose(batches_in(found.data, offset, limit), offset, state_machine)
        return ShareRead(led, offset, RemoteSlice(found.data), batches, found.aborted or []) if batches else None

    def _choose(self, candidates: Iterable[ShareBatch], offset: int, state_machine: SharePartition) -> list[ShareBatch]:
        """Chooses the batches to acquire from. Between records in flight, of which other members hold some, it chooses
        twice the requested number, and everything that was acquired together with the last of it.
        """
        most = self.wanted.max_records
        is_again = offset < state_machine.end_offset
        last = state_machine.runs.end_of_range(offset + 2 * most - 1) if is_again else offset + most - 1
        batches: list[ShareBatch] = []
        for batch in candidates:
            batches.append(batch)
            if batch.last_offset >= last:
                break
        return batches

    def acquire(self, read: ShareRead, now_ms: int, max_bytes: int, pread: Pread) -> ShareFetchPartitionData | None:
        """Acquires from the records found, and while none of them may be acquired, from those after them. Raises as `read`
        does.
        """
        one: ShareRead | None = read
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

    def _acquire(self, read: ShareRead, now_ms: int) -> list[Acquired]:
        state_machine = read.led.state_machine
        if state_machine is None:
            return []
        # May raise, and nothing is acquired then.
        ranges = self._aborted_ranges(read) if self._is_isolated else []
        acquired = acquire(state_machine, self._member_id, self.wanted, read.fetch_offset, read.batches, now_ms)
        if acquired:
            for first, last in ranges:
                acquired = [piece for one in acquired for piece in _outside(one, first, last)]
                state_machine.archive_acquired(self._member_id, first, last)
        read.led.apply_output()
        return acquired

    @staticmethod
    def _aborted_ranges(read: ShareRead) -> list[tuple[int, int]]:
        batches, entries = read.batches, read.aborted
        if entries is None:
            log = read.led.hosted.open_log()
            entries = log.aborted_transactions(batches[0].base_offset, batches[-1].last_offset + 1)
        return aborted_ranges(entries, batches)

    def _data_of(self, read: ShareRead, acquired: list[Acquired]) -> ShareFetchPartitionData:
        count = sum(one.last - one.first + 1 for one in acquired)
        self.wanted = self.wanted._replace(max_records=self.wanted.max_records - count)
        records = cut(read.records, read.batches, acquired[0].first, acquired[-1].last)
        hosted = read.led.hosted
        data = ShareFetchPartitionData(partition_index=read.led.key.partition, records=b"")
        if isinstance(records, RemoteSlice):
            data.records = records.data
        else:
            hosted.open_log().remember(records)
            data.records = sendable(records, may_wait=True)
        data.acquired_records = [AcquiredRecords(*one) for one in acquired]
        hosted.counters.bytes_out += records.size
        hosted.counters.fetches += 1
        return data


def _outside(acquired: Acquired, first: int, last: int) -> list[Acquired]:
    """Returns the parts of an acquired range outside `first` to `last`."""
    pieces = []
    if acquired.first < first:
        pieces.append(acquired._replace(last=min(acquired.last, first - 1)))
    if acquired.last > last:
        pieces.append(acquired._replace(first=max(acquired.first, last + 1)))
    return pieces


def _warm_all(read: Callable[[], LogSlice]) -> None:
    records = read()
    if records.size:
        warm(records)
