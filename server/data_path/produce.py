"""A Produce: the topics that its client may not write to, the batches that follow a rejected one, and its response."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable, Set
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Union

from ...metadata.acls import Operation, ResourceType
from ...protocol.errors import ErrorCode
from ...protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
)
from ...protocol.records.batch import HEADER_BYTES, MAGIC, NO_SEQUENCE
from ..partitions.batch_validation import AppendResult, CheckedBatch
from ..partitions.hosted_partition import ALL_IN_SYNC, HostedPartition
from ..partitions.parked_requests import Deadlines, Parked
from ..runtime.clock import Clock

if TYPE_CHECKING:
    from ...metadata.image import MetadataImage
    from ...protocol.messages.produce import TopicProduceData, TopicProduceResponse
    from ...protocol.schema import Records
    from ..access.authorization.authorization import Authorization
    from ..access.authorization.sessions import AuthorizationSession
    from ..controller.cluster_view import Leaders
    from ..network.call import Call, ClientConnection
    from ..partitions.batch_validation import QueuedAppend
    from ..partitions.partitions import Partitions

# The topics of a Produce that its client may not write to.


#: A topic as a request names it: by name, or by id.
TopicKey = Union[str, bytes]
NONE_DENIED: Set[TopicKey] = frozenset()


def is_write_cached_as_allowed(authorization: Authorization, call: Call) -> bool:
    """Returns whether cached decisions allow the client to write to all topics. False may also mean an outdated cache.

    Every Produce calls it. So it reads the level of the audit log once for 64 decisions only.
    """
    session: AuthorizationSession | None = call.connection.authorization
    if session is None or session.written_version != authorization.version:
        return False
    written, topics = session.written, call.request.topic_data
    for topic in topics:
        if (topic.name or topic.topic_id) not in written:
            return False
    if authorization.allowed & 63 < len(topics) and authorization.logs_allowed():
        session.written.clear()
        return False
    authorization.allowed += len(topics)
    return True


def denied_topics(session: AuthorizationSession, call: Call, image: MetadataImage) -> Set[TopicKey]:
    """Returns the names, from version 13 on the ids, of the topics that the client may not write to. Unknown ids are not
    among them.
    """
    if call.version < FIRST_VERSION_WITH_TOPIC_IDS:
        named: list[tuple[TopicKey, str]] = [(topic.name, topic.name) for topic in call.request.topic_data]
    else:
        known = {topic.topic_id: image.topic_by_id(topic.topic_id) for topic in call.request.topic_data}
        named = [(topic_id, topic.name) for topic_id, topic in known.items() if topic is not None]
    allowed = session.allowed_names(Operation.WRITE, ResourceType.TOPIC, (name for _, name in named))
    for key, name in named:
        if name in allowed:
            session.may_write(key)
    return {key for key, name in named if name not in allowed}


# Batches that follow a rejected batch are rejected with the same error, until that batch comes again.
#
# An idempotent producer has several requests in flight. When the first is rejected for a transient reason (this
# broker is just becoming the leader, or the ISR is too small for a moment), the second must not be written: that
# would leave a gap. Apache Kafka handles this in two ways, and librdkafka loses by either:
#
# - For a producer that the partition does not know, Kafka accepts any sequence number as the first (KIP-360).
#   librdkafka
#   then counts the first batch as written too, since a later one was: it is acknowledged, and lost.
# - For a producer with state in the partition, Kafka rejects the second batch with OUT_OF_ORDER_SEQUENCE_NUMBER.
#   librdkafka
#   then takes a new epoch for all its partitions, and batches of other partitions that were written but not
#     acknowledged
#   are written twice (docs/failover.md).
#
# If the second batch gets the error of the first, a client sends both again, in order.
#
# The rejected batches are kept by connection: all batches in flight to a partition's leader are on one connection,
# and a client that has received a rejection begins with the rejected batch. It may begin with another leader. When
# this broker is the leader again, the log has the batch, and nothing is missing.


#: A partition as the requests of a connection name it: by topic name or id, and index.
_Partition = tuple[TopicKey, int]

#: After a client's longest wait for a response (request.timeout.ms), no earlier request is in flight. A rejected batch may
#: have been given up by then.
REMEMBERED_S = 30.0
#: Limit of one connection; the oldest is forgotten for one more.
MAX_REMEMBERED = 10_000
#: Errors of a batch before it is written, which may be over a moment later.
PASSING = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)

_MAGIC_AT, _PRODUCER_AT = 16, 43
_unpack_producer = struct.Struct(">qhi").unpack_from
#: Sequence numbers have 31 bits and wrap around: a number less than half of them ahead is a later one.
_SEQUENCES, _HALF = 1 << 31, 1 << 30


class Sequence(NamedTuple):
    """A batch's position in its producer's sequence."""

    producer_id: int
    epoch: int
    first: int


class _Rejected(NamedTuple):
    epoch: int
    first: int
    error: int
    until: float


def sequence_of(records: Records) -> Sequence | None:
    """None of what no idempotent producer sent."""
    if records is None or len(records) < HEADER_BYTES or records[_MAGIC_AT] != MAGIC:
        return None
    sequence = Sequence(*_unpack_producer(records, _PRODUCER_AT))
    return sequence if sequence.producer_id >= 0 and sequence.first >= 0 else None


class RejectedBatches:
    """The rejected batches of one connection. `clock`: monotonic, in seconds."""

    __slots__ = ("_clock", "_rejected")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._rejected: dict[tuple[_Partition, int], _Rejected] = {}

    @classmethod
    def of(cls, connection: ClientConnection) -> RejectedBatches:
        """Returns those of a connection, which keeps them; the layer below does not know what they are."""
        found: RejectedBatches | None = connection.rejected_batches
        if found is None:
            found = connection.rejected_batches = cls(asyncio.get_running_loop().time)
        return found

    def __bool__(self) -> bool:
        return bool(self._rejected)

    def error_for(self, partition: _Partition, sequence: Sequence, written: int) -> int:
        """Returns the error of a batch that follows a rejected one, or 0 if it may be written.
        `written`: the last sequence number in the log of this producer and epoch, -1 for none.
        """
        key = (partition, sequence.producer_id)
        rejected = self._rejected.get(key)
        if rejected is None:
            return 0
        ahead = (sequence.first - rejected.first) % _SEQUENCES
        is_written = written != NO_SEQUENCE and (written - rejected.first) % _SEQUENCES < _HALF
        if sequence.epoch != rejected.epoch or ahead == 0 or is_written or self._clock() >= rejected.until:
            del self._rejected[key]
            return 0
        return rejected.error if ahead < _HALF else 0

    def note(self, partition: _Partition, sequence: Sequence | None, error: int) -> None:
        """Notes that a batch was rejected and nothing of it was written."""
        if sequence is None or error not in PASSING:
            return
        key = (partition, sequence.producer_id)
        before = self._rejected.get(key)
        if before is not None and before.epoch == sequence.epoch:
            if (sequence.first - before.first) % _SEQUENCES < _HALF:
                return
            del self._rejected[key]
        elif len(self._rejected) >= MAX_REMEMBERED:
            del self._rejected[next(iter(self._rejected))]
        self._rejected[key] = _Rejected(sequence.epoch, sequence.first, error, self._clock() + REMEMBERED_S)

    def note_all(
        self, asked: Iterable[TopicProduceData], responses: Iterable[TopicProduceResponse], by_id: bool
    ) -> None:
        """Notes the rejected batches of a Produce from its response."""
        for topic, reported in zip(asked, responses, strict=True):
            name = topic.topic_id if by_id else topic.name
            for data, partition in zip(topic.partition_data, reported.partition_responses, strict=True):
                if partition.error_code:
                    self.note((name, partition.index), sequence_of(data.records), partition.error_code)


# The response to a Produce: the result of each partition, and the conditions that it waits for.
#
# A partition's part waits, in this order, for a thread that opens its batch (`partitions/replica_queues.py`), for the
# disk where `flush.messages` wants that (the same file), and with acks=all for the replicas in sync.
# The request's timeout is for the last two: a batch that is not written yet must not time out, or it would be sent
# twice. When the wait for replicas times out, the response has the batch's base offset beside the error, as in Kafka.


FIRST_VERSION_WITH_LEADERS = 10
FIRST_VERSION_WITH_TOPIC_IDS = 13

_NOT_LEADER_OR_FOLLOWER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
_NOT_ENOUGH_REPLICAS_AFTER_APPEND = int(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
_REQUEST_TIMED_OUT = int(ErrorCode.REQUEST_TIMED_OUT)

# Shared by all responses that say nothing there.
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

    __slots__ = ("_acks", "_call", "_path", "_pending", "_queued", "_queued_bytes", "_response", "_timeout_ms")

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
            name = hosted.topic_id if self._call.version >= FIRST_VERSION_WITH_TOPIC_IDS else hosted.topic
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


def fill(partition: PartitionProduceResponse, result: AppendResult) -> None:
    partition.error_code, partition.base_offset = result.error, result.base_offset
    partition.log_append_time_ms, partition.log_start_offset = result.log_append_time_ms, result.log_start_offset
    partition.error_message = result.error_message
    if result.record_errors:
        partition.record_errors = [BatchIndexAndErrorMessage(number, why) for number, why in result.record_errors]


def add_leaders(leaders: Leaders, call: Call, response: ProduceResponse) -> None:
    """Adds the current leaders to a response with NOT_LEADER_OR_FOLLOWER (KIP-951)."""
    if call.version < FIRST_VERSION_WITH_LEADERS:
        return
    nodes: dict[int, NodeEndpoint] = {}
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code == _NOT_LEADER_OR_FOLLOWER:
                leader = leaders.current_leader(call.listener, topic.name or topic.topic_id, partition.index)
                partition.current_leader = LeaderIdAndEpoch(leader.id, leader.epoch)
                if leader.node is not None:
                    nodes[leader.id] = NodeEndpoint(*leader.node)
    response.node_endpoints = list(nodes.values())


def end_unanswered(call: Call, response: ProduceResponse) -> None:
    """With acks=0 an error is reported by closing the connection."""
    call.reply_nothing()
    errors = {
        f"{topic.name or topic.topic_id.hex()}-{partition.index}": ErrorCode(partition.error_code).name
        for topic in response.responses
        for partition in topic.partition_responses
        if partition.error_code
    }
    if errors:
        call.connection.close_for(f"a Produce with acks=0 failed: {errors}")
