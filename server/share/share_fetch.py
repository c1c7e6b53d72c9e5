"""One ShareFetch, from its session's partitions to its response; parked while there are no records.

Records are acquired only when they are sure to be sent. The fetch first inspects what the logs have. When that is
enough, or the wait time is over, the share partitions acquire from it what they can (`ShareReader`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...coordinator.acquisition import AcquireRequest
from ...coordinator.share_state import ShareKey
from ...metadata.image import TopicIdPartition
from ...protocol.messages.share_fetch import ShareFetchPartitionData, ShareFetchRequest
from ...protocol.records.errors import BatchError
from ..partitions.parked_fetch import ParkedFetch
from ..partitions.sendable_records import NotInPageCache
from .led_share_partition import LedSharePartition
from .share_reader import RemoteReadFailed, ShareReader
from .share_remote_reads import ShareRemoteReads

if TYPE_CHECKING:
    from ..network.call import Call
    from ..partitions.parked_fetch import FetchWaits
    from ..runtime.clock import Clock
    from .share_configs import ShareConfigs
    from .share_partitions import SharePartitions
    from .share_reader import ShareRead

RECORD_LIMIT_MODE = 1
_WITH_ACQUIRE_MODES = ShareFetchRequest.versions_with("share_acquire_mode")

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
        call: Call[ShareFetchRequest],
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
        call: Call[ShareFetchRequest],
        partitions: list[TopicIdPartition],
        done: Callable[[Response], None],
        *,
        tells_all: bool,
    ) -> None:
        super().__init__(fetches.waits)
        request = call.request
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
        is_strict = call.version in _WITH_ACQUIRE_MODES and request.share_acquire_mode == RECORD_LIMIT_MODE
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

    def _make_remote_reads(self) -> ShareRemoteReads | None:
        port = self._share_partitions.remote
        if port is None:
            return None
        return ShareRemoteReads(port, self._remote_read_ended, self._wait_ms)

    # Lifecycle.

    def start(self) -> None:
        if not self._partitions or self._max_bytes <= 0 or self._reader.wanted.max_records <= 0:
            self._finish({})
            return
        self._is_last = self._wait_ms <= 0
        self._attempt()
        if not self._is_over:
            self._waits.deadlines.add(self, self._wait_ms)
            self._call.on_departure = self.on_state_changed

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
            response = self._read_partitions()
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
            self._remote.release(self._call.connection)
        self._unwatch()
        self._waits.deadlines.remove(self)
        self._done(response)

    # Attempts.

    def _read_partitions(self) -> Response:
        response: Response = {}
        reads: list[ShareRead] = []
        share_bytes = max(1, self._max_bytes // len(self._partitions))
        for partition in self._partitions:
            led = self._open(partition, response)
            if led is not None:
                read = None
                try:
                    read = self._reader.read(led, share_bytes, self._pread)
                except BatchError as damage:
                    self._met_damage(led, damage, response)
                except RemoteReadFailed as failure:
                    self._remote_read_failed(led, failure, response)
                if read is not None:
                    reads.append(read)
        is_enough = sum(read.records.size for read in reads) >= self._min_bytes
        if response or is_enough or self._is_last:
            for read in reads:
                try:
                    data = self._reader.acquire(read, self._clock.now_ms(), share_bytes, self._pread)
                except BatchError as damage:
                    self._met_damage(read.led, damage, response)
                    continue
                except RemoteReadFailed as failure:
                    self._remote_read_failed(read.led, failure, response)
                    continue
                except NotInPageCache:
                    if not response:
                        raise
                    continue  # records of other partitions are acquired: they are sent now
                if data is not None:
                    response[_partition_of(read.led)] = data
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
