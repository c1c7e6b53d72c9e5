"""Offset rules of groups with server-side assignment: commits, fetches and deletions (KIP-848, 932, 1071).

Commits and fetches are fenced by the member epoch, so that a member that lost a partition cannot commit its offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ...protocol.behaviour_versions import OFFSET_COMMIT_WITH_MEMBER_EPOCHS
from ...protocol.errors import ErrorCode
from ...protocol.messages.offset_commit import OffsetCommitRequest
from ...protocol.messages.offset_fetch import OffsetFetchRequestGroup
from .committed_offsets import CommittedOffset
from .shard_state import ShardState


class Committer(Protocol):
    @property
    def epoch(self) -> int: ...

    @property
    def is_classic(self) -> bool:
        """Returns whether the member uses the classic protocol."""


class CommittingGroup(Protocol):
    @property
    def members(self) -> Mapping[str, Committer]: ...

    def is_subscribed_to(self, topic: str) -> bool: ...


def stale(member: Committer) -> ErrorCode:
    """Returns the error for a wrong epoch, depending on the member's protocol."""
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH


def validate_commit(
    state: ShardState, group: CommittingGroup, request: OffsetCommitRequest, version: int, now_ms: int
) -> ErrorCode:
    """Validates a whole request. In a group without members a commit without an epoch is valid."""
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if version not in OFFSET_COMMIT_WITH_MEMBER_EPOCHS and not member.is_classic:
        return ErrorCode.UNSUPPORTED_VERSION
    return stale(member) if epoch > member.epoch else ErrorCode.NONE


def validate_fetch(group: CommittingGroup, asked: OffsetFetchRequestGroup) -> ErrorCode:
    """Validates a fetch. Requests of tools have no member."""
    if asked.member_id is None and asked.member_epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(asked.member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if asked.member_epoch == member.epoch else stale(member)


def validate_delete(group: CommittingGroup) -> ErrorCode:
    """Validates an offset deletion: always valid, since the subscribed topics are always known."""
    return ErrorCode.NONE


def is_expired(state: ShardState, group: CommittingGroup, topic: str, committed: CommittedOffset, now_ms: int) -> bool:
    if group.is_subscribed_to(topic):
        return False
    return now_ms - committed.commit_timestamp_ms >= state.config.offsets_retention_ms
