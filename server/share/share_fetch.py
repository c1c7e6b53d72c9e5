"""Handles one ShareFetch, from its session's partitions to its response; parked while there are no records.

Records are acquired only when they are sure to be sent. The fetch first inspects what the logs have. When that is
enough, or the wait time is over, the share partitions acquire from it what they can (`ShareReader`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ...coordinator.share_partition import Acquired, AcquireRequest, SharePartition, acquire
from ...coordinator.share_state import ShareKey
from ...metadata.image import TopicIdPartition
from ...protocol.errors import ErrorCode
from ...protocol.messages.share_records import AcquiredRecords, ShareFetchPartitionData
from ...protocol.records.batch import HEADER_BYTES, BatchHeader, iter_headers, read_header
from ...protocol.records.errors import BatchError
from ...storage.files.open_files import pread_nowait
from ...storage.log.log import OffsetOutOfRange
from ...storage.segments.batches import Pread
from ...storage.segments.segment import LogSlice
from ..data_path.fetch import is_remote
from ..partitions.parked_requests import NotInPageCache, ParkedFetch, sendable, warm
from ..partitions.remote_port import RemoteSlice
from .share_partitions import LedSharePartition

if TYPE_CHECKING:
    from ...protocol.messages.share_records import ShareFetchRequest
    from ...storage.segments.index import AbortedTransaction
    from ..network.call import Call
    from ..partitions.parked_requests import FetchWaits
    from ..partitions.remote_port import RemotePort, RemoteRecords
    from ..runtime.clock import Clock
    from .share_partitions import ShareConfigs, SharePartitions


# Reads the log for a share partition: whole batches, and the ranges of aborted transactions, which no member gets.


#: Headers of small batches are read in ranges of this size. For batches of which a range does not hold two, only the
#: header is read.
READ_AHEAD_BYTES = 16 * 1024


class Batch(NamedTuple):
    """A record batch in the file of a log segment, or in the bytes that the remote store returned."""

    base_offset: int
    last_offset: int
    #: Position in the file, or in the bytes.
    position: int
    size: int
    header: BatchHeader


def batches_of(found: LogSlice, pread: Pread = pread_nowait) -> Iterator[Batch]:
    """Yields the batches of a slice. Only headers are read. Raises BlockingIOError with `pread_nowait`."""
    end = found.position + found.size
    position = read_from = found.position
    data: bytes | bytearray = b""
    wanted = READ_AHEAD_BYTES
    while position < end:
        if position + HEADER_BYTES > read_from + len(data):
            read_from = position
            data = pread(found.fd, min(wanted, end - position), position)
        header = read_header(data, position - read_from)
        size = header.size
        yield Batch(header.base_offset, header.last_offset, position, size, header)
        position += size
        wanted = HEADER_BYTES if 2 * size > READ_AHEAD_BYTES else READ_AHEAD_BYTES


def batches_in(data: memoryview | bytes, offset: int, limit: int) -> Iterator[Batch]:
    """Yields the batches of the remote store that have records from `offset` on, and begin before `limit`."""
    for position, header in iter_headers(data):
        if header.base_offset >= limit:
            return
        if header.last_offset >= offset:
            yield Batch(header.base_offset, header.last_offset, position, header.size, header)


def cut(found: LogSlice | RemoteSlice, batches: list[Batch], first: int, last: int) -> LogSlice | RemoteSlice:
    """Returns the batches that contain any offset from `first` to `last`."""
    wanted = [b for b in batches if b.last_offset >= first and b.base_offset <= last]
    start, end = wanted[0], wanted[-1]
    end_position = end.position + end.size
    if isinstance(found, RemoteSlice):
        return RemoteSlice(found.data[start.position : end_position])
    return LogSlice(
        found.file,
        start.position,
        end_position - start.position,
        start.base_offset,
        end.last_offset + 1,
        found.segment_base_offset,
    )


def aborted_ranges(entries: Iterable[AbortedTransaction], batches: list[Batch]) -> list[tuple[int, int]]:
    """Returns the first and last offset of batches of aborted transactions, without their markers, which hold no
    records. `entries`: the aborted transactions of at least these batches.
    """
    # A transaction whose marker is before the batches would take in later ones of its producer.
    first = batches[0].base_offset
    begins = sorted((entry.first_offset, entry.producer_id) for entry in entries if entry.last_offset >= first)
    aborted: set[int] = set()
    ranges: list[tuple[int, int]] = []
    for batch in batches:
        header = batch.header
        while begins and begins[0][0] <= header.last_offset:
            aborted.add(begins.pop(0)[1])
        if header.producer_id in aborted and header.is_transactional:
            if header.is_control:
                aborted.discard(header.producer_id)
            else:
                ranges.append((header.base_offset, header.last_offset))
    return ranges


# Reads records for one member of a share group, and acquires them.
#
# The log is read in whole batches, which are sent as ranges of the files as in a Fetch. The response names the
# records that the member has acquired.


#: How often one response reads a partition again when none of the records read may be acquired.
MOST_READS = 16


class Found(NamedTuple):
    """The batches that were read for a share partition, from `fetch_offset` on. `aborted`: the aborted transactions that
    the remote store has for them; None: the local log has them.
    """

    led: LedSharePartition
    fetch_offset: int
    records: LogSlice | RemoteSlice
    batches: list[Batch]
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
        self, member_id: str, wanted: AcquireRequest, *, is_isolated: bool, remote: RemoteReads | None = None
    ) -> None:
        self._member_id = member_id
        self._is_isolated = is_isolated
        self._remote = remote
        #: The records that may still be acquired.
        self.wanted = wanted

    def read(self, led: LedSharePartition, max_bytes: int, pread: Pread) -> Found | None:
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
    ) -> Found | None:
        """Reads from `offset` on. The log has no records between `fetch_offset` and it."""
        log = led.hosted.log
        try:
            records = log.read(offset, max_bytes, limit, True, pread)
            found = batches_of(records, pread) if records.size else ()
            batches = self._choose(found, fetch_offset, state_machine)
        except BlockingIOError:
            raise NotInPageCache(partial(_warm_all, partial(log.read, offset, max_bytes, limit, True))) from None
        except OffsetOutOfRange:
            return None
        return Found(led, fetch_offset, records, batches) if batches else None

    def _read_remote(
        self,
        led: LedSharePartition,
        state_machine: SharePartition,
        offset: int,
        max_bytes: int,
        limit: int,
        pread: Pread,
    ) -> Found | None:
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
        return Found(led, offset, RemoteSlice(found.data), batches, found.aborted or []) if batches else None

    def _choose(self, found: Iterable[Batch], offset: int, state_machine: SharePartition) -> list[Batch]:
        """Chooses the batches to acquire from. Between records in flight, of which other members hold some, it chooses
        twice the requested number, and everything that was acquired together with the last of it.
        """
        most = self.wanted.max_records
        is_again = offset < state_machine.end_offset
        last = state_machine.runs.end_of_range(offset + 2 * most - 1) if is_again else offset + most - 1
        batches: list[Batch] = []
        for batch in found:
            batches.append(batch)
            if batch.last_offset >= last:
                break
        return batches

    def acquire(self, found: Found, now_ms: int, max_bytes: int, pread: Pread) -> ShareFetchPartitionData | None:
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
        ranges = self._aborted_ranges(found) if self._is_isolated else []
        acquired = acquire(state_machine, self._member_id, self.wanted, found.fetch_offset, found.batches, now_ms)
        if acquired:
            for first, last in ranges:
                acquired = [piece for one in acquired for piece in _outside(one, first, last)]
                state_machine.archive_acquired(self._member_id, first, last)
        found.led.apply_output()
        return acquired

    @staticmethod
    def _aborted_ranges(found: Found) -> list[tuple[int, int]]:
        batches, entries = found.batches, found.aborted
        if entries is None:
            entries = found.led.hosted.log.aborted_transactions(batches[0].base_offset, batches[-1].last_offset + 1)
        return aborted_ranges(entries, batches)

    def _data_of(self, found: Found, acquired: list[Acquired]) -> ShareFetchPartitionData:
        count = sum(one.last - one.first + 1 for one in acquired)
        self.wanted = self.wanted._replace(max_records=self.wanted.max_records - count)
        records = cut(found.records, found.batches, acquired[0].first, acquired[-1].last)
        hosted = found.led.hosted
        data = ShareFetchPartitionData(partition_index=found.led.key.partition, records=b"")
        if isinstance(records, RemoteSlice):
            data.records = records.data
        else:
            hosted.log.remember(records)
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


# The remote reads of a ShareFetch: records before the local log start, which only the store has (KIP-405, KIP-932).
#
# A share fetch waits for the store beside the logs: records of other partitions are sent at once, and what the store returns
# later is kept for the next fetch. A fetch whose time is over, and that has no records, waits on until
# `remote.fetch.max.wait.ms` are over, as in Apache Kafka.


class RemoteReads:
    """The remote reads of one share fetch, at most one at a time for each share partition. `resume` is called as each one
    ends, and when the time is over. `wait_ms`: the fetch's own time.
    """

    def __init__(self, port: RemotePort, resume: Callable[[], object], wait_ms: int) -> None:
        self._port = port
        self._resume = resume
        self._longer_s = (port.fetch_max_wait_ms - wait_ms) / 1000
        #: The offset of each read, and its result; None while it goes on.
        self._reads: dict[LedSharePartition, tuple[int, RemoteRecords | None]] = {}
        self._withdrawals: dict[LedSharePartition, Callable[[], object]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    def result(self, led: LedSharePartition, offset: int, max_bytes: int, *, isolated: bool) -> RemoteRecords | None:
        """Returns records from an offset on, perhaps with some before it; None while they are read, and after the time."""
        begun, found = self._reads.get(led, (-1, None))
        # Another member may have acquired the first ones that were read.
        if begun == offset or (found is not None and begun < offset < found.next_offset and len(found.data)):
            return found
        if self._is_over:
            return None
        self._withdraw(led)
        hosted = led.hosted
        finished = self._port.take_finished(hosted, offset, max_bytes, isolated=isolated)
        self._reads[led] = offset, finished
        if finished is None:
            done = partial(self._done, led, offset)
            self._withdrawals[led] = self._port.read(hosted, offset, max_bytes, isolated=isolated, done=done)
        return finished

    def wait_longer(self) -> bool:
        """Returns whether reads go on that the fetch waits for, though its own time is over. The first call begins the
        wait.
        """
        if self._longer_s <= 0:
            return False
        if self._withdrawals and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._longer_s, self._end)
        return bool(self._withdrawals)

    def withdraw(self) -> None:
        """Ends the waits: the store is still read, and the next fetch gets the result."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        for led in list(self._withdrawals):
            self._withdraw(led)

    def _withdraw(self, led: LedSharePartition) -> None:
        withdraw = self._withdrawals.pop(led, None)
        if withdraw is not None:
            withdraw()

    def _done(self, led: LedSharePartition, offset: int, records: RemoteRecords) -> None:
        self._withdrawals.pop(led, None)
        self._reads[led] = offset, records
        self._resume()

    def _end(self) -> None:
        self.withdraw()
        self._resume()


