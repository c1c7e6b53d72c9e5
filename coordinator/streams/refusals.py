"""What StreamsGroupHeartbeat may be refused for, with Kafka's words. A check is a small function; they run in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from .configured import ConfiguredTopology
from .group import StreamsGroup
from .member import JOIN_EPOCH, LEAVE_STATIC_EPOCH, Member, MemberState
from .tasks import Tasks, tasks_in

Heartbeat = StreamsGroupHeartbeatRequest


class Refusal(NamedTuple):
    error: ErrorCode
    message: str

    def response(self) -> StreamsGroupHeartbeatResponse:
        return StreamsGroupHeartbeatResponse(error_code=self.error, error_message=self.message, status=[])


def _invalid(words: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, words)


def _features(request: Heartbeat) -> Refusal | None:
    if request.topology is not None and any(one.source_topic_regex for one in request.topology.subtopologies):
        return _invalid("Regular expressions for source topics are not supported yet.")
    return None


def _names(request: Heartbeat) -> Refusal | None:
    if not request.member_id.strip():
        return _invalid("MemberId can't be empty.")
    if not request.group_id.strip():
        return _invalid("GroupId can't be empty.")
    if request.instance_id is not None and not request.instance_id.strip():
        return _invalid("InstanceId can't be empty.")
    if request.rack_id is not None and not request.rack_id.strip():
        return _invalid("RackId can't be empty.")
    return None


def _joining(request: Heartbeat) -> Refusal | None:
    """Who joins says everything, and has nothing."""
    if request.member_epoch != JOIN_EPOCH:
        return None
    if request.rebalance_timeout_ms == -1:
        return _invalid("RebalanceTimeoutMs must be provided in first request.")
    for role, tasks in zip(("ActiveTasks", "StandbyTasks", "WarmupTasks"), _roles(request), strict=True):
        if tasks is None or tasks:
            return _invalid(f"{role} must be empty when (re-)joining.")
    if request.topology is None:
        return _invalid("Topology must be non-null when (re-)joining.")
    for topic in (topic for one in request.topology.subtopologies for topic in one.state_changelog_topics):
        if topic.partitions != 0:
            words = (
                f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                f"{topic.partitions}."
            )
            return Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, words)
    return None


def _epochs(request: Heartbeat) -> Refusal | None:
    if request.member_epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        return _invalid("InstanceId can't be null.")
    if request.member_epoch < LEAVE_STATIC_EPOCH:
        return _invalid(f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.")
    return None


def _tasks(request: Heartbeat) -> Refusal | None:
    said = [tasks is not None for tasks in _roles(request)]
    if any(said) and not all(said):
        return _invalid("If one task-type is non-null, all must be non-null.")
    if request.member_epoch != JOIN_EPOCH and request.topology is not None:
        return _invalid("Topology can only be provided when (re-)joining.")
    return None


CHECKS: tuple[Callable[[Heartbeat], Refusal | None], ...] = (_features, _names, _joining, _epochs, _tasks)


def refuse(request: Heartbeat) -> Refusal | None:
    for check in CHECKS:
        refusal = check(request)
        if refusal is not None:
            return refusal
    return None


def _roles(request: Heartbeat) -> tuple[list[Any] | None, ...]:
    return (request.active_tasks, request.standby_tasks, request.warmup_tasks)


def owned_tasks(request: Heartbeat) -> Tasks | None:
    """What the member says that it has; None when it does not say."""
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return Tasks(tasks_in(request.active_tasks), tasks_in(request.standby_tasks), tasks_in(request.warmup_tasks))


def refuse_epoch(member: Member, epoch: int, owned: Tasks | None) -> Refusal | None:
    """A member one epoch behind did not get our answer; it is believed if it owns nothing that it should not."""
    if epoch == JOIN_EPOCH:
        return None
    if epoch > member.epoch:
        size = "greater"
    elif epoch < member.epoch and (
        epoch != member.previous_epoch or owned is None or not member.assigned.contains(owned)
    ):
        size = "smaller"
    else:
        return None
    words = (
        f"The streams group member has a {size} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.epoch}). The member must abandon all its partitions and rejoin."
    )
    return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, words)


def refuse_unknown_state(member: Member, owned: Tasks | None) -> Refusal | None:
    if member.state is not MemberState.UNKNOWN or (owned is not None and owned.is_empty()):
        return None
    words = "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin."
    return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, words)


def refuse_tasks(configured: ConfiguredTopology, owned: Tasks | None) -> Refusal | None:
    """Tasks that the topology does not have."""
    if owned is None or not configured.is_ready:
        return None
    for task in sorted(owned.active) + sorted(owned.standby) + sorted(owned.warmup):
        subtopology = configured.subtopologies.get(task.subtopology_id)
        if subtopology is None:
            return _invalid(f"Subtopology {task.subtopology_id} does not exist in the topology.")
        if not 0 <= task.partition < subtopology.task_count:
            return _invalid(
                f"Task {task.partition} for subtopology {task.subtopology_id} is invalid. Number of tasks for this "
                f"subtopology: {subtopology.task_count}"
            )
    return None


def unknown_member(group: StreamsGroup, member_id: str) -> Refusal:
    words = f"Member {member_id} is not a member of group {group.group_id}."
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, words)


def find_member(group: StreamsGroup, request: Heartbeat) -> Member | Refusal:
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
    words = f"The streams group has reached its maximum capacity of {limit} members."
    return Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, words)


def other_topology() -> Refusal:
    return _invalid("Topology updates are not supported yet.")


def invalid_topology(words: str) -> Refusal:
    return Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, words)


def no_group(group_id: str, is_other: bool) -> Refusal:
    words = f"Group {group_id} is not a streams group." if is_other else f"Streams group {group_id} not found."
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, words)


def names_in_topology(request: Heartbeat) -> list[str]:
    """Every topic that the topology names, once."""
    subtopologies = request.topology.subtopologies if request.topology is not None else []
    named: Iterable[str] = (
        name
        for one in subtopologies
        for name in (
            *one.source_topics,
            *one.repartition_sink_topics,
            *(topic.name for topic in one.repartition_source_topics),
            *(topic.name for topic in one.state_changelog_topics),
        )
    )
    return list(dict.fromkeys(named))
