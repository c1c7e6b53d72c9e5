"""May this member commit, may it fetch? Fenced by epochs, so that who lost a partition cannot move its offset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.offset_commit import OffsetCommitRequest
from ...protocol.messages.offset_fetch import OffsetFetchRequestGroup
from ...protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ..kind import OffsetRules
from ..offset_store import CommittedOffset
from .group import ConsumerGroup
from .member import Member

if TYPE_CHECKING:
    from ..state import ShardState

#: The first version whose clients know of member epochs.
MEMBER_EPOCH_VERSION = 9


def refuse_commit(
    state: ShardState, group: ConsumerGroup, request: OffsetCommitRequest, version: int, now: int
) -> ErrorCode:
    """Of a whole request. Without members anybody may commit who claims no epoch."""
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if version < MEMBER_EPOCH_VERSION and not member.is_classic:
        return ErrorCode.UNSUPPORTED_VERSION
    return stale(member) if epoch > member.epoch else ErrorCode.NONE


def stale(member: Member) -> ErrorCode:
    """The epoch is not the member's, in the words of its protocol."""
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH


def refuse_transactional_commit(group: ConsumerGroup, request: TxnOffsetCommitRequest) -> ErrorCode:
    """Producers that name no member are fenced by their own epoch only (KIP-447)."""
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH


def refuse_partition(group: ConsumerGroup, request: OffsetCommitRequest, topic_id: bytes, index: int) -> ErrorCode:
    """A member that is behind may still commit what it has had since the epoch that it knows (KIP-1251)."""
    member = group.members.get(request.member_id)
    epoch = request.generation_id_or_member_epoch
    if member is None or epoch == member.epoch:
        return ErrorCode.NONE
    for owned in (member.assigned, member.revoking):
        since = owned.get(topic_id, {}).get(index)
        if since is not None:
            return ErrorCode.NONE if epoch >= since else stale(member)
    return stale(member)


def refuse_fetch(group: ConsumerGroup, asked: OffsetFetchRequestGroup) -> ErrorCode:
    """Tools name no member."""
    if asked.member_id is None and asked.member_epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(asked.member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if asked.member_epoch == member.epoch else stale(member)


def refuse_delete(group: ConsumerGroup) -> ErrorCode:
    """It is always known which topics are used."""
    return ErrorCode.NONE


def is_expired(state: ShardState, group: ConsumerGroup, topic: str, committed: CommittedOffset, now: int) -> bool:
    if group.is_subscribed_to(topic):
        return False
    return now - committed.commit_timestamp_ms >= state.config.offsets_retention_ms


RULES = OffsetRules(
    refuse_commit=refuse_commit,
    refuse_transactional_commit=refuse_transactional_commit,
    refuse_delete=refuse_delete,
    is_expired=is_expired,
    refuse_partition=refuse_partition,
    refuse_fetch=refuse_fetch,
)