# A ShareFetch in progress.


RECORD_LIMIT_MODE = 1

Response = dict[TopicIdPartition, ShareFetchPartitionData]


class ShareFetches:
    """Starts the fetches of share groups. `max_bytes`: the most that one response has (fetch.max.bytes)."""

    def __init__(
        self,
        share_partitions: SharePartitions,
        configs: ShareConfigs,
        clock: Clock,
        waits: FetchWaits,
        max_bytes: int,
    ) -> None:
        self.share_partitions = share_partitions
        self.configs = configs
        self.clock = clock
        self.waits = waits
        self.max_bytes = max_bytes

    def start(
        self,
        call: Call,
        partitions: list[TopicIdPartition],
        done: Callable[[Response], None],
        *,
        tells_all: bool = False,
    ) -> None:
        """Fetches for a ShareFetch request. `done` is called once, now or later, with the records or errors of each
        partition. Other partitions are left out, unless `tells_all`.
        """
        ShareFetch(self, call, partitions, done, tells_all=tells_all).start()


class ShareFetch(ParkedFetch):
    """A waiting or running ShareFetch."""

    __slots__ = (
        "_call", "_clock", "_done", "_group_id", "_is_over", "_max_bytes", "_min_bytes", "_partitions", "_reader",
        "_remote", "_share_partitions", "_tells_all", "_wait_ms", "_waits_for",
    )  # fmt: skip

    def __init__(
        self,
        fetches: ShareFetches,
        call: Call,
        partitions: list[TopicIdPartition],
        done: Callable[[Response], None],
        *,
        tells_all: bool,
    ) -> None:
        super().__init__(fetches.waits)
        request: ShareFetchRequest = call.request
        self._call = call
        self._clock = fetches.clock
        self._share_partitions = fetches.share_partitions
        self._done = done
        self._partitions = partitions
        self._tells_all = tells_all
        self._group_id = request.group_id or ""
        self._max_bytes = min(request.max_bytes, fetches.max_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._wait_ms = request.max_wait_ms
        self._remote = self._make_remote_reads()
        is_strict = call.version >= 2 and request.share_acquire_mode == RECORD_LIMIT_MODE
        self._reader = ShareReader(
            request.member_id or "",
            AcquireRequest(request.max_records, request.batch_size, is_strict),
            is_isolated=fetches.configs.is_read_committed(self._group_id),
            remote=self._remote,
        )
        #: The share partitions of the last attempt, and the last change that it saw of each. It also waits for those
        #: that are still loading.
        self._waits_for: dict[LedSharePartition, int] = {}
        self._is_over = False

    @property
    def wanted_records(self) -> int:
        return self._reader.wanted.max_records

    def _make_remote_reads(self) -> RemoteReads | None:
        port = self._share_partitions.remote
        if port is None:
            return None
        return RemoteReads(port, self._remote_read_ended, self._wait_ms)

    # ---- lifecycle

    def start(self) -> None:
        if not self._partitions or self._max_bytes <= 0 or self._reader.wanted.max_records <= 0:
            self._finish({})
            return
        self._is_last = self._wait_ms <= 0
        self._attempt()
        if not self._is_over:
            self._waits.deadlines.add(self, self._wait_ms)

    def _continue(self) -> None:
        self._is_woken = False
        if self._is_over:
            return
        if self._call.connection.closed:
            self._finish({})
        else:
            self._attempt()

    def _attempt(self) -> None:
        before, self._waits_for = self._waits_for, {}
        response: Response | None = None
        try:
            response = self._look()
        except NotInPageCache as cold:
            self._warm(cold)
        finally:
            # Other fetches are woken for what this one does not take, whatever became of it.
            is_waiting = response is not None and not response and not self._is_due()
            for led in before:
                if not is_waiting or led not in self._waits_for:
                    led.leave(self)
            if is_waiting:
                self._watch()
        if response is not None and not is_waiting:
            self._finish(response)

    def _is_due(self) -> bool:
        """Returns whether the response is due, with however little there is. The store gets some more time."""
        return self._is_last and (self._remote is None or not self._remote.wait_longer())

    def _remote_read_ended(self) -> None:
        if not self._is_warming:  # else it looks again when the disk is read
            self.on_state_changed()

    def _watch(self) -> None:
        for led, seen in self._waits_for.items():
            led.wait(self, seen)

    def _unwatch(self) -> None:
        for led in self._waits_for:
            led.leave(self)

    def _finish(self, response: Response) -> None:
        self._is_over = True
        if self._remote is not None:
            self._remote.withdraw()
        self._unwatch()
        self._waits.deadlines.remove(self)
        self._done(response)

    # ---- attempts

    def _look(self) -> Response:
        response: Response = {}
        found: list[Found] = []
        share_bytes = max(1, self._max_bytes // len(self._partitions))
        for partition in self._partitions:
            led = self._open(partition, response)
            if led is not None:
                one = None
                try:
                    one = self._reader.read(led, share_bytes, self._pread)
                except BatchError as damage:
                    self._met_damage(led, damage, response)
                except RemoteReadFailed as failure:
                    self._remote_read_failed(led, failure, response)
                if one is not None:
                    found.append(one)
        is_enough = sum(one.records.size for one in found) >= self._min_bytes
        if response or is_enough or self._is_last:
            for one in found:
                try:
                    data = self._reader.acquire(one, self._clock.now_ms(), share_bytes, self._pread)
                except BatchError as damage:
                    self._met_damage(one.led, damage, response)
                    continue
                except RemoteReadFailed as failure:
                    self._remote_read_failed(one.led, failure, response)
                    continue
                except NotInPageCache:
                    if not response:
                        raise
                    continue  # records of other partitions are acquired: they are sent now
                if data is not None:
                    response[_partition_of(one.led)] = data
        if self._tells_all and (response or self._is_due()):
            for led in self._waits_for:
                partition = _partition_of(led)
                if led.state_machine is not None and partition not in response:
                    response[partition] = ShareFetchPartitionData(partition_index=led.key.partition, records=b"")
        return response

    def _open(self, partition: TopicIdPartition, response: Response) -> LedSharePartition | None:
        """Returns the loaded share partition; None while it is loading and on an error, which is put into `answer`."""
        led = self._share_partitions.open_led(ShareKey(self._group_id, *partition))
        if not isinstance(led, LedSharePartition):
            response[partition] = _failed(partition, led)
            return None
        self._waits_for[led] = led.last_change
        if led.validation_error is not None:
            response[partition] = _failed(partition, led.validation_error.error)
            return None
        if led.state_machine is None:
            return None
        return led

    @staticmethod
    def _met_damage(led: LedSharePartition, damage: BatchError, response: Response) -> None:
        """Handles damage. Records that are being healed are waited for."""
        led.hosted.on_damage(led.hosted, damage)
        if not led.hosted.is_healing:
            partition = _partition_of(led)
            response[partition] = _failed(partition, damage.error_code)

    @staticmethod
    def _remote_read_failed(led: LedSharePartition, failure: RemoteReadFailed, response: Response) -> None:
        led.hosted.counters.failed_fetches += 1
        partition = _partition_of(led)
        response[partition] = _failed(partition, failure.error_code)


def _partition_of(led: LedSharePartition) -> TopicIdPartition:
    return led.key.topic_id, led.key.partition


def _failed(partition: TopicIdPartition, error: int) -> ShareFetchPartitionData:
    return ShareFetchPartitionData(partition_index=partition[1], error_code=int(error), records=b"")
