"""TxnOffsetCommit 0-6: the part of the group coordinator. Offsets take effect once their transaction commits (KIP-98).

If a request has a generation or member id, they are validated (KIP-447). Older clients send neither, and only their
producer epoch fences them, which the transaction coordinator has checked before the request arrives here.
"""

from __future__ import annotations

from ...protocol.behaviour_versions import TXN_OFFSET_COMMIT_WITH_GROUP_ERRORS
from ...protocol.error_responses import error_response_to
from ...protocol.errors import ErrorCode
from ...protocol.internal.consumer_offsets import OffsetCommitValue
from ...protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ..result import GroupRequest
from .group import Group
from .kind import OffsetRules
from .offsets import metadata_fits
from .shard_state import ShardState


def commit_transactional(state: ShardState, message: GroupRequest, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, TxnOffsetCommitRequest)
    group = state.groups.get(request.group_id)
    if group is None:
        error = _validate_transactional_without_group(message.version, request)
    else:
        error = _validate_transactional(state.kind_of(group).offsets, group, request)
    if error is ErrorCode.STALE_MEMBER_EPOCH and message.version not in TXN_OFFSET_COMMIT_WITH_GROUP_ERRORS:
        error = ErrorCode.ILLEGAL_GENERATION
    if error is not ErrorCode.NONE:
        state.reply(message, error_response_to(request, message.version, error))
        return
    producer = (request.producer_id, request.producer_epoch)
    response = TxnOffsetCommitResponse()
    for topic in request.topics:
        responses = []
        for partition in topic.partitions:
            error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            if metadata_fits(partition.committed_metadata, state.config.offset_metadata_max_bytes):
                error = ErrorCode.NONE
                value = OffsetCommitValue(
                    offset=partition.committed_offset,
                    leader_epoch=max(-1, partition.committed_leader_epoch),
                    metadata=partition.committed_metadata or "",
                    commit_timestamp=now_ms,
                    topic_id=topic.topic_id,
                )
                state.write_transactional_offset(
                    request.group_id, topic.name, partition.partition_index, value, producer
                )
                state.counters.offset_commits += 1
            responses.append(TxnOffsetCommitResponsePartition(partition.partition_index, error))
        response.topics.append(TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, responses))
    state.reply(message, response)


def _validate_transactional(rules: OffsetRules[ShardState], group: Group, request: TxnOffsetCommitRequest) -> ErrorCode:
    error = rules.validate_transactional_commit(group, request)
    of_partition = rules.validate_transactional_partition
    if error is not ErrorCode.NONE or of_partition is None:
        return error
    places = ((topic.topic_id, part.partition_index) for topic in request.topics for part in topic.partitions)
    errors = (of_partition(group, request, topic_id, index) for topic_id, index in places)
    return next((error for error in errors if error is not ErrorCode.NONE), ErrorCode.NONE)


def _validate_transactional_without_group(version: int, request: TxnOffsetCommitRequest) -> ErrorCode:
    if request.generation_id_or_member_epoch < 0:
        return ErrorCode.NONE
    return (
        ErrorCode.GROUP_ID_NOT_FOUND if version in TXN_OFFSET_COMMIT_WITH_GROUP_ERRORS else ErrorCode.ILLEGAL_GENERATION
    )
