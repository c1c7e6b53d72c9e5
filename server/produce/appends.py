"""The appends of a Produce: each partition's batch is written, or rejected with its reason.

A batch is rejected where its client may not write, where a batch before it was rejected (`rejected_batches.py`), or where
its transaction does not have the partition; else `HostedPartition.append` decides.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Any

from ...metadata.image import TopicPartition
from ...protocol.acks import ALL_IN_SYNC
from ...protocol.errors import ErrorCode
from ...protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ...replication.mirror.read_only import read_only
from ..partitions.append_result import AppendResult
from ..partitions.hosted_partition import HostedPartition
from . import internal_topics
from .parked_produce import ParkedProduce
from .produce_authorization import NONE_DENIED, WITH_TOPIC_IDS
from .produce_path import ProducePath
from .produce_response import NO_LEADER, NO_NODES, NO_RECORD_ERRORS, add_leaders, end_unanswered
from .rejected_batches import RejectedBatches, sequence_of

if TYPE_CHECKING:
    from ...protocol.schema import Records
    from ..network.call import Call
    from .produce_authorization import TopicKey

ACKS = (ALL_IN_SYNC, 0, 1)

_INVALID_ACKS = AppendResult(ErrorCode.INVALID_REQUIRED_ACKS)
_DENIED = AppendResult(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
_INVALID_TXN_STATE = int(ErrorCode.INVALID_TXN_STATE)
#: Kafka's words: people search for them.
_NOT_ADDED = "Partition was not added to the transaction"


def append_batches(
    path: ProducePath,
    call: Call[ProduceRequest],
    membership: dict[TopicPartition, int],
    denied: Set[TopicKey],
    *,
    trusted: bool = False,
) -> ProduceResponse | None:
    """Appends the batches of a request. Returns the response; None if it comes later, or if acks=0 asks for none.

    `membership`: an error code for each partition that was verified, 0 when it is in the transaction. `trusted`: all are.
    `denied`: the topics, as the request names them, that the client may not write to.
    """
    request = call.request
    acks, version = request.acks, call.version
    if acks not in ACKS:
        return reject_batches(call, _INVALID_ACKS, denied)
    by_id = version in WITH_TOPIC_IDS
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
            if needs_checks or hosted is None or hosted.is_guarded:
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
            # In one go, and not by `produce_response.fill` as for results that come later: by their names, the nine would
            # take three times as long.
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


def reject_batches(
    call: Call[ProduceRequest], rejected: AppendResult, denied: Set[TopicKey] = NONE_DENIED
) -> ProduceResponse | None:
    """Answers each partition with the error of the whole request."""
    by_id = call.version in WITH_TOPIC_IDS
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
    call: Call[ProduceRequest],
    membership: dict[TopicPartition, int],
    key: str | bytes,
    data: PartitionProduceData,
    hosted: HostedPartition | None,
) -> AppendResult | None:
    """Returns the error of a batch that is not to be written, or None. `key`: the name or the id of its topic."""
    if hosted is None:
        return AppendResult(path.leaders.absent_error(key, data.index))
    if hosted.rules.mirror:
        return AppendResult(ErrorCode.POLICY_VIOLATION, error_message=read_only(hosted.topic, hosted.rules.mirror))
    if hosted.is_guarded:
        rejected = internal_topics.rejection(hosted.topic, call.client_id, data.records, path.metadata_client_ids())
        if rejected is not None:
            return rejected
    rejected_batches = call.connection.rejected_batches
    if rejected_batches:
        transient_error = _transient_error(rejected_batches, (key, data.index), hosted, data.records)
        if transient_error:
            return AppendResult(transient_error)
    error = membership.get((hosted.topic, hosted.index))
    if error:
        return AppendResult(error, error_message=_NOT_ADDED if error == _INVALID_TXN_STATE else None)
    return None


def _transient_error(
    rejected_batches: RejectedBatches, place: tuple[TopicKey, int], hosted: HostedPartition, records: Records
) -> int:
    """Returns the error of a batch that follows a rejected one, or 0."""
    sequence = sequence_of(records)
    if sequence is None:
        return 0
    return rejected_batches.error_for(
        place, sequence, hosted.open_log().producers.last_sequence(sequence.producer_id, sequence.epoch)
    )


def _end_without_response(call: Call[ProduceRequest], response: ProduceResponse, *, failed: bool) -> None:
    if failed:
        end_unanswered(call, response)
    else:
        call.reply_nothing()
