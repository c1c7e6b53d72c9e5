"""May this member commit, may it fetch? Fenced by epochs, so that who lost a task cannot move its offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode
from ...protocol.messages.offset_commit import OffsetCommitRequest
from ...protocol.messages.offset_fetch import OffsetFetchRequestGroup
from ...protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ..kind import OffsetRules
from ..offset_store import CommittedOffset
from .group import StreamsGroup
from .tasks import TaskId
from .topology import subtopology_of

if TYPE_CHECKING:
    from ..state import ShardState

#: The first version whose clients know of member epochs.
MEMBER_EPOCH_VERSION = 9


def refuse_commit(
    state: ShardState, group: StreamsGroup, request: OffsetCommitRequest, version: int, now: int
) -> ErrorCode:
    """Of a whole request. Without members anybody may commit who claims no epoch."""
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if version < MEMBER_EPOCH_VERSION:
        return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.STALE_MEMBER_EPOCH if epoch > member.epoch else ErrorCode.NONE


def refuse_transactional_commit(group: StreamsGroup, request: TxnOffsetCommitRequest) -> ErrorCode:
    """Producers that name no member are fenced by their own epoch only (KIP-447)."""
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and (not group.members or (not request.member_id and request.group_instance_id is None)):
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.STALE_MEMBER_EPOCH if epoch > member.epoch else ErrorCode.NONE


def refuse_partition(
    group: StreamsGroup, request: OffsetCommitRequest | TxnOffsetCommitRequest, topic_id: bytes, index: int
) -> ErrorCode:
    """A member that is behind may still commit for the tasks that it has had since the epoch that it knows (KIP-1251)."""
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


def refuse_fetch(group: StreamsGroup, asked: OffsetFetchRequestGroup) -> ErrorCode:
    """Tools name no member."""
    if asked.member_id is None and asked.member_epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(asked.member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if asked.member_epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH


def refuse_delete(group: StreamsGroup) -> ErrorCode:
    """It is always known which topics are used."""
    return ErrorCode.NONE


def is_expired(state: ShardState, group: StreamsGroup, topic: str, committed: CommittedOffset, now: int) -> bool:
    if group.is_subscribed_to(topic):
        return False
    return now - committed.commit_timestamp_ms >= state.config.offsets_retention_ms


RULES = OffsetRules(
    refuse_commit=refuse_commit,
    refuse_transactional_commit=refuse_transactional_commit,
    refuse_delete=refuse_delete,
    is_expired=is_expired,
    refuse_partition=refuse_partition,
    refuse_transactional_partition=refuse_partition,
    refuse_fetch=refuse_fetch,
)
