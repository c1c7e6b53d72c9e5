"""Offset rules of streams groups. The rules that all kinds share are in coordinator/groups/shard_state.py."""

from __future__ import annotations

from ....protocol.errors import ErrorCode
from ....protocol.messages.offset_commit import OffsetCommitRequest
from ....protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ..kind import OffsetRules
from ..member_commits import is_expired, validate_commit, validate_delete, validate_fetch
from .group import StreamsGroup
from .tasks import TaskId
from .topology import subtopology_of


def validate_transactional_commit(group: StreamsGroup, request: TxnOffsetCommitRequest) -> ErrorCode:
    """Validates a transactional commit. A request without a member is fenced by the producer epoch only (KIP-447)."""
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and (not group.members or (not request.member_id and request.group_instance_id is None)):
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.STALE_MEMBER_EPOCH if epoch > member.epoch else ErrorCode.NONE


def validate_partition(
    group: StreamsGroup, request: OffsetCommitRequest | TxnOffsetCommitRequest, topic_id: bytes, index: int
) -> ErrorCode:
    """Validates the epoch of a commit for one partition.

    A member with an older epoch may still commit for a task that it has owned since that epoch or before (KIP-1251).
    """
    member = group.members.get(request.member_id)
    epoch = request.generation_id_or_member_epoch
    if member is None or epoch == member.epoch:
        return ErrorCode.NONE
    topic = next(topic.name for topic in request.topics if topic.topic_id == topic_id)
    subtopology_id = subtopology_of(group.topology, topic) if group.topology is not None else None
    if subtopology_id is None:
        return ErrorCode.STALE_MEMBER_EPOCH
    task = TaskId(subtopology_id, index)
    since = member.assigned.active.get(task, member.revoking.active.get(task))
    return ErrorCode.NONE if since is not None and epoch >= since else ErrorCode.STALE_MEMBER_EPOCH


RULES = OffsetRules(
    validate_commit=validate_commit,
    validate_transactional_commit=validate_transactional_commit,
    validate_delete=validate_delete,
    is_expired=is_expired,
    validate_partition=validate_partition,
    validate_transactional_partition=validate_partition,
    validate_fetch=validate_fetch,
)
