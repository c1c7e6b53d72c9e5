"""Validation of StreamsGroupHeartbeat, with Kafka's messages. Each check is a small function; they run in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ....protocol.errors import ErrorCode
from ....protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from ...rejection import Rejection
from ..member_checks import first_error, invalid, validate_names, wrong_epoch
from ..member_epochs import JOIN_EPOCH, LEAVE_STATIC_EPOCH
from .configured import ConfiguredTopology
from .member import StreamsMember, StreamsMemberState
from .tasks import Tasks, tasks_in

Heartbeat = StreamsGroupHeartbeatRequest


def heartbeat_error(validation_error: Rejection) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(
        error_code=validation_error.error, error_message=validation_error.message, status=[]
    )


def _features(request: Heartbeat) -> Rejection | None:
    if request.topology is not None and any(one.source_topic_regex for one in request.topology.subtopologies):
        return invalid("Regular expressions for source topics are not supported yet.")
    return None


def _joining(request: Heartbeat) -> Rejection | None:
    """Checks that a joining member sends all fields and owns no tasks."""
    if request.member_epoch != JOIN_EPOCH:
        return None
    if request.rebalance_timeout_ms == -1:
        return invalid("RebalanceTimeoutMs must be provided in first request.")
    for role, tasks in zip(("ActiveTasks", "StandbyTasks", "WarmupTasks"), _roles(request), strict=True):
        if tasks is None or tasks:
            return invalid(f"{role} must be empty when (re-)joining.")
    if request.topology is None:
        return invalid("Topology must be non-null when (re-)joining.")
    for topic in (topic for one in request.topology.subtopologies for topic in one.state_changelog_topics):
        if topic.partitions != 0:
            words = (
                f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                f"{topic.partitions}."
            )
            return Rejection(ErrorCode.STREAMS_INVALID_TOPOLOGY, words)
    return None


def _epochs(request: Heartbeat) -> Rejection | None:
    if request.member_epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        return invalid("InstanceId can't be null.")
    if request.member_epoch < LEAVE_STATIC_EPOCH:
        return invalid(f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.")
    return None


def _validate_task_lists(request: Heartbeat) -> Rejection | None:
    said = [tasks is not None for tasks in _roles(request)]
    if any(said) and not all(said):
        return invalid("If one task-type is non-null, all must be non-null.")
    if request.member_epoch != JOIN_EPOCH and request.topology is not None:
        return invalid("Topology can only be provided when (re-)joining.")
    return None


CHECKS: tuple[Callable[[Heartbeat], Rejection | None], ...] = (
    _features,
    validate_names,
    _joining,
    _epochs,
    _validate_task_lists,
)


def validate(request: Heartbeat) -> Rejection | None:
    return first_error(CHECKS, request)


def _roles(request: Heartbeat) -> tuple[list[Any] | None, ...]:
    return (request.active_tasks, request.standby_tasks, request.warmup_tasks)


def owned_tasks(request: Heartbeat) -> Tasks | None:
    """Returns the tasks that the member reports; None if the request omits them."""
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return Tasks(tasks_in(request.active_tasks), tasks_in(request.standby_tasks), tasks_in(request.warmup_tasks))


def validate_epoch(member: StreamsMember, epoch: int, owned: Tasks | None) -> Rejection | None:
    """Checks the member epoch. The previous epoch is valid if the member owns only tasks of its assignment.

    Such a member has missed the coordinator's last response.
    """
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
    return wrong_epoch("streams", size, epoch, member.epoch)


def validate_unknown_state(member: StreamsMember, owned: Tasks | None) -> Rejection | None:
    if member.state is not StreamsMemberState.UNKNOWN or (owned is not None and owned.is_empty()):
        return None
    words = "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin."
    return Rejection(ErrorCode.FENCED_MEMBER_EPOCH, words)


def validate_tasks(configured: ConfiguredTopology, owned: Tasks | None) -> Rejection | None:
    """Checks that the topology has all reported tasks."""
    if owned is None or not configured.is_ready:
        return None
    for task in sorted(owned.active) + sorted(owned.standby) + sorted(owned.warmup):
        subtopology = configured.subtopologies.get(task.subtopology_id)
        if subtopology is None:
            return invalid(f"Subtopology {task.subtopology_id} does not exist in the topology.")
        if not 0 <= task.partition < subtopology.task_count:
            return invalid(
                f"Task {task.partition} for subtopology {task.subtopology_id} is invalid. Number of tasks for this "
                f"subtopology: {subtopology.task_count}"
            )
    return None


def other_topology() -> Rejection:
    return invalid("Topology updates are not supported yet.")


def invalid_topology(words: str) -> Rejection:
    return Rejection(ErrorCode.STREAMS_INVALID_TOPOLOGY, words)


def names_in_topology(request: Heartbeat) -> list[str]:
    """Returns every topic name of the topology, once."""
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
