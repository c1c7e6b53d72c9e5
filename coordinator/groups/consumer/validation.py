"""Validation of ConsumerGroupHeartbeat, with Kafka's messages. Each check is a small function; they run in order."""

from __future__ import annotations

from collections.abc import Callable

from ....protocol.behaviour_versions import CONSUMER_HEARTBEAT_WITH_OWN_MEMBER_ID
from ....protocol.errors import ErrorCode
from ....protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ...rejection import Rejection
from ..member_checks import first_error, invalid, validate_names, wrong_epoch
from ..member_epochs import JOIN_EPOCH, LEAVE_STATIC_EPOCH
from .assignors import ASSIGNORS
from .member import ConsumerMember, Partitions

Heartbeat = ConsumerGroupHeartbeatRequest


def heartbeat_error(validation_error: Rejection) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=validation_error.error, error_message=validation_error.message)


def _names(request: Heartbeat, version: int) -> Rejection | None:
    needs_member_id = version in CONSUMER_HEARTBEAT_WITH_OWN_MEMBER_ID or request.member_epoch != JOIN_EPOCH
    return validate_names(request, needs_member_id=needs_member_id)


def _joining(request: Heartbeat, version: int) -> Rejection | None:
    """Checks that a joining member sends all fields."""
    if request.member_epoch != JOIN_EPOCH:
        return None
    if request.rebalance_timeout_ms == -1:
        return invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        return invalid("TopicPartitions must be empty when (re-)joining.")
    has_names = bool(request.subscribed_topic_names)
    has_regex = request.subscribed_topic_regex is not None
    if not has_names and not has_regex and request.subscribed_topic_names is None:
        return invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    return None


def _epochs(request: Heartbeat, version: int) -> Rejection | None:
    if request.member_epoch < LEAVE_STATIC_EPOCH:
        return invalid("MemberEpoch is invalid.")
    if request.member_epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        return invalid("InstanceId can't be null.")
    return None


def _assignor(request: Heartbeat, version: int) -> Rejection | None:
    if request.server_assignor is None or request.server_assignor in ASSIGNORS:
        return None
    supported = ", ".join(ASSIGNORS)
    words = f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {supported}."
    return Rejection(ErrorCode.UNSUPPORTED_ASSIGNOR, words)


CHECKS: tuple[Callable[[Heartbeat, int], Rejection | None], ...] = (_names, _joining, _epochs, _assignor)


def validate(request: Heartbeat, version: int) -> Rejection | None:
    return first_error(CHECKS, request, version)


def validate_epoch(member: ConsumerMember, epoch: int, owned: Partitions | None) -> Rejection | None:
    """Checks the member epoch. The previous epoch is valid if the member owns only partitions of its assignment.

    Such a member has missed the coordinator's last response.
    """
    if epoch > member.epoch:
        size = "greater"
    elif epoch < member.epoch and (epoch != member.previous_epoch or not _is_subset(owned, member)):
        size = "smaller"
    else:
        return None
    return wrong_epoch("consumer", size, epoch, member.epoch)


def _is_subset(owned: Partitions | None, member: ConsumerMember) -> bool:
    if owned is None:
        return False
    return all(indexes <= member.assigned.get(topic_id, {}).keys() for topic_id, indexes in owned.items())


def in_unknown_state() -> Rejection:
    words = "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin."
    return Rejection(ErrorCode.FENCED_MEMBER_EPOCH, words)


def invalid_regex(regex: str, why: Exception) -> Rejection:
    words = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {why}."
    return Rejection(ErrorCode.INVALID_REGULAR_EXPRESSION, words)
