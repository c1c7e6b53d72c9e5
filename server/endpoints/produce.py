"""Produce (key 0), versions 3-13.

Each partition gets one record batch of format 2, checked and written by `HostedPartition.append`; the rules for a
batch are in `server/partitions/batch_validation.py`. Version 13 names topics by id (KIP-516). Versions from 8 list the
rejected records (KIP-467). Versions from 10 add the current leader to NOT_LEADER_OR_FOLLOWER (KIP-951).

- acks 0: no response; an error closes the connection, which is the only way to tell the producer.
- acks 1: answered once written here. acks -1: once all replicas in sync have it; REQUEST_TIMED_OUT after the request's
  timeout. With fewer than `min.insync.replicas` in sync it is NOT_ENOUGH_REPLICAS, and nothing is written; where they
  left while it waited, NOT_ENOUGH_REPLICAS_AFTER_APPEND.
- Any other value is INVALID_REQUIRED_ACKS for each partition.

Batches of an idempotent producer that follow a rejected batch are rejected alike until it is resent
(`RejectedBatches` in `server/data_path/produce.py`).

Internal topics are written by coordinators and by Kafka's admin client; from others they are INVALID_TOPIC_EXCEPTION.
Transactional batches without a transactional id are TRANSACTIONAL_ID_AUTHORIZATION_FAILED for the whole request. For
those with one, the leader first asks the transaction coordinator, unless the partition has the transaction open already
(`server/data_path/transactional_produce.py`); from version 12 on this adds the partition (KIP-890).
"""

from __future__ import annotations

from collections.abc import Set
from functools import partial
from typing import TYPE_CHECKING, Any

from ...metadata.acls import Operation, ResourceType
from ...metadata.image import TopicPartition
from ...protocol.errors import ErrorCode
from ...protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ...protocol.records.batch import HEADER_BYTES, TRANSACTIONAL_FLAG
from ..access.authorization.requirements import Each
from ..data_path.produce import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    NO_LEADER,
    NO_NODES,
    NO_RECORD_ERRORS,
    ParkedProduce,
    ProducePath,
    RejectedBatches,
    add_leaders,
    denied_topics,
    end_unanswered,
    is_write_cached_as_allowed,
    sequence_of,
)
from ..data_path.produce import NONE_DENIED as _NONE_DENIED
from ..network.api_endpoint import ApiEndpoint, Cost, Portioning
from ..partitions.batch_validation import AppendResult
from ..partitions.hosted_partition import ALL_IN_SYNC, HostedPartition

if TYPE_CHECKING:
    from ...protocol.schema import Records
    from ..access.authorization.sessions import AuthorizationSession
    from ..data_path.produce import TopicKey
    from ..network.call import Call
    from ..services import Services


#: The client id of Kafka's own admin client, which may write to internal topics.
ADMIN_CLIENT_ID = "__admin_client"


