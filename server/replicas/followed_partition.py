"""A partition that this broker follows: its next fetch, and the application of its leader's responses.

Batches are written as they were received, byte for byte, with their leader's offsets and epochs, so replicas are
equal. They must have right CRCs and begin where the log ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.fetch import FetchPartition
from ...protocol.records.batch import check_crc, iter_headers
from ...protocol.records.errors import BatchError, CorruptBatch
from ...replication.divergence import truncation_offset
from ...storage.files.failures import LogDirectoryFailure
from .out_of_range import ask_for_ends

if TYPE_CHECKING:
    from ...client.peers import Endpoint
    from ...protocol.buffer import Buffer
    from ...protocol.messages.fetch import PartitionData
    from ...protocol.records.batch import BatchHeader
    from ...storage.log.log import Log
    from ..partitions.hosted_partition import HostedPartition
    from ..runtime.clock import Clock
    from .fetch_ports import FetchRequests
    from .truncations import Truncations

log = logging.getLogger("odradek.replicas")

#: The first delay after an error, since the leader may not have its new role yet; each further one is twice as long.
FIRST_BACKOFF_MS = 20

_STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


class FollowedPartition:
    """A replica and the leader and epoch that it follows, until the metadata names others.

    Until `leave`, `changed` is called when that may be so, and when the log changes in another way than by a response.
    """

    __slots__ = (
        "_truncations", "changed", "damage", "epoch", "failures", "hosted", "is_truncating", "key", "leader", "leader_start",
        "not_before_ms",
    )  # fmt: skip

    def __init__(self, hosted: HostedPartition, now_ms: int, truncations: Truncations) -> None:
        self.hosted = hosted
        self._truncations = truncations
        #: Whether the log waits to be cut: nothing is fetched until then.
        self.is_truncating = False
        self.key = (hosted.topic_id, hosted.index)
        self.leader = hosted.role.leader
        self.epoch = hosted.role.leader_epoch
        #: Failures since the last success, and the time until which the partition is left out for them.
        self.failures = 0
        self.not_before_ms = 0
        #: The leader's log start offset, in the response that names no records of it.
        self.leader_start = -1
        #: The error in the last response's batches, if they could not be written.
        self.damage: BatchError | None = None
        log, high_watermark = hosted.open_log(), hosted.role.high_watermark
        if log.epochs.latest < 0 and log.log_end_offset > high_watermark:
            # Without epochs in the log, only committed records are known to be in the leader's log too.
            self.truncate(high_watermark, now_ms)
        self.changed: Callable[[FollowedPartition], None] = _nobody_asks
        hosted.end_watchers[self] = None

    def leave(self) -> None:
        self.hosted.end_watchers.pop(self, None)

    def on_bytes_available(self, size: int) -> None:
        """Does nothing: only the leader's responses are written to a follower."""

    def on_state_changed(self) -> None:
        self.changed(self)

    @property
    def is_current(self) -> bool:
        hosted = self.hosted
        role = hosted.role
        return not (hosted.is_removed or hosted.offline or role.is_leader) and role.leader_epoch == self.epoch

    def wanted(self, max_bytes: int) -> FetchPartition:
        log = self.hosted.open_log()
        return FetchPartition(
            partition=self.hosted.index,
            current_leader_epoch=self.epoch,
            fetch_offset=log.log_end_offset,
            last_fetched_epoch=log.epochs.latest,
            log_start_offset=log.log_start_offset,
            partition_max_bytes=max_bytes,
        )

    @property
    def is_waiting(self) -> bool:
        """Whether the log is being cut: nothing is fetched until then."""
        return self.is_truncating

    @property
    def is_urgent(self) -> bool:
        """Producers wait for followers."""
        return True

    def out_of_range(self, requests: FetchRequests, clock: Clock, endpoint: Endpoint) -> None:
        """Recovers from a fetch offset that is outside of the leader's log."""
        ask_for_ends(requests, clock, endpoint, self)

    def failed(self, now_ms: int, most_backoff_ms: int) -> None:
        self.not_before_ms = now_ms + min(most_backoff_ms, FIRST_BACKOFF_MS << min(self.failures, 20))
        self.failures += 1

    def disconnected(self) -> None:
        """Does nothing: each fetch names the last epoch, by which the leader finds a difference."""

    # Responses.

    def take(self, data: PartitionData, now_ms: int) -> int:
        """Applies the leader's response to `wanted`. Returns an error code, 0 for success."""
        if self.is_truncating:
            return 0
        if data.error_code:
            self.leader_start = data.log_start_offset
            return data.error_code
        try:
            diverging = data.diverging_epoch
            if diverging.epoch >= 0 or diverging.end_offset >= 0:
                self._diverged(diverging.epoch, diverging.end_offset, now_ms)
                return 0
            if data.records:
                self._append(data.records, now_ms)
        except BatchError as damage:
            self.damage = damage
            return damage.error_code
        except LogDirectoryFailure as failure:
            self.hosted.on_failure(failure)
            return _STORAGE_ERROR
        self.failures = 0
        self.hosted.follow(data.high_watermark, data.log_start_offset)
        return 0

    def _append(self, records: Buffer, now_ms: int) -> None:
        """Writes the batches before the first bad one, for which it raises CorruptBatch."""
        hosted = self.hosted
        next_offset, end = hosted.log.log_end_offset, 0
        headers: list[BatchHeader] = []
        damage: BatchError | None = None
        try:
            for position, header in iter_headers(records):
                check_crc(records, position, header)
                if not headers and self._is_empty_within(header):
                    self._start_before(header.base_offset, bytes(records), now_ms)
                    return
                if header.base_offset < next_offset or header.last_offset_delta < 0:
                    raise CorruptBatch(
                        f"{hosted.name} ends at offset {next_offset}, but received a batch with base offset "
                        f"{header.base_offset}"
                    )
                if header.leader_epoch > self.epoch:  # no CRC covers it (KAFKA-18723)
                    raise CorruptBatch(
                        f"{hosted.name}: the leader has epoch {self.epoch}, but sent a batch at offset "
                        f"{header.base_offset} of epoch {header.leader_epoch}"
                    )
                next_offset = header.next_offset
                end = position + header.size
                headers.append(header)
        except BatchError as error:
            damage = error
        if headers:
            # A truncated last batch is fetched again.
            self._write(records if end == len(records) else memoryview(records)[:end], headers, now_ms)
        if damage is not None:
            raise damage

    def _write(self, records: Buffer, headers: list[BatchHeader], now_ms: int) -> None:
        """Writes the batches in one piece, unless a segment cannot hold them all."""
        hosted = self.hosted
        if len(records) <= hosted.rules.segment_bytes:
            hosted.open_log().append(records, headers, now_ms)
        else:
            position, view = 0, memoryview(records)
            for header in headers:
                hosted.open_log().append(view[position : position + header.size], (header,), now_ms)
                position += header.size
        hosted.role.appended(hosted.log.log_end_offset, now_ms)

    def _is_empty_within(self, header: BatchHeader) -> bool:
        """Returns whether the log has no records and begins within a batch: DeleteRecords moves a leader's log start to any
        offset, and the leader sends the whole batch.
        """
        log = self.hosted.log
        end = log.log_end_offset
        return log.log_start_offset == end and header.base_offset < end <= header.last_offset

    def _start_before(self, offset: int, records: bytes, now_ms: int) -> None:
        """Has the empty log begin at an earlier offset, with the records that are there in the leader's log."""

        def cut(log: Log) -> None:
            log.truncate_fully_and_start_at(offset, now_ms)
            with suppress(BatchError):  # behind the first batch: they are fetched again
                self._append(records, now_ms)

        self._cut(0, cut)

    # Where the logs differ.

    def _diverged(self, epoch: int, end_offset: int, now_ms: int) -> None:
        log = self.hosted.open_log()
        self.truncate(
            truncation_offset(
                epoch,
                end_offset,
                log_end_offset=log.log_end_offset,
                high_watermark=self.hosted.role.high_watermark,
                end_offset_for=log.epoch_end_offset,
            ),
            now_ms,
        )

    def truncate(self, offset: int, now_ms: int) -> None:
        """Truncates the log, at once or when the disk is ready for it. Raises LogDirectoryFailure."""
        self._cut(offset, lambda log: log.truncate_to(offset, now_ms))

    def start_over(self, offset: int, now_ms: int) -> None:
        """Empties the log and lets it begin at `offset`, where the leader's begins. Raises LogDirectoryFailure."""
        self._cut(0, lambda log: log.truncate_fully_and_start_at(offset, now_ms))

    def _cut(self, offset: int, cut: Callable[[Log], None]) -> None:

        def cut_now() -> None:
            self.is_truncating = False
            cut(self.hosted.open_log())
            self.hosted.truncated()

        self.is_truncating = True
        try:
            self._truncations.submit(self.hosted, offset, lambda: self.is_current, cut_now)
        except BaseException:
            self.is_truncating = False
            raise


def _nobody_asks(followed: FollowedPartition) -> None:
    """Does nothing: the callback of a partition without a fetcher."""
