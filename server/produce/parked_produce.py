"""The response to a Produce: the result of each partition, and the conditions that it waits for.

A partition's part waits, in this order, for a thread that opens its batch (`append_queue.py`), for the disk where
`flush.messages` wants that (`replica_flush.py`), and with acks=all for the replicas in sync. The request's timeout is for
the last two: a batch that is not written yet must not time out, or it would be sent twice. When the wait for replicas
times out, the response has the batch's base offset beside the error, as in Kafka.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
)
from ..partitions.append_result import AppendResult
from ..partitions.batch_validation import CheckedBatch
from ..partitions.hosted_partition import ALL_IN_SYNC, HostedPartition
from ..runtime.waiters import Parked
from .rejected_batches import RejectedBatches, sequence_of

if TYPE_CHECKING:
    from ..cluster.leaders import Leaders
    from ..network.call import Call
    from ..partitions.append_result import QueuedAppend
    from ..partitions.partitions import Partitions
    from ..runtime.clock import Clock
    from ..runtime.waiters import Deadlines

FIRST_VERSION_WITH_LEADERS = 10
FIRST_VERSION_WITH_TOPIC_IDS = 13

_NOT_LEADER_OR_FOLLOWER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
_NOT_ENOUGH_REPLICAS_AFTER_APPEND = int(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
_REQUEST_TIMED_OUT = int(ErrorCode.REQUEST_TIMED_OUT)

# Shared by all answers that say nothing there.
NO_RECORD_ERRORS: list[BatchIndexAndErrorMessage] = []
NO_LEADER = LeaderIdAndEpoch()
NO_NODES: list[NodeEndpoint] = []


class ProducePath:
    """The parts of a broker that its Produce requests use."""

    __slots__ = ("clock", "deadlines", "leaders", "partitions")

    def __init__(self, clock: Clock, deadlines: Deadlines, partitions: Partitions, leaders: Leaders) -> None:
        self.clock = clock
        self.deadlines = deadlines
        self.partitions = partitions
        self.leaders = leaders


class ParkedProduce(Parked):
    """A response of which some parts are not known yet."""

    __slots__ = ("_acks", "_call", "_path", "_pending", "_queued", "_response", "_timeout_ms")

    def __init__(
        self,
        path: ProducePath,
        call: Call,
        response: ProduceResponse,
        waiting: list[tuple[HostedPartition, AppendResult, PartitionProduceResponse]],
    ) -> None:
        super().__init__()
        self._path = path
        self._call = call
        self._response = response
        self._acks: int = call.request.acks
        self._timeout_ms: int = max(0, call.request.timeout_ms)
        call.request = None  # views of a receive buffer that others will use
        self._pending = {id(answer): answer for _, _, answer in waiting}
        #: How many are opened by a thread now.
        self._queued = sum(result.queued is not None for _, result, _ in waiting)
        if self._queued:
            # Their batches are copies: one request of a connection is enough of them.
            call.hold_connection()
        else:
            path.deadlines.add(self, self._timeout_ms)
        for hosted, result, answer in waiting:
            if result.queued is not None:
                result.queued.then = partial(self._written, hosted, answer, result.queued)
            else:
                self._wait(hosted, result, answer)

    def _written(
        self, hosted: HostedPartition, answer: PartitionProduceResponse, queued: QueuedAppend, result: AppendResult
    ) -> None:
        """A batch has been opened, and then written or refused."""
        self._queued -= 1
        if result.error and isinstance(queued.found, CheckedBatch):
            name = hosted.topic_id if self._call.version >= FIRST_VERSION_WITH_TOPIC_IDS else hosted.topic
            sequence, rejected = sequence_of(queued.found.buffer), RejectedBatches.of(self._call.connection)
            rejected.note((name, hosted.index), sequence, result.error)
        if not self._queued:
            self._path.deadlines.add(self, self._timeout_ms)
        fill(answer, result)
        self._wait(hosted, result, answer)

    def _wait(self, hosted: HostedPartition, result: AppendResult, answer: PartitionProduceResponse) -> None:
        if result.must_flush and self._acks:
            now_ms = self._path.clock.now_ms()
            hosted.want_flushed(result.end_offset, now_ms, partial(self._flushed, hosted, result, answer))
        else:
            self._flushed(hosted, result, answer, result.error)

    def _flushed(
        self, hosted: HostedPartition, result: AppendResult, answer: PartitionProduceResponse, error: int
    ) -> None:
        if self._acks == ALL_IN_SYNC and not error:
            hosted.when_committed(result.end_offset, partial(self._committed, hosted, answer))
        else:
            if error != result.error:
                answer.base_offset = answer.log_append_time_ms = -1
            self._finish_one(answer, error)

    def _committed(self, hosted: HostedPartition, answer: PartitionProduceResponse, error: int) -> None:
        if not error and len(hosted.role.maximal_isr) < hosted.role.least_in_sync:
            error = _NOT_ENOUGH_REPLICAS_AFTER_APPEND
        self._finish_one(answer, error)

    def _finish_one(self, answer: PartitionProduceResponse, error: int) -> None:
        if self._pending.pop(id(answer), None) is None:
            return
        answer.error_code = error
        if not self._pending:
            self._path.deadlines.remove(self)
            self._finish()

    def expired(self) -> None:
        for answer in self._pending.values():
            answer.error_code = _REQUEST_TIMED_OUT
        self._pending.clear()
        self._finish()

    def _finish(self) -> None:
        call, response = self._call, self._response
        add_leaders(self._path.leaders, call, response)
        if self._acks:
            call.reply(response)
        else:
            end_unanswered(call, response)


def fill(answer: PartitionProduceResponse, result: AppendResult) -> None:
    answer.error_code, answer.base_offset = result.error, result.base_offset
    answer.log_append_time_ms, answer.log_start_offset = result.log_append_time_ms, result.log_start_offset
    answer.error_message = result.error_message
    if result.record_errors:
        answer.record_errors = [BatchIndexAndErrorMessage(number, why) for number, why in result.record_errors]


def add_leaders(leaders: Leaders, call: Call, response: ProduceResponse) -> None:
    """Adds the current leaders to a response with NOT_LEADER_OR_FOLLOWER (KIP-951)."""
    if call.version < FIRST_VERSION_WITH_LEADERS:
        return
    nodes: dict[int, NodeEndpoint] = {}
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code == _NOT_LEADER_OR_FOLLOWER:
                leader = leaders.current_leader(call.listener, topic.name or topic.topic_id, answer.index)
                answer.current_leader = LeaderIdAndEpoch(leader.id, leader.epoch)
                if leader.node is not None:
                    nodes[leader.id] = NodeEndpoint(*leader.node)
    response.node_endpoints = list(nodes.values())


def end_unanswered(call: Call, response: ProduceResponse) -> None:
    """With acks=0 an error is reported by closing the connection."""
    call.reply_nothing()
    errors = {
        f"{topic.name or topic.topic_id.hex()}-{answer.index}": ErrorCode(answer.error_code).name
        for topic in response.responses
        for answer in topic.partition_responses
        if answer.error_code
    }
    if errors:
        call.connection.close_for(f"a Produce with acks=0 failed: {errors}")
