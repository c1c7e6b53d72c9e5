"""A response to a Produce that waits: the conditions of each partition's part.

A partition's part waits, in this order, for a thread that opens its batch (`partitions/append_queue.py`), for the
disk where `flush.messages` wants that (`partitions/replica_flush.py`), and with acks=all for the replicas in sync.
The request's timeout is for the last two: a batch that is not written yet must not time out, or it would be sent
twice. When the wait for replicas times out, the response has the batch's base offset beside the error, as in Kafka.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...protocol.acks import ALL_IN_SYNC
from ...protocol.errors import ErrorCode
from ..network.no_request import NO_REQUEST
from ..partitions.batch_validation import CheckedBatch
from ..partitions.parked_requests import Parked
from .produce_authorization import WITH_TOPIC_IDS
from .produce_response import add_leaders, end_unanswered, fill
from .rejected_batches import RejectedBatches, sequence_of

if TYPE_CHECKING:
    from ...protocol.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse
    from ..network.call import Call
    from ..partitions.append_result import AppendResult, QueuedAppend
    from ..partitions.hosted_partition import HostedPartition
    from .produce_path import ProducePath

_NOT_ENOUGH_REPLICAS_AFTER_APPEND = int(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
_REQUEST_TIMED_OUT = int(ErrorCode.REQUEST_TIMED_OUT)


class ParkedProduce(Parked):
    """A response of which some parts are not known yet."""

    __slots__ = ("_acks", "_call", "_path", "_pending", "_queued", "_queued_bytes", "_response", "_timeout_ms")

    def __init__(
        self,
        path: ProducePath,
        call: Call[ProduceRequest],
        response: ProduceResponse,
        waiting: list[tuple[HostedPartition, AppendResult, PartitionProduceResponse]],
    ) -> None:
        super().__init__()
        self._path = path
        self._call = call
        self._response = response
        self._acks: int = call.request.acks
        self._timeout_ms: int = max(0, call.request.timeout_ms)
        call.request = NO_REQUEST  # views of a receive buffer that others will use
        self._pending = {id(partition): partition for _, _, partition in waiting}
        #: How many are opened by a thread now.
        self._queued = sum(result.queued is not None for _, result, _ in waiting)
        if self._queued:
            # Their batches stay in memory: one request of a connection is enough of them, and they count as received.
            call.hold_connection()
            self._queued_bytes = sum(result.queued.size for _, result, _ in waiting if result.queued is not None)
            call.connection.listener.shared.receiving.take(self._queued_bytes)
        else:
            path.deadlines.add(self, self._timeout_ms)
        for hosted, result, partition in waiting:
            if result.queued is not None:
                result.queued.then = partial(self._written, hosted, partition, result.queued)
            else:
                self._wait(hosted, result, partition)

    def _written(
        self, hosted: HostedPartition, partition: PartitionProduceResponse, queued: QueuedAppend, result: AppendResult
    ) -> None:
        """A batch has been opened, and then written or refused."""
        self._queued -= 1
        if result.error and isinstance(queued.found, CheckedBatch):
            name = hosted.topic_id if self._call.version in WITH_TOPIC_IDS else hosted.topic
            sequence, rejected = sequence_of(queued.found.buffer), RejectedBatches.of(self._call.connection)
            rejected.note((name, hosted.index), sequence, result.error)
        if not self._queued:
            self._call.connection.listener.shared.receiving.give_back(self._call.connection, self._queued_bytes)
            self._path.deadlines.add(self, self._timeout_ms)
        fill(partition, result)
        self._wait(hosted, result, partition)

    def _wait(self, hosted: HostedPartition, result: AppendResult, partition: PartitionProduceResponse) -> None:
        if result.must_flush and self._acks:
            now_ms = self._path.clock.now_ms()
            hosted.want_flushed(result.end_offset, now_ms, partial(self._flushed, hosted, result, partition))
        else:
            self._flushed(hosted, result, partition, result.error)

    def _flushed(
        self, hosted: HostedPartition, result: AppendResult, partition: PartitionProduceResponse, error: int
    ) -> None:
        if self._acks == ALL_IN_SYNC and not error:
            hosted.when_committed(result.end_offset, partial(self._committed, hosted, partition))
        else:
            if error != result.error:
                partition.base_offset = partition.log_append_time_ms = -1
            self._finish_one(partition, error)

    def _committed(self, hosted: HostedPartition, partition: PartitionProduceResponse, error: int) -> None:
        if not error and len(hosted.role.maximal_isr) < hosted.role.least_in_sync:
            error = _NOT_ENOUGH_REPLICAS_AFTER_APPEND
        self._finish_one(partition, error)

    def _finish_one(self, partition: PartitionProduceResponse, error: int) -> None:
        if self._pending.pop(id(partition), None) is None:
            return
        partition.error_code = error
        if not self._pending:
            self._path.deadlines.remove(self)
            self._finish()

    def expired(self) -> None:
        for partition in self._pending.values():
            partition.error_code = _REQUEST_TIMED_OUT
        self._pending.clear()
        self._finish()

    def _finish(self) -> None:
        call, response = self._call, self._response
        add_leaders(self._path.leaders, call, response)
        if self._acks:
            call.reply(response)
        else:
            end_unanswered(call, response)
