"""Produce (key 0), versions 3-13.

Each partition gets one record batch of format 2, checked and written by `HostedPartition.append`; what is asked of a
batch is in `batch_validation.py`. Version 13 names topics by id (KIP-516). Versions from 8 say which records were refused
(KIP-467), those from 10 who leads now, beside NOT_LEADER_OR_FOLLOWER (KIP-951).

- acks 0: no answer; an error closes the connection, which is the only way to tell the producer.
- acks 1: answered once written here. acks -1: once all replicas in sync have it; REQUEST_TIMED_OUT after the request's
  timeout. With fewer than `min.insync.replicas` in sync it is NOT_ENOUGH_REPLICAS, and nothing is written; where they
  left while it waited, NOT_ENOUGH_REPLICAS_AFTER_APPEND.
- Any other value is INVALID_REQUIRED_ACKS for each partition.

Batches of an idempotent producer that follow a rejected batch are rejected alike until it is resent (`refused_batches.py`).

Internal topics are written by coordinators and by Kafka's admin client; from others they are INVALID_TOPIC_EXCEPTION.
Transactional batches without a transactional id are TRANSACTIONAL_ID_AUTHORIZATION_FAILED for the whole request. Of those
with one, the transaction's coordinator is asked first, unless the partition has the transaction open already
(`transactional_produce.py`); from version 12 on this adds the partition (KIP-890).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ...metadata.topic_partitions import TopicPartition
from ...protocol.errors import ErrorCode
from ...protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ...protocol.records.batch import HEADER_BYTES, TRANSACTIONAL_FLAG
from ..partitions.hosted_partition import ALL_IN_SYNC, AppendResult, HostedPartition
from ..produce.parked_produce import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    NO_LEADER,
    NO_NODES,
    NO_RECORD_ERRORS,
    ParkedProduce,
    add_leaders,
    end_unanswered,
)
from ..produce.refused_batches import RefusedBatches, sequence_of
from ..produce.transactional_produce import ask_first, is_trusted, unasked
from ..runtime.internal_topics import ADMIN_CLIENT_ID

if TYPE_CHECKING:
    from ..network.call import Call
    from ..services import Services

_INTERNAL = AppendResult(ErrorCode.INVALID_TOPIC_EXCEPTION)
_INVALID_ACKS = AppendResult(ErrorCode.INVALID_REQUIRED_ACKS)
_UNAUTHORIZED = AppendResult(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)

_NOT_ASKED: dict[TopicPartition, int] = {}
_INVALID_TXN_STATE = int(ErrorCode.INVALID_TXN_STATE)
#: Kafka's words: people search for them.
_NOT_ADDED = "Partition was not added to the transaction"

_ATTRIBUTES_AT = 22


def handle(services: Services, call: Call) -> ProduceResponse | None:
    if call.request.transactional_id is not None:
        if is_trusted(call):
            return _produce(call, _NOT_ASKED, trusted=True)
        asked = unasked(call)
        if asked is not None:
            ask_first(call, asked, partial(_go_on, call))
            return None
    return _produce(call, _NOT_ASKED)


def _go_on(call: Call, errors: dict[TopicPartition, int]) -> None:
    response = _produce(call, errors)
    if response is not None:
        call.reply(response)


def _produce(call: Call, membership: dict[TopicPartition, int], *, trusted: bool = False) -> ProduceResponse | None:
    """`membership`: an error code for each partition asked for, 0 when it is in the transaction; `trusted`: all are."""
    request: ProduceRequest = call.request
    acks = request.acks
    refused = _refusal(request)
    behind = call.connection.refused_batches
    broker = call.connection.broker
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
                result = AppendResult(broker.leaders.absent_error(key, index))
            elif hosted.is_internal and call.client_id != ADMIN_CLIENT_ID:
                result = _INTERNAL
            elif behind and (passing := _passing_error(behind, (key, index), hosted, data.records)):
                result = AppendResult(passing)
            elif membership:
                result = _append(hosted, data.records, now_ms, acks, version, membership)
            else:
                result = hosted.append(
                    data.records, now_ms, required_acks=acks, version=version, is_in_transaction=trusted
                )
            (
                error,
                base_offset,
                log_append_time_ms,
                log_start_offset,
                end_offset,
                errors,
                message,
                must_flush,
                queued,
            ) = result
            answer = PartitionProduceResponse(
                index, error, base_offset, log_append_time_ms, log_start_offset, NO_RECORD_ERRORS, message, NO_LEADER
            )
            answers.append(answer)
            if error:
                failed = True
                if errors:
                    answer.record_errors = [BatchIndexAndErrorMessage(number, why) for number, why in errors]
            elif hosted is not None and (
                (acks == ALL_IN_SYNC and end_offset > hosted.role.high_watermark) or must_flush or queued is not None
            ):
                waiting.append((hosted, result, answer))
        topics.append(TopicProduceResponse(topic.name, topic.topic_id, answers))
    response = ProduceResponse(topics, 0, NO_NODES)
    if failed:
        by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
        RefusedBatches.of(call.connection).note_all(request.topic_data, topics, by_id)
        add_leaders(call, response)
    if waiting:
        ParkedProduce(call, response, waiting)
        return None
    if acks == 0:
        _end_unanswered(call, response, failed)
        return None
    return response


def _passing_error(behind: RefusedBatches, place: tuple[Any, int], hosted: HostedPartition, records: Any) -> int:
    """Returns the error of a batch that follows a rejected one, or 0."""
    sequence = sequence_of(records)
    if sequence is None:
        return 0
    return behind.error_for(place, sequence, hosted.log.producers.last_sequence(sequence.producer_id, sequence.epoch))


def _refusal(request: ProduceRequest) -> AppendResult | None:
    """Returns the error of the whole request, or None."""
    if request.acks not in (ALL_IN_SYNC, 0, 1):
        return _INVALID_ACKS
    return _UNAUTHORIZED if request.transactional_id is None and _has_transactional(request) else None


def _end_unanswered(call: Call, response: ProduceResponse, failed: bool) -> None:
    if failed:
        end_unanswered(call, response)
    else:
        call.reply_nothing()


def _append(
    hosted: HostedPartition, records: Any, now_ms: int, acks: int, version: int, membership: dict[TopicPartition, int]
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
