"""A partition that is led here and followed at a source: its next fetch, and the responses applied to its log."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.log_places import EARLIEST, LATEST
from ...protocol.messages.fetch import FetchPartition
from ...protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ...protocol.node_ids import CONSUMER
from ...protocol.records.batch import BatchHeader, check_crc, iter_headers
from ...protocol.records.errors import BatchError, CorruptBatch
from ...replication.mirror.partition import Batch, Ends, MirroredLog, MirrorState
from ...storage.files.failures import LogDirectoryFailure
from ..replicas.followed_partition import FIRST_BACKOFF_MS
from .local_batches import batch_at, batch_at_nowait

if TYPE_CHECKING:
    from ...client.peers import Endpoint
    from ...protocol.messages.fetch import PartitionData
    from ...protocol.messages.list_offsets import ListOffsetsResponse
    from ...protocol.schema import Records
    from ..partitions.hosted_partition import HostedPartition
    from ..replicas.fetch_ports import FetchRequests
    from ..runtime.clock import Clock

PURPOSE = "mirror-offsets"
_STORAGE_ERROR = int(ErrorCode.KAFKA_STORAGE_ERROR)


class MirroredPartition:
    """`key`: the source's topic and the index. `leader` and `epoch`: there, -1 for none. `log`: what is decided on it.

    The log outlives this object, which stands for one leader there in one epoch here.
    """

    def __init__(
        self, hosted: HostedPartition, key: tuple[bytes, int], topic: str, leader: int, epoch: int, log: MirroredLog
    ) -> None:
        self.hosted = hosted
        self.key = key
        self.topic = topic
        self.leader = leader
        self.epoch = epoch
        self.log = log
        self.failures = 0
        self.not_before_ms = 0
        self.damage: BatchError | None = None
        self.changed: Callable[[MirroredPartition], None] = _nobody_asks
        #: The source's last stable offset, and the time when it was reported; -1 for not yet.
        self.source_end = -1
        self.source_end_ms = -1
        #: The time at which this log had all of it.
        self.caught_up_ms = -1
        #: The error of the last response, 0 for none.
        self.error = 0
        #: The start of the source's log when it last said so: one that was made anew begins before it.
        self._source_start = -1
        self._led_epoch = hosted.role.leader_epoch
        #: Whether the log waits for the disk, to be cut.
        self.is_cut_submitted = False
        #: The offset of the fetch in flight: a response to an earlier decision is none to this one.
        self._asked = -1
        #: State and offset of the comparison in the last round of the link.
        self._compared: tuple[MirrorState, int | None] | None = None
        self._is_left = False
        self._asks_ends = False
        #: A thread reads the next batch to compare in a search: nothing is fetched until then.
        self._is_reading = False

    @property
    def is_current(self) -> bool:
        hosted = self.hosted
        gone = self._is_left or hosted.is_removed or hosted.offline or not hosted.role.is_leader
        return not gone and hosted.role.leader_epoch == self._led_epoch and bool(hosted.rules.mirror)

    @property
    def is_waiting(self) -> bool:
        """Whether nothing may be fetched: the partition has stopped, or too few replicas are in sync."""
        return self.log.fetch_offset is None or self._asks_ends or not self.hosted.role.has_enough_in_sync

    @property
    def is_urgent(self) -> bool:
        """Whether the next fetch is to be sent at once: the source has more, or batches are compared."""
        return self.hosted.log_end_offset < self.source_end or self.log.state is not MirrorState.FOLLOWING

    def leave(self) -> None:
        self._is_left = True

    def resume(self, before: MirroredPartition) -> None:
        """Takes over what an earlier object has learnt of the source."""
        self.source_end, self.source_end_ms = before.source_end, before.source_end_ms
        self.caught_up_ms = before.caught_up_ms

    def failed(self, now_ms: int, most_backoff_ms: int) -> None:
        self.not_before_ms = now_ms + min(most_backoff_ms, FIRST_BACKOFF_MS << min(self.failures, 20))
        self.failures += 1
        self.log.compare_again()

    def disconnected(self) -> None:
        """Another log may be there after the next connection."""
        self.log.compare_again()

    # ---- fetches

    def wanted(self, max_bytes: int) -> FetchPartition:
        offset = self.log.fetch_offset
        assert offset is not None, "a partition that waits is not fetched"
        self._asked = offset
        return FetchPartition(
            partition=self.key[1],
            current_leader_epoch=self.epoch,
            fetch_offset=offset,
            partition_max_bytes=max_bytes,
        )

    def take(self, data: PartitionData, now_ms: int) -> int:
        """Applies the source's response. Returns an error code, 0 for success."""
        if self.log.fetch_offset != self._asked:
            return 0
        self.error = data.error_code
        if data.error_code:
            return data.error_code
        try:
            if self.log.state in (MirrorState.COMPARING, MirrorState.SEARCHING):
                if self._compare(data):
                    return ErrorCode.OFFSET_OUT_OF_RANGE
            elif self._is_shorter(data):
                return 0
            if data.records and self.log.state is MirrorState.FOLLOWING:
                self._append(data.records, now_ms)
        except BatchError as damage:
            self.damage, self.error = damage, int(damage.error_code)
            return damage.error_code
        except LogDirectoryFailure as failure:
            self.hosted.on_failure(failure)
            return _STORAGE_ERROR
        self.failures = 0
        self._note_source(data, now_ms)
        return 0

    def _note_source(self, data: PartitionData, now_ms: int) -> None:
        hosted = self.hosted
        self.source_end = data.last_stable_offset if data.last_stable_offset >= 0 else data.high_watermark
        self.source_end_ms = now_ms
        if hosted.log_end_offset >= self.source_end:
            self.caught_up_ms = now_ms
        self._source_start = data.log_start_offset
        start = min(data.log_start_offset, hosted.high_watermark)
        if start > hosted.log_start_offset:
            hosted.advance_log_start_offset(start)

    def _is_shorter(self, data: PartitionData) -> bool:
        """Whether the source's log ends before this one, or begins before it has begun: it may be another one."""
        if data.log_start_offset < self._source_start:
            self._source_start = -1
            self.log.compare_again()
            return self.log.state is MirrorState.COMPARING
        return self.log.source_shrank(data.high_watermark)

    def _compare(self, data: PartitionData) -> bool:
        """Compares the source's first batch. Returns whether its ends are to be read. Raises BatchError."""
        records, first = data.records or b"", None
        for position, header in iter_headers(records):
            check_crc(records, position, header)
            if not self._is_in_order(header, None):
                raise self._out_of_order(header, None)
            first = Batch.of(header)
            break
        asks_ends = False
        if self.log.state is MirrorState.SEARCHING:
            self.log.probed(first, data.high_watermark)
        else:
            asks_ends = self.log.compared(first, data.high_watermark)
        self.search()
        return asks_ends

    def search(self) -> None:
        """Chooses the next batch to compare in a search. Nothing is fetched until it is read."""
        while not self._is_reading and (offset := self.log.wanted_probe) is not None:
            try:
                self.log.probe_at(offset, batch_at_nowait(self.hosted, offset))
            except BlockingIOError:
                self._is_reading = True
                self.hosted.pools.disk.run_then(partial(batch_at, self.hosted, offset), partial(self._read, offset))
            except LogDirectoryFailure as failure:
                self.hosted.on_failure(failure)
                return

    def _read(self, offset: int, batch: Batch | BaseException | None) -> None:
        """Goes on with the search with a batch that a thread has read."""
        self._is_reading = False
        if isinstance(batch, LogDirectoryFailure):
            self.hosted.on_failure(batch)
        elif isinstance(batch, BaseException):
            raise batch
        elif self.is_current and self.log.wanted_probe == offset:
            self.log.probe_at(offset, batch)
            self.search()
            self.changed(self)

    def _append(self, records: Records, now_ms: int) -> None:
        """Writes the batches behind the log's end, up to the first bad one, for which it raises CorruptBatch."""
        assert records is not None
        hosted = self.hosted
        next_offset = hosted.log_end_offset
        behind: int | None = None
        headers: list[BatchHeader] = []
        start, end = 0, 0
        damage: BatchError | None = None
        try:
            for position, header in iter_headers(records):
                # Offsets decide what is left out here, so they are checked first.
                check_crc(records, position, header)
                if not self._is_in_order(header, behind):
                    # No CRC covers the first offset of a batch: that of the batch in front may be the wrong one.
                    end -= headers.pop().size if headers else 0
                    raise self._out_of_order(header, behind)
                behind, end = header.next_offset, position + header.size
                if header.next_offset <= next_offset:
                    start = end  # compared
                elif header.base_offset < next_offset:
                    self.log.overlapped(Batch.of(header))
                    self.search()
                    return
                else:
                    next_offset = header.next_offset
                    headers.append(header)
        except BatchError as error:
            damage = error
        if headers:
            self._write(memoryview(records)[start:end], headers, now_ms)
        if damage is not None:
            raise damage

    def _is_in_order(self, header: BatchHeader, behind: int | None) -> bool:
        """Whether a batch begins at or behind the end of the one in front of it.

        `behind` is None for the first batch, which has the offset that was asked for, or follows it.
        """
        is_behind = header.next_offset > self._asked if behind is None else header.base_offset >= behind
        return is_behind and header.last_offset_delta >= 0

    def _out_of_order(self, header: BatchHeader, behind: int | None) -> CorruptBatch:
        return CorruptBatch(
            f"{self.hosted.name}: the source has a batch from {header.base_offset} to {header.next_offset} where one from "
            f"{self._asked if behind is None else behind} on belongs"
        )

    def _write(self, records: memoryview, headers: list[BatchHeader], now_ms: int) -> None:
        """Writes the batches in one piece, unless a segment cannot hold them all."""
        hosted = self.hosted
        if len(records) <= hosted.rules.segment_bytes:
            hosted.append_mirrored(bytearray(records), headers, now_ms)
        else:
            position = 0
            for header in headers:
                hosted.append_mirrored(bytearray(records[position : position + header.size]), (header,), now_ms)
                position += header.size
        self.log.appended(hosted.log_end_offset, Batch.of(headers[-1]))

    # ---- ends

    def ask_ends_if_silent(self, requests: FetchRequests, clock: Clock) -> None:
        """Asks for the source's ends where a comparison has had no response since the last call.

        In a session, a broker sends none for a partition without new records (KIP-227).
        """
        is_comparing = self.log.state in (MirrorState.COMPARING, MirrorState.SEARCHING)
        compared = (self.log.state, self.log.fetch_offset) if is_comparing else None
        is_silent = compared is not None and compared == self._compared and not self._asks_ends
        self._compared = compared
        endpoint = requests.endpoint(self.leader) if is_silent else None
        if endpoint is not None:
            self.out_of_range(requests, clock, endpoint)

    def out_of_range(self, requests: FetchRequests, clock: Clock, endpoint: Endpoint) -> None:
        """Asks for the source's ends, in two requests. Until then nothing is fetched."""
        ends: list[int] = []

        def ask(timestamp: int) -> None:
            asked = ListOffsetsPartition(self.key[1], self.epoch, timestamp)
            request = ListOffsetsRequest(replica_id=CONSUMER, topics=[ListOffsetsTopic(self.topic, [asked])])
            requests.send(endpoint, request, reported, purpose=PURPOSE)

        def reported(response: ListOffsetsResponse | None) -> None:
            found = response.topics[0].partitions[0] if response is not None and response.topics else None
            if found is None or found.error_code or not self.is_current:
                self._asks_ends = False
                self.changed(self)
                return
            ends.append(found.offset)
            if len(ends) == 1:
                ask(LATEST)
                return
            self._asks_ends = False
            self._ends_known(Ends(*ends), clock.now_ms())
            self.changed(self)

        self._asks_ends = True
        ask(EARLIEST)

    def _ends_known(self, ends: Ends, now_ms: int) -> None:
        begins_at = self.log.ends_known(ends)
        self.search()
        if begins_at is None or ends.start < ends.end:
            return  # a batch at or behind the start is appended with a gap
        try:
            # The source has no records: a consumer with an offset there must find it in range here.
            self.hosted.open_log().truncate_fully_and_start_at(ends.start, now_ms)
            self.hosted.truncated()
            self.log.emptied(ends.start)
        except LogDirectoryFailure as failure:
            self.hosted.on_failure(failure)


def _nobody_asks(followed: MirroredPartition) -> None:
    """Does nothing: the callback of a partition without a fetcher."""
