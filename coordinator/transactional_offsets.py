"""TxnOffsetCommit 0-6, as far as the group decides it: offsets that count once their transaction is committed (KIP-98).

A client that names its generation or member id is held to them (KIP-447); older ones name nothing, and are fenced only by
their producer's epoch, which the transaction's coordinator has looked at before the request comes here.
"""

from __future__ import annotations

from ..protocol.errors import ErrorCode
from ..protocol.internal.classic_group_records import OffsetCommitValue
from ..protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from .classic.group import ClassicGroup
from .consumer import commits
from .offsets import metadata_fits
from .refusals import transactional_commit_refused
from .result import GroupRequest
from .state import ShardState

#: The first version whose clients know that a group may be gone (KIP-1319).
GROUP_ID_NOT_FOUND_VERSION = 6


def commit(state: ShardState, message: GroupRequest, now: int) -> None:
    request = message.request
    assert isinstance(request, TxnOffsetCommitRequest)
    consumer_group = state.consumer_groups.get(request.group_id)
    if consumer_group is not None:
        error = commits.refuse_transactional_commit(consumer_group, request)
    else:
        error = _refuse(state.groups.get(request.group_id), message.version, request)
    if error is not ErrorCode.NONE:
        state.reply(message, transactional_commit_refused(request, error))
        return
    producer = (request.producer_id, request.producer_epoch)
    response = TxnOffsetCommitResponse()
    for topic in request.topics:
        answers = []
        for partition in topic.partitions:
            error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            if metadata_fits(partition.committed_metadata, state.config.offset_metadata_max_bytes):
                error = ErrorCode.NONE
                value = OffsetCommitValue(
                    offset=partition.committed_offset,
                    leader_epoch=max(-1, partition.committed_leader_epoch),
                    metadata=partition.committed_metadata or "",
                    commit_timestamp=now,
                    topic_id=topic.topic_id,
                )
                state.write_transactional_offset(
                    request.group_id, topic.name, partition.partition_index, value, producer
                )
            answers.append(TxnOffsetCommitResponsePartition(partition.partition_index, error))
        response.topics.append(TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, answers))
    state.reply(message, response)


def _refuse(group: ClassicGroup | None, version: int, request: TxnOffsetCommitRequest) -> ErrorCode:
    generation_id = request.generation_id_or_member_epoch
    if group is None:
        if generation_id < 0:
            return ErrorCode.NONE
        return ErrorCode.GROUP_ID_NOT_FOUND if version >= GROUP_ID_NOT_FOUND_VERSION else ErrorCode.ILLEGAL_GENERATION
    if generation_id < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.NONE
    error = group.refuse_member(request.member_id, request.group_instance_id)
    if error is ErrorCode.NONE and generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return error