_INTERNAL = AppendResult(ErrorCode.INVALID_TOPIC_EXCEPTION)
_INVALID_ACKS = AppendResult(ErrorCode.INVALID_REQUIRED_ACKS)
_DENIED = AppendResult(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
_UNAUTHORIZED = AppendResult(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)

_NOT_VERIFIED: dict[TopicPartition, int] = {}
_INVALID_TXN_STATE = int(ErrorCode.INVALID_TXN_STATE)
#: Kafka's words: people search for them.
_NOT_ADDED = "Partition was not added to the transaction"

_ATTRIBUTES_AT = 22
_ACKS = (ALL_IN_SYNC, 0, 1)
_TOPICS = Each(Operation.WRITE, ResourceType.TOPIC, by=denied_topics)
_TRANSACTIONAL_ID = Each(Operation.WRITE, ResourceType.TRANSACTIONAL_ID)


def handle(services: Services, call: Call) -> ProduceResponse | None:
    denied = _NONE_DENIED
    authorizer, has_transactional = services.access.authorizer, _has_transactional(call.request)
    if authorizer is not None and (has_transactional or not is_write_cached_as_allowed(authorizer, call)):
        session = authorizer.session(call)
        if has_transactional and not _may_use_transaction(session, call.request):
            return _reject(call, _UNAUTHORIZED)
        denied = denied_topics(session, call, services.metadata.image)
    if call.request.transactional_id is not None:
        transactional = services.data_path.transactional()
        if transactional.is_trusted(call.version):
            return _produce(services.data_path.produce, call, _NOT_VERIFIED, denied, trusted=True)
        unverified = transactional.unverified(call, denied)
        if unverified is not None:
            transactional.verify(call, unverified, partial(_verified, services.data_path.produce, call, denied))
            return None
    elif has_transactional and call.request.acks in _ACKS:
        return _reject(call, _UNAUTHORIZED, denied)
    return _produce(services.data_path.produce, call, _NOT_VERIFIED, denied)


def _verified(path: ProducePath, call: Call, denied: Set[TopicKey], membership: dict[TopicPartition, int]) -> None:
    response = _produce(path, call, membership, denied)
    if response is not None:
        call.reply(response)


def _produce(
    path: ProducePath,
    call: Call,
    membership: dict[TopicPartition, int],
    denied: Set[TopicKey],
    *,
    trusted: bool = False,
) -> ProduceResponse | None:
    """Appends the batches of a request. Returns the response; None if it comes later, or if acks=0 asks for none.

    `membership`: an error code for each partition that was verified, 0 when it is in the transaction. `trusted`: all are.
    `denied`: the topics, as the request names them, that the client may not write to.
    """
    request: ProduceRequest = call.request
    acks, version = request.acks, call.version
    if acks not in _ACKS:
        return _reject(call, _INVALID_ACKS, denied)
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
    find: Any = path.partitions.get_by_id if by_id else path.partitions.get
    now_ms = path.clock.now_ms()
    needs_checks = bool(call.connection.rejected_batches or membership or denied)
    waiting: list[tuple[HostedPartition, AppendResult, PartitionProduceResponse]] = []
    failed = False
    topics = []
    for topic in request.topic_data:
        key = topic.topic_id if by_id else topic.name
        partition_responses = []
        for data in topic.partition_data:
            hosted: HostedPartition | None = find((key, data.index))
            if needs_checks or hosted is None or hosted.is_internal:
                result = _DENIED if key in denied else _rejection(path, call, membership, key, data, hosted)
                if result is None:
                    assert hosted is not None
                    is_member = trusted or (hosted.topic, hosted.index) in membership
                    result = hosted.append(
                        data.records, now_ms, required_acks=acks, version=version, is_in_transaction=is_member
                    )
            else:
                result = hosted.append(
                    data.records, now_ms, required_acks=acks, version=version, is_in_transaction=trusted
                )
            # In one go: by their names, the nine would take three times as long.
            error, base_offset, appended_ms, log_start, end_offset, errors, message, must_flush, queued = result
            partition_response = PartitionProduceResponse(
                data.index, error, base_offset, appended_ms, log_start, NO_RECORD_ERRORS, message, NO_LEADER
            )
            partition_responses.append(partition_response)
            if error:
                failed = True
                if errors:
                    partition_response.record_errors = [
                        BatchIndexAndErrorMessage(number, why) for number, why in errors
                    ]
            elif hosted is not None and (
                (acks == ALL_IN_SYNC and end_offset > hosted.role.high_watermark) or must_flush or queued is not None
            ):
                waiting.append((hosted, result, partition_response))
        topics.append(TopicProduceResponse(topic.name, topic.topic_id, partition_responses))
    response = ProduceResponse(topics, 0, NO_NODES)
    if failed:
        RejectedBatches.of(call.connection).note_all(request.topic_data, topics, by_id)
        add_leaders(path.leaders, call, response)
    if waiting:
        ParkedProduce(path, call, response, waiting)
        return None
    if acks:
        return response
    _end_without_response(call, response, failed=failed)
    return None


def _may_use_transaction(session: AuthorizationSession, request: ProduceRequest) -> bool:
    """Returns whether the client may write in the transaction of the request's batches."""
    transactional_id = request.transactional_id
    return transactional_id is not None and session.allows(
        _TRANSACTIONAL_ID.operation, _TRANSACTIONAL_ID.resource_type, transactional_id
    )


def _reject(call: Call, rejected: AppendResult, denied: Set[TopicKey] = _NONE_DENIED) -> ProduceResponse | None:
    """Answers each partition with the error of the whole request."""
    by_id = call.version >= FIRST_VERSION_WITH_TOPIC_IDS
    topics = [
        TopicProduceResponse(
            topic.name,
            topic.topic_id,
            [
                PartitionProduceResponse(data.index, result.error, result.base_offset)
                for result in (_DENIED if (topic.topic_id if by_id else topic.name) in denied else rejected,)
                for data in topic.partition_data
            ],
        )
        for topic in call.request.topic_data
    ]
    response = ProduceResponse(topics, 0, NO_NODES)
    if call.request.acks:
        return response
    _end_without_response(call, response, failed=True)
    return None


def _rejection(
    path: ProducePath,
    call: Call,
    membership: dict[TopicPartition, int],
    key: str | bytes,
    data: PartitionProduceData,
    hosted: HostedPartition | None,
) -> AppendResult | None:
    """Returns the error of a batch that is not to be written, or None. `key`: the name or the id of its topic."""
    if hosted is None:
        return AppendResult(path.leaders.absent_error(key, data.index))
    if hosted.is_internal and call.client_id != ADMIN_CLIENT_ID:
        return _INTERNAL
    behind = call.connection.rejected_batches
    if behind:
        passing = _passing_error(behind, (key, data.index), hosted, data.records)
        if passing:
            return AppendResult(passing)
    error = membership.get((hosted.topic, hosted.index))
    if error:
        return AppendResult(error, error_message=_NOT_ADDED if error == _INVALID_TXN_STATE else None)
    return None


def _passing_error(
    behind: RejectedBatches, place: tuple[TopicKey, int], hosted: HostedPartition, records: Records
) -> int:
    """Returns the error of a batch that follows a rejected one, or 0."""
    sequence = sequence_of(records)
    if sequence is None:
        return 0
    return behind.error_for(place, sequence, hosted.log.producers.last_sequence(sequence.producer_id, sequence.epoch))


def _end_without_response(call: Call, response: ProduceResponse, *, failed: bool) -> None:
    if failed:
        end_unanswered(call, response)
    else:
        call.reply_nothing()


def _has_transactional(request: ProduceRequest) -> bool:
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if records is not None and len(records) >= HEADER_BYTES and records[_ATTRIBUTES_AT] & TRANSACTIONAL_FLAG:
                return True
    return False


ENDPOINT = ApiEndpoint(
    handle=handle,
    authorization=(_TOPICS, _TRANSACTIONAL_ID),
    portionings=(Portioning(("topic_data", "partition_data"), ("responses", "partition_responses")),),
    handles_many_whole=True,
    encodes_many_whole=True,
    cost=Cost.PRODUCED,
)
