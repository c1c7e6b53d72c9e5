"""Offset rules of classic groups: validation of commits and deletions, and expiration (KIP-211)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....protocol.errors import ErrorCode
from ....protocol.messages.offset_commit import OffsetCommitRequest
from ....protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ..committed_offsets import CommittedOffset
from ..kind import OffsetRules
from .group import ClassicGroup, ClassicGroupState
from .subscriptions import CONSUMER_PROTOCOL_TYPE

if TYPE_CHECKING:
    from ..shard_state import ShardState

NO_EXPIRY_OF_ITS_OWN = -1


def validate_commit(
    state: ShardState, group: ClassicGroup, request: OffsetCommitRequest, version: int, now_ms: int
) -> ErrorCode:
    """Validates a commit. Without a generation it is from a simple consumer or a tool, and the group must be empty."""
    generation_id = request.generation_id_or_member_epoch
    if generation_id < 0 and group.state is ClassicGroupState.EMPTY:
        return ErrorCode.NONE
    # An empty member id is not a member either, so this also rejects commits from outside the group.
    error = group.validate_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is ClassicGroupState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    if group.state in (ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE):
        group.touch(group.members[request.member_id], now_ms)
    return ErrorCode.NONE


def validate_transactional_commit(group: ClassicGroup, request: TxnOffsetCommitRequest) -> ErrorCode:
    generation_id = request.generation_id_or_member_epoch
    if generation_id < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.NONE
    error = group.validate_member(request.member_id, request.group_instance_id)
    if error is ErrorCode.NONE and generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def validate_delete(group: ClassicGroup) -> ErrorCode:
    """Validates an offset deletion. Only for consumers are the subscribed topics known."""
    if group.state is not ClassicGroupState.EMPTY and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def validate_deletion(group: ClassicGroup) -> ErrorCode:
    return ErrorCode.NONE if group.state is ClassicGroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP


def is_expired(state: ShardState, group: ClassicGroup, topic: str, committed: CommittedOffset, now_ms: int) -> bool:
    if not _may_expire(group) or group.is_subscribed_to(topic):
        return False
    if committed.expire_timestamp_ms != NO_EXPIRY_OF_ITS_OWN:
        return now_ms >= committed.expire_timestamp_ms
    since = committed.commit_timestamp_ms
    if group.protocol_type is not None and group.state is ClassicGroupState.EMPTY and group.state_timestamp_ms != -1:
        since = group.state_timestamp_ms
    return now_ms - since >= state.config.offsets_retention_ms


def _may_expire(group: ClassicGroup) -> bool:
    """Returns whether offsets may expire. For a group with members its subscriptions must be known."""
    if group.protocol_type is None or group.state is ClassicGroupState.EMPTY:
        return True
    is_known = group.protocol_type == CONSUMER_PROTOCOL_TYPE and group.subscribed_topics is not None
    return is_known and group.state is ClassicGroupState.STABLE


RULES = OffsetRules(
    validate_commit=validate_commit,
    validate_transactional_commit=validate_transactional_commit,
    validate_delete=validate_delete,
    is_expired=is_expired,
)
