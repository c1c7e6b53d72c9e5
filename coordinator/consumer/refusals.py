"""What ConsumerGroupHeartbeat may be refused for, with Kafka's words. A check is a small function; they run in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from .assignors import ASSIGNORS
from .group import ConsumerGroup
from .member import JOIN_EPOCH, LEAVE_STATIC_EPOCH, Member, Partitions

Heartbeat = ConsumerGroupHeartbeatRequest
#: Members draw their own ids from this version on (KIP-1082).
OWN_MEMBER_ID_VERSION = 1


class Refusal(NamedTuple):
    error: ErrorCode
    message: str

    def response(self) -> ConsumerGroupHeartbeatResponse:
        return ConsumerGroupHeartbeatResponse(error_code=self.error, error_message=self.message)


def _invalid(words: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, words)


def _names(request: Heartbeat, version: int) -> Refusal | None:
    must_have_id = version >= OWN_MEMBER_ID_VERSION or request.member_epoch != JOIN_EPOCH
    if must_have_id and not request.member_id.strip():
        return _invalid("MemberId can't be empty.")
    if not request.group_id.strip():
        return _invalid("GroupId can't be empty.")
    if request.instance_id is not None and not request.instance_id.strip():
        return _invalid("InstanceId can't be empty.")
    if request.rack_id is not None and not request.rack_id.strip():
        return _invalid("RackId can't be empty.")
    return None


def _joining(request: Heartbeat, version: int) -> Refusal | None:
    """Who joins says everything."""
    if request.member_epoch != JOIN_EPOCH:
        return None
    if request.rebalance_timeout_ms == -1:
        return _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        return _invalid("TopicPartitions must be empty when (re-)joining.")
    has_names = bool(request.subscribed_topic_names)
    has_regex = request.subscribed_topic_regex is not None
    if not has_names and not has_regex and request.subscribed_topic_names is None:
        return _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    return None


def _epochs(request: Heartbeat, version: int) -> Refusal | None:
    if request.member_epoch < LEAVE_STATIC_EPOCH:
        return _invalid("MemberEpoch is invalid.")
    if request.member_epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        return _invalid("InstanceId can't be null.")
    return None


def _assignor(request: Heartbeat, version: int) -> Refusal | None:
    if request.server_assignor is None or request.server_assignor in ASSIGNORS:
        return None
    supported = ", ".join(ASSIGNORS)
    words = f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {supported}."
    return Refusal(ErrorCode.UNSUPPORTED_ASSIGNOR, words)


CHECKS: tuple[Callable[[Heartbeat, int], Refusal | None], ...] = (_names, _joining, _epochs, _assignor)


def refuse(request: Heartbeat, version: int) -> Refusal | None:
    for check in CHECKS:
        refusal = check(request, version)
        if refusal is not None:
            return refusal
    return None


def refuse_epoch(member: Member, epoch: int, owned: Partitions | None) -> Refusal | None:
    """A member one epoch behind did not get our answer; it is believed if it owns nothing that it should not."""
    if epoch > member.epoch:
        size = "greater"
    elif epoch < member.epoch and (epoch != member.previous_epoch or not _is_subset(owned, member)):
        size = "smaller"
    else:
        return None
    words = (
        f"The consumer group member has a {size} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.epoch}). The member must abandon all its partitions and rejoin."
    )
    return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, words)


def _is_subset(owned: Partitions | None, member: Member) -> bool:
    if owned is None:
        return False
    return all(indexes <= member.assigned.get(topic_id, {}).keys() for topic_id, indexes in owned.items())


def unknown_member(group: ConsumerGroup, member_id: str) -> Refusal:
    words = f"Member {member_id} is not a member of group {group.group_id}."
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, words)


def find_member(group: ConsumerGroup, request: Heartbeat) -> Member | Refusal:
    """Who must be a member already: it goes on, or leaves."""
    if request.instance_id is None:
        return group.members.get(request.member_id) or unknown_member(group, request.member_id)
    owner_id = group.static_members.get(request.instance_id)
    if owner_id is None:
        return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {request.instance_id} is unknown.")
    if owner_id != request.member_id:
        words = (
            f"Static member {request.member_id} with instance id {request.instance_id} was fenced by member {owner_id}."
        )
        return Refusal(ErrorCode.FENCED_INSTANCE_ID, words)
    return group.members[owner_id]


def unreleased(request: Heartbeat, owner_id: str) -> Refusal:
    words = (
        f"Static member {request.member_id} with instance id {request.instance_id} cannot join the group because the "
        f"instance id is owned by {owner_id} member."
    )
    return Refusal(ErrorCode.UNRELEASED_INSTANCE_ID, words)


def full(limit: int) -> Refusal:
    words = f"The consumer group has reached its maximum capacity of {limit} members."
    return Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, words)


def in_unknown_state() -> Refusal:
    words = "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin."
    return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, words)


def invalid_regex(regex: str, why: Exception) -> Refusal:
    words = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {why}."
    return Refusal(ErrorCode.INVALID_REGULAR_EXPRESSION, words)
