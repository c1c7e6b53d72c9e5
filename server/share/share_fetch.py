"""Handles one ShareFetch, from its session's partitions to its response; parked while there are no records.

Records are acquired only when they are sure to be sent. The fetch first inspects what the logs have. When that is
enough, or the wait time is over, the share partitions acquire from it what they can. The log is read in whole batches,
which are sent as ranges of the files as in a Fetch. The response names the records that the member has acquired.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ...coordinator.share_partition.acquiring import Acquired, AcquireRequest, acquire
from ...coordinator.share_partition.partition import Refusal, SharePartition
from ...coordinator.share_state.state import ShareKey
from ...protocol.messages.share_fetch import AcquiredRecords, PartitionData
from ...protocol.records.errors import BatchError
from ...storage.files.open_files import pread_nowait
from ...storage.log.log import OffsetOutOfRange
from ...storage.segments.batch_walk import Pread
from ...storage.segments.slices import LogSlice
from ..partitions.page_cache import NotInPageCache, sendable, warm
from ..runtime.waiters import Parked
from . import share_configs
from .share_partitions import LedSharePartition
from .share_records import Batch, aborted_stretches, batches_of, cut
from .share_sessions import Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.messages.share_fetch import ShareFetchRequest
    from ..network.call import Call
    from ..partitions.hosted_partition import HostedPartition

RECORD_LIMIT_MODE = 1
#: How often one response reads a partition again when none of the records read may be acquired.
MOST_READS = 16
#: As in a Fetch: after this many reads by a thread, the fetch blocks on the disk.
MOST_WARMINGS = 3

Answer = dict[Place, PartitionData]


class Found(NamedTuple):
    led: LedSharePartition
    fetch_offset: int
    records: LogSlice
    batches: list[Batch]


class ShareFetch(Parked):
    """A waiting or running ShareFetch. `done` is called once, with the records or errors of each partition. Other
    partitions are left out, unless `tells_all`.
    """

    __slots__ = (
        "_call", "_done", "_group_id", "_is_isolated", "_is_last", "_is_over", "_is_woken", "_max_bytes", "_member_id",
        "_min_bytes", "_places", "_pread", "_tells_all", "_wait_ms", "_waits_for", "_warmings", "_watched", "_wish",
    )  # fmt: skip

    def __init__(
        self, call: Call, places: list[Place], done: Callable[[Answer], None], *, tells_all: bool = False
    ) -> None:
        super().__init__()
        request: ShareFetchRequest = call.request
        self._call = call
        self._done = done
        self._places = places
        self._tells_all = tells_all
        self._group_id = request.group_id or ""
        self._member_id = request.member_id or ""
        self._max_bytes = min(request.max_bytes, call.broker.fetch_max_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._wait_ms = request.max_wait_ms
        is_strict = call.version >= 2 and request.share_acquire_mode == RECORD_LIMIT_MODE
        self._wish = AcquireRequest(request.max_records, request.batch_size, is_strict)
        self._is_isolated = share_configs.is_read_committed(call.broker, self._group_id)
        self._waits_for: list[LedSharePartition] = []
        self._watched: list[HostedPartition] = []
        self._is_woken = self._is_last = self._is_over = False
        self._pread: Pread = pread_nowait
        self._warmings = 0

    # ---- lifecycle

    def start(self) -> None:
        if not self._places or self._max_bytes <= 0 or self._wish.max_records <= 0:
            self._finish({})
            return
        self._is_last = self._wait_ms <= 0
        self._attempt()
        if not self._is_over:
            self._call.broker.deadlines.add(self, self._wait_ms)

    def on_bytes_available(self, size: int) -> None:
        self.on_state_changed()

    def on_state_changed(self) -> None:
        if not self._is_woken and not self._is_over:
            self._is_woken = True
            self._call.broker.wakeups.add(self._continue)

    def expired(self) -> None:
        self._is_last = True
        if not self._is_woken:
            self._attempt()

    def _continue(self) -> None:
        self._is_woken = False
        if self._is_over:
            return
        if self._call.connection.closed:
            self._finish({})
        else:
            self._attempt()

    def _attempt(self) -> None:
        self._release()
        try:
            answer = self._look()
        except NotInPageCache as cold:
            self._warmings += 1
            if self._warmings >= MOST_WARMINGS:
                self._pread = os.pread
            self._call.broker.run_in_thread(cold.read, lambda _: self._continue())
            return
        if answer or self._is_last:
            self._finish(answer)
        else:
            for led in self._waits_for:
                led.waiters[self] = None
            for hosted in self._watched:
                hosted.watchers[self] = None

    def _release(self) -> None:
        for led in self._waits_for:
            led.waiters.pop(self, None)
        for hosted in self._watched:
            hosted.watchers.pop(self, None)
        self._waits_for, self._watched = [], []

    def _finish(self, answer: Answer) -> None:
        self._is_over = True
        self._release()
        self._call.broker.deadlines.remove(self)
        self._done(answer)

    # ---- inspecting

    def _look(self) -> Answer:
        answer: Answer = {}
        found: list[Found] = []
        share_bytes = max(1, self._max_bytes // len(self._places))
        for place in self._places:
            led = self._open(place, answer)
            if led is not None:
                one = None
                try:
                    one = self._read(led, share_bytes)
                except BatchError as damage:
                    self._met_damage(led, damage, answer)
                if one is not None:
                    found.append(one)
        is_enough = sum(one.records.size for one in found) >= self._min_bytes
        if answer or is_enough or self._is_last:
            for one in found:
                try:
                    self._give(one, answer, share_bytes)
                except BatchError as damage:
                    self._met_damage(one.led, damage, answer)
        if self._tells_all and (answer or self._is_last):
            for led in self._waits_for:
                place = (led.key.topic_id, led.key.partition)
                if led.machine is not None and place not in answer:
                    answer[place] = PartitionData(partition_index=place[1], records=b"")
        return answer

    def _open(self, place: Place, answer: Answer) -> LedSharePartition | None:
        """Returns the loaded share partition; None while it is loading and on an error, which is put into `answer`."""
        topic_id, index = place
        broker = self._call.broker
        hosted = broker.partitions.get_by_id(place)
        error = broker.leaders.absent_error(topic_id, index) if hosted is None else hosted.error_for_epoch(-1)
        if error or hosted is None:
            answer[place] = PartitionData(partition_index=index, error_code=error, records=b"")
            return None
        led: LedSharePartition = broker.share_partitions().open(ShareKey(self._group_id, topic_id, index), hosted)
        self._waits_for.append(led)
        if led.refusal is not None:
            answer[place] = _refused(index, led.refusal)
            return None
        if led.machine is None:
            return None
        self._watched.append(hosted)
        return led

    @staticmethod
    def _met_damage(led: LedSharePartition, damage: BatchError, answer: Answer) -> None:
        """Handles damage. Records that are being healed are waited for."""
        led.hosted.on_damage(led.hosted, damage)
        if not led.hosted.is_healing:
            place = led.key.topic_id, led.key.partition
            answer[place] = PartitionData(partition_index=place[1], error_code=int(damage.error_code), records=b"")

    def _read(self, led: LedSharePartition, max_bytes: int) -> Found | None:
        """Reads the log from the next offset to acquire, with no more batches than requested."""
        machine, hosted = led.machine, led.hosted
        if machine is None or not machine.can_acquire():
            return None
        log = hosted.log
        limit = hosted.last_stable_offset if self._is_isolated else hosted.high_watermark
        offset = machine.next_fetch_offset()
        if offset < log.log_start_offset:
            machine.log_start_moved(log.log_start_offset)
            offset = machine.next_fetch_offset()
        if offset >= limit:
            return None
        try:
            records = log.read(offset, max_bytes, limit, True, self._pread)
            batches = self._wanted(records, offset, machine)
        except BlockingIOError:
            raise NotInPageCache(partial(_warm_all, partial(log.read, offset, max_bytes, limit, True))) from None
        except OffsetOutOfRange:
            return None
        return Found(led, offset, records, batches) if batches else None

    def _wanted(self, records: LogSlice, offset: int, machine: SharePartition) -> list[Batch]:
        """Chooses the batches to acquire from. Between records in flight, of which other members hold some, it chooses
        twice the requested number, and everything that was acquired together with the last of it.
        """
        most = self._wish.max_records
        is_again = offset < machine.end_offset
        last = machine.runs.end_of_stretch(offset + 2 * most - 1) if is_again else offset + most - 1
        batches: list[Batch] = []
        for batch in batches_of(records, self._pread) if records.size else ():
            batches.append(batch)
            if batch.last_offset >= last:
                break
        return batches

    # ---- acquiring

    def _give(self, found: Found, answer: Answer, max_bytes: int) -> None:
        one: Found | None = found
        for _ in range(MOST_READS):
            if one is None or self._wish.max_records <= 0:
                return
            acquired = self._acquire(one)
            if acquired:
                self._answer(one, acquired, answer)
                return
            if self._is_isolated:
                one = self._read(one.led, max_bytes)
            else:
                return

    def _acquire(self, found: Found) -> list[Acquired]:
        machine = found.led.machine
        if machine is None:
            return []
        now = self._call.broker.now_ms()
        # May raise, and nothing is acquired then.
        stretches = aborted_stretches(found.led.hosted.log, found.batches) if self._is_isolated else []
        acquired = acquire(machine, self._member_id, self._wish, found.fetch_offset, found.batches, now)
        if acquired:
            for first, last in stretches:
                acquired = [piece for one in acquired for piece in _outside(one, first, last)]
                machine.archive_acquired(self._member_id, first, last)
        found.led.settle()
        return acquired

    def _answer(self, found: Found, acquired: list[Acquired], answer: Answer) -> None:
        key = found.led.key
        count = sum(one.last - one.first + 1 for one in acquired)
        self._wish = self._wish._replace(max_records=self._wish.max_records - count)
        records = cut(found.records, found.batches, acquired[0].first, acquired[-1].last)
        found.led.hosted.log.remember(records)
        data = PartitionData(partition_index=key.partition, records=b"")
        data.records = sendable(records, may_wait=True)
        data.acquired_records = [AcquiredRecords(*one) for one in acquired]
        answer[(key.topic_id, key.partition)] = data
        counters = found.led.hosted.counters
        counters.bytes_out += records.size
        counters.fetches += 1


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


def _refused(index: int, refusal: Refusal) -> PartitionData:
    return PartitionData(partition_index=index, error_code=int(refusal.error), records=b"")
