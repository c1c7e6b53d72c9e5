"""Produce (key 0), versions 3-13.

Each partition gets one record batch of format 2, checked and written by `HostedPartition.append`; what is asked of a
batch is in `batch_checks.py`. Version 13 names topics by id (KIP-516). Versions from 8 say which records were refused
(KIP-467), those from 10 who leads now, beside NOT_LEADER_OR_FOLLOWER (KIP-951).

- acks 0: no answer; an error closes the connection, which is the only way to tell the producer.
- acks 1: answered once written here. acks -1: once all replicas in sync have it; REQUEST_TIMED_OUT after the request's
  timeout. With fewer than `min.insync.replicas` in sync it is NOT_ENOUGH_REPLICAS, and nothing is written; where they
  left while it waited, NOT_ENOUGH_REPLICAS_AFTER_APPEND.
- Any other value is INVALID_REQUIRED_ACKS for each partition.

Internal topics are written by coordinators and by Kafka's admin client; from others they are INVALID_TOPIC_EXCEPTION.
Transactional batches without a transactional id are TRANSACTIONAL_ID_AUTHORIZATION_FAILED for the whole request. Of those
with one, the transaction's coordinator is asked first, unless the partition has the transaction open already
(`transactional_produce.py`); from version 12 on this adds the partition (KIP-890).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ...protocol.errors import ErrorCode
from ...protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ...protocol.records.batch import HEADER_BYTES, TRANSACTIONAL_FLAG
from ..hosted_partition import ALL_IN_SYNC, AppendResult, HostedPartition
from ..internal_topics import ADMIN_CLIENT_ID
from ..leaders import absent_error, current_leader
from ..transaction_membership import Place
from ..transactional_produce import ask_first, unasked
from ..waiters import Parked

if TYPE_CHECKING:
    from ..dispatch import Call

FIRST_VERSION_WITH_TOPIC_IDS = 13
FIRST_VERSION_WITH_LEADERS = 10

_NOT_LEADER_OR_FOLLOWER = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
_NOT_ENOUGH_REPLICAS_AFTER_APPEND = int(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
_REQUEST_TIMED_OUT = int(ErrorCode.REQUEST_TIMED_OUT)
_INTERNAL = AppendResult(ErrorCode.INVALID_TOPIC_EXCEPTION)
_INVALID_ACKS = AppendResult(ErrorCode.INVALID_REQUIRED_ACKS)
_UNAUTHORIZED = AppendResult(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)

_NOT_ASKED: dict[Place, int] = {}
_INVALID_TXN_STATE = int(ErrorCode.INVALID_TXN_STATE)
#: Kafka's words: people search for them.
_NOT_ADDED = "Partition was not added to the transaction"

_ATTRIBUTES_AT = 22
# Shared by all answers that say nothing there.
_NO_RECORD_ERRORS: list[BatchIndexAndErrorMessage] = []
_NO_LEADER = LeaderIdAndEpoch()
_NO_NODES: list[NodeEndpoint] = []


def handle(call: Call) -> ProduceResponse | None:
    if call.request.transactional_id is not None:
        asked = unasked(call)
        if asked is not None:
            ask_first(call, asked, partial(_go_on, call))
            return None
    return _produce(call, _NOT_ASKED)


def _go_on(call: Call, errors: dict[Place, int]) -> None:
    response = _produce(call, errors)
    if response is not None:
        call.reply(response)


def _produce(call: Call, membership: dict[Place, int]) -> ProduceResponse | None:
    """`membership`: an error code for each partition that was asked for, 0 when it is in the transaction."""
    request: ProduceRequest = call.request
    acks = request.acks
    if acks == ALL_IN_SYNC or acks == 1 or acks == 0:
        refused = _UNAUTHORIZED if request.transactional_id is None and _has_transactional(request) else None
    else:
        refused = _INVALID_ACKS
    broker = call.broker
    now_ms = broker.now_ms()
    version = call.version
    find: Any = broker.partitions.get if version < FIRST_VERSION_WITH_TOPIC_IDS else broker.partitions.get_by_id
    waiting: list[tuple[HostedPartition, AppendResult, PartitionProduceResponse]] = []
    failed = False
    topics = []
    for topic in request.topic_data:
        key = topic.name if version < FIRST_VERSION_WITH_TOPIC_IDS else topic.topic_id
        answers = []
        for data in topic.partition_data:
            index = data.index
            hosted: HostedPartition | None = find((key, index))
            if refused is not None:
                result = refused
            elif hosted is None:
                result = AppendResult(absent_error(broker.image, key, index))
            elif hosted.is_internal and call.client_id != ADMIN_CLIENT_ID:
                result = _INTERNAL
            elif membership:
                result = _append(hosted, data.records, now_ms, acks, version, membership)
            else:
                result = hosted.append(data.records, now_ms, required_acks=acks, version=version)
            error, base_offset, log_append_time_ms, log_start_offset, end_offset, record_errors, message = result
            answer = PartitionProduceResponse(
                index, error, base_offset, log_append_time_ms, log_start_offset, _NO_RECORD_ERRORS, message, _NO_LEADER
            )
            answers.append(answer)
            if error:
                failed = True
                if record_errors:
                    answer.record_errors = [BatchIndexAndErrorMessage(number, why) for number, why in record_errors]
            elif acks == ALL_IN_SYNC and hosted is not None and end_offset > hosted.role.high_watermark:
                waiting.append((hosted, result, answer))
        topics.append(TopicProduceResponse(topic.name, topic.topic_id, answers))
    response = ProduceResponse(topics, 0, _NO_NODES)
    if failed:
        _add_leaders(call, response)
    if acks == 0:
        _end_unanswered(call, response, failed=failed)
        return None
    if waiting:
        ParkedProduce(call, response, waiting)
        return None
    return response


def _append(
    hosted: HostedPartition, records: Any, now_ms: int, acks: int, version: int, membership: dict[Place, int]
) -> AppendResult:
    error = membership.get((hosted.topic, hosted.index))
    if error:
        return AppendResult(error, error_message=_NOT_ADDED if error == _INVALID_TXN_STATE else None)
    return hosted.append(records, now_ms, required_acks=acks, version=version, is_in_transaction=error == 0)


def _has_transactional(request: ProduceRequest) -> bool:
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if records is not None and len(records) >= HEADER_BYTES and records[_ATTRIBUTES_AT] & TRANSACTIONAL_FLAG:
                return True
    return False


def _add_leaders(call: Call, response: ProduceResponse) -> None:
    if call.version < FIRST_VERSION_WITH_LEADERS:
        return
    nodes: dict[int, NodeEndpoint] = {}
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code == _NOT_LEADER_OR_FOLLOWER:
                name = topic.name or _name_of(call, topic.topic_id)
                leader = current_leader(call, name, answer.index)
                answer.current_leader = LeaderIdAndEpoch(leader.id, leader.epoch)
                if leader.node is not None:
                    nodes[leader.id] = NodeEndpoint(*leader.node)
    response.node_endpoints = list(nodes.values())


def _name_of(call: Call, topic_id: bytes) -> str:
    topic = call.broker.image.topic_by_id(topic_id)
    return topic.name if topic is not None else ""


def _end_unanswered(call: Call, response: ProduceResponse, *, failed: bool) -> None:
    call.reply_nothing()
    if failed:
        errors = {
            f"{topic.name or topic.topic_id.hex()}-{answer.index}": ErrorCode(answer.error_code).name
            for topic in response.responses
            for answer in topic.partition_responses
            if answer.error_code
        }
        call.connection.close_for(f"a Produce with acks=0 failed: {errors}")


class ParkedProduce(Parked):
    """An answer that waits for replicas: for each partition, until the high watermark has passed what was written."""

    __slots__ = ("_call", "_pending", "_response")

    def __init__(
        self,
        call: Call,
        response: ProduceResponse,
        waiting: list[tuple[HostedPartition, AppendResult, PartitionProduceResponse]],
    ) -> None:
        super().__init__()
        self._call = call
        self._response = response
        self._pending = {id(answer): answer for _, _, answer in waiting}
        timeout_ms: int = call.request.timeout_ms
        call.request = None  # views of a receive buffer that others will use
        call.broker.deadlines.add(self, max(0, timeout_ms))
        for hosted, result, answer in waiting:
            hosted.when_committed(result.end_offset, partial(self._settled, hosted, answer))

    def _settled(self, hosted: HostedPartition, answer: PartitionProduceResponse, error: int) -> None:
        if self._pending.pop(id(answer), None) is None:
            return
        if not error and len(hosted.role.maximal_isr) < hosted.role.least_in_sync:
            error = _NOT_ENOUGH_REPLICAS_AFTER_APPEND
        if error:
            _fail(answer, error)
        if not self._pending:
            self._call.broker.deadlines.remove(self)
            self._finish()

    def expired(self) -> None:
        for answer in self._pending.values():
            _fail(answer, _REQUEST_TIMED_OUT)
        self._pending.clear()
        self._finish()

    def _finish(self) -> None:
        _add_leaders(self._call, self._response)
        self._call.reply(self._response)


def _fail(answer: PartitionProduceResponse, error: int) -> None:
    answer.error_code, answer.base_offset, answer.log_append_time_ms = error, -1, -1
