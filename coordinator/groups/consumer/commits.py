"""Offset rules of consumer groups. The rules that all kinds share are in coordinator/groups/shard_state.py."""

from __future__ import annotations

from ....protocol.errors import ErrorCode
from ....protocol.messages.offset_commit import OffsetCommitRequest
from ....protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ..kind import OffsetRules
from ..member_commits import is_expired, stale, validate_commit, validate_delete, validate_fetch
from .group import ConsumerGroup


def validate_transactional_commit(group: ConsumerGroup, request: TxnOffsetCommitRequest) -> ErrorCode:
    """Validates a transactional commit. A request without a member is fenced by the producer epoch only (KIP-447)."""
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH


def validate_partition(group: ConsumerGroup, request: OffsetCommitRequest, topic_id: bytes, index: int) -> ErrorCode:
    """Validates the epoch of a commit for one partition.

    A member with an older epoch may still commit a partition that it has owned since that epoch or before (KIP-1251).
    """
    member = group.members.get(request.member_id)
    epoch = request.generation_id_or_member_epoch
    if member is None or epoch == member.epoch:
        return ErrorCode.NONE
    for owned in (member.assigned, member.revoking):
        since = owned.get(topic_id, {}).get(index)
        if since is not None:
            return ErrorCode.NONE if epoch >= since else stale(member)
    return stale(member)


RULES = OffsetRules(
    validate_commit=validate_commit,
    validate_transactional_commit=validate_transactional_commit,
    validate_delete=validate_delete,
    is_expired=is_expired,
    validate_partition=validate_partition,
    validate_fetch=validate_fetch,
)
