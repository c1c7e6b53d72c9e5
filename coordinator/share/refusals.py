"""What ShareGroupHeartbeat may be refused for, with Kafka's words. A check is a small function; they run in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from .group import ShareGroup
from .member import JOIN_EPOCH, LEAVE_EPOCH, Member

Heartbeat = ShareGroupHeartbeatRequest


#: A member draws its own id: a UUID as text.
MAX_MEMBER_ID_LENGTH = 36


class Refusal(NamedTuple):
    error: ErrorCode
    message: str | None

    def response(self) -> ShareGroupHeartbeatResponse:
        return ShareGroupHeartbeatResponse(error_code=self.error, error_message=self.message)


def _invalid(words: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, words)


def member_id_is_possible(request: Heartbeat) -> Refusal | None:
    """Asked before all else, and told without words."""
    is_possible = 0 < len(request.member_id) <= MAX_MEMBER_ID_LENGTH
    return None if is_possible else Refusal(ErrorCode.INVALID_REQUEST, None)


def member_id_is_given(request: Heartbeat) -> Refusal | None:
    return None if request.member_id.strip() else _invalid("MemberId can't be empty.")


def group_id_is_given(request: Heartbeat) -> Refusal | None:
    return None if request.group_id.strip() else _invalid("GroupId can't be empty.")


def rack_is_not_empty(request: Heartbeat) -> Refusal | None:
    return None if request.rack_id is None or request.rack_id.strip() else _invalid("RackId can't be empty.")


def who_joins_subscribes(request: Heartbeat) -> Refusal | None:
    if request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        return _invalid("SubscribedTopicNames must be set in first request.")
    return None


def epoch_is_possible(request: Heartbeat) -> Refusal | None:
    return None if request.member_epoch >= LEAVE_EPOCH else _invalid("MemberEpoch is invalid.")


CHECKS: tuple[Callable[[Heartbeat], Refusal | None], ...] = (
    member_id_is_possible,
    member_id_is_given,
    group_id_is_given,
    rack_is_not_empty,
    who_joins_subscribes,
    epoch_is_possible,
)


def refuse(request: Heartbeat) -> Refusal | None:
    for check in CHECKS:
        refusal = check(request)
        if refusal is not None:
            return refusal
    return None


def refuse_epoch(member: Member, epoch: int) -> Refusal | None:
    """Who joins again is taken as it comes; who did not get its last answer still says the epoch before."""
    if epoch in (JOIN_EPOCH, member.epoch) or (epoch < member.epoch and epoch == member.previous_epoch):
        return None
    known = f"than the one known by the group coordinator ({member.epoch})"
    if epoch > member.epoch:
        words = f"The share group member has a greater member epoch ({epoch}) {known}. "
    else:
        words = (
            f"The share group member has a smaller member epoch ({epoch}) {known}, and it does not match the "
            f"previous member epoch ({member.previous_epoch}). "
        )
    return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, words + "The member must abandon all its partitions and rejoin.")


def no_group(group_id: str, is_other: bool, what: str = "Share group") -> Refusal:
    words = f"Group {group_id} is not a share group." if is_other else f"{what} {group_id} not found."
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, words)


def unknown_member(group: ShareGroup, member_id: str) -> Refusal:
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")


def full(limit: int) -> Refusal:
    words = f"The share group has reached its maximum capacity of {limit} members."
    return Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, words)
