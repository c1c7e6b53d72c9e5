"""Handles one ShareFetch, from its session's partitions to its response; parked while there are no records.

Records are acquired only when they are sure to be sent. The fetch first inspects what the logs have. When that is
enough, or the wait time is over, the share partitions acquire from it what they can (share_reader.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...coordinator.share_partition.acquiring import AcquireRequest
from ...coordinator.share_state.state import ShareKey
from ...metadata.image import TopicIdPartition
from ...protocol.messages.share_fetch import PartitionData
from ...protocol.records.errors import BatchError
from ..partitions.page_cache import NotInPageCache
from ..partitions.parked_fetch import ParkedFetch
from .share_partitions import LedSharePartition
from .share_reader import Found, ShareReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol.messages.share_fetch import ShareFetchRequest
    from ..network.call import Call
    from ..partitions.parked_fetch import FetchWaits
    from ..runtime.clock import Clock
    from .share_configs import ShareConfigs
    from .share_partitions import SharePartitions

RECORD_LIMIT_MODE = 1

Answer = dict[TopicIdPartition, PartitionData]


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
        done: Callable[[Answer], None],
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
        "_share_partitions", "_tells_all", "_wait_ms", "_waits_for",
    )  # fmt: skip

    def __init__(
        self,
        fetches: ShareFetches,
        call: Call,
        partitions: list[TopicIdPartition],
        done: Callable[[Answer], None],
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
        is_strict = call.version >= 2 and request.share_acquire_mode == RECORD_LIMIT_MODE
        self._reader = ShareReader(
            request.member_id or "",
            AcquireRequest(request.max_records, request.batch_size, is_strict),
            is_isolated=fetches.configs.is_read_committed(self._group_id),
        )
        #: The share partitions of the last attempt. It also waits for those that are still loading.
        self._waits_for: list[LedSharePartition] = []
        self._is_over = False

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
        self._unwatch()
        self._waits_for, self._hosts = [], []
        try:
            answer = self._look()
        except NotInPageCache as cold:
            self._warm(cold)
            return
        if answer or self._is_last:
            self._finish(answer)
        else:
            self._watch()

    def _watch(self) -> None:
        super()._watch()
        for led in self._waits_for:
            led.waiters[self] = None

    def _unwatch(self) -> None:
        super()._unwatch()
        for led in self._waits_for:
            led.waiters.pop(self, None)

    def _finish(self, answer: Answer) -> None:
        self._is_over = True
        self._unwatch()
        self._waits.deadlines.remove(self)
        self._done(answer)

    # ---- attempts

    def _look(self) -> Answer:
        answer: Answer = {}
        found: list[Found] = []
        share_bytes = max(1, self._max_bytes // len(self._partitions))
        for partition in self._partitions:
            led = self._open(partition, answer)
            if led is not None:
                one = None
                try:
                    one = self._reader.read(led, share_bytes, self._pread)
                except BatchError as damage:
                    self._met_damage(led, damage, answer)
                if one is not None:
                    found.append(one)
        is_enough = sum(one.records.size for one in found) >= self._min_bytes
        if answer or is_enough or self._is_last:
            for one in found:
                try:
                    data = self._reader.acquire(one, self._clock.now_ms(), share_bytes, self._pread)
                except BatchError as damage:
                    self._met_damage(one.led, damage, answer)
                    continue
                except NotInPageCache:
                    if not answer:
                        raise
                    continue  # records of other partitions are acquired: they are sent now
                if data is not None:
                    answer[_partition_of(one.led)] = data
        if self._tells_all and (answer or self._is_last):
            for led in self._waits_for:
                partition = _partition_of(led)
                if led.state_machine is not None and partition not in answer:
                    answer[partition] = PartitionData(partition_index=led.key.partition, records=b"")
        return answer

    def _open(self, partition: TopicIdPartition, answer: Answer) -> LedSharePartition | None:
        """Returns the loaded share partition; None while it is loading and on an error, which is put into `answer`."""
        led = self._share_partitions.open_led(ShareKey(self._group_id, *partition))
        if not isinstance(led, LedSharePartition):
            answer[partition] = _failed(partition, led)
            return None
        self._waits_for.append(led)
        if led.validation_error is not None:
            answer[partition] = _failed(partition, led.validation_error.error)
            return None
        if led.state_machine is None:
            return None
        self._hosts.append(led.hosted)
        return led

    @staticmethod
    def _met_damage(led: LedSharePartition, damage: BatchError, answer: Answer) -> None:
        """Handles damage. Records that are being healed are waited for."""
        led.hosted.on_damage(led.hosted, damage)
        if not led.hosted.is_healing:
            partition = _partition_of(led)
            answer[partition] = _failed(partition, damage.error_code)


def _partition_of(led: LedSharePartition) -> TopicIdPartition:
    return led.key.topic_id, led.key.partition


def _failed(partition: TopicIdPartition, error: int) -> PartitionData:
    return PartitionData(partition_index=partition[1], error_code=int(error), records=b"")
