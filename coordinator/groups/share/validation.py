"""Validation of ShareGroupHeartbeat, with Kafka's error messages. Each check is a small function; they run in order."""

from __future__ import annotations

from collections.abc import Callable

from ....protocol.errors import ErrorCode
from ....protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ...rejection import Rejection
from ..member_checks import first_error, invalid, wrong_epoch
from ..member_epochs import JOIN_EPOCH, LEAVE_EPOCH
from .member import ShareMember

Heartbeat = ShareGroupHeartbeatRequest
#: A member generates its own id: a UUID as text.
MAX_MEMBER_ID_LENGTH = 36


def heartbeat_error(validation_error: Rejection) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=validation_error.error, error_message=validation_error.message)


def member_id_is_possible(request: Heartbeat) -> Rejection | None:
    """Checks the length of the member id, before all other checks. The error has no message."""
    is_possible = 0 < len(request.member_id) <= MAX_MEMBER_ID_LENGTH
    return None if is_possible else Rejection(ErrorCode.INVALID_REQUEST, None)


def member_id_is_given(request: Heartbeat) -> Rejection | None:
    return None if request.member_id.strip() else invalid("MemberId can't be empty.")


def group_id_is_given(request: Heartbeat) -> Rejection | None:
    return None if request.group_id.strip() else invalid("GroupId can't be empty.")


def rack_is_not_empty(request: Heartbeat) -> Rejection | None:
    return None if request.rack_id is None or request.rack_id.strip() else invalid("RackId can't be empty.")


def who_joins_subscribes(request: Heartbeat) -> Rejection | None:
    if request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        return invalid("SubscribedTopicNames must be set in first request.")
    return None


def epoch_is_possible(request: Heartbeat) -> Rejection | None:
    return None if request.member_epoch >= LEAVE_EPOCH else invalid("MemberEpoch is invalid.")


CHECKS: tuple[Callable[[Heartbeat], Rejection | None], ...] = (
    member_id_is_possible,
    member_id_is_given,
    group_id_is_given,
    rack_is_not_empty,
    who_joins_subscribes,
    epoch_is_possible,
)


def validate(request: Heartbeat) -> Rejection | None:
    return first_error(CHECKS, request)


def validate_epoch(member: ShareMember, epoch: int) -> Rejection | None:
    """Checks the member epoch. A rejoin is valid; so is the previous epoch, from a member that missed a response."""
    if epoch in (JOIN_EPOCH, member.epoch) or (epoch < member.epoch and epoch == member.previous_epoch):
        return None
    if epoch > member.epoch:
        return wrong_epoch("share", "greater", epoch, member.epoch)
    besides = f", and it does not match the previous member epoch ({member.previous_epoch})"
    return wrong_epoch("share", "smaller", epoch, member.epoch, besides)
