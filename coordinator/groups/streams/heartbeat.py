"""StreamsGroupHeartbeat 0-1: join with a topology, own tasks, leave.

First `_understood` validates the request in Kafka's order, without any change. Then the records are written: the
member, the topology, the group epoch, the target, the member's part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ....metadata.image import MetadataImage
from ....protocol.errors import ErrorCode
from ....protocol.internal.streams_group_records import (
    Endpoint,
    KeyValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupTopologyValue,
)
from ....protocol.messages.streams_groups import (
    EndpointToPartitions,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
    TopicPartition,
    UserEndpoint,
)
from ....protocol.messages.streams_groups import Status as StatusTold
from ....protocol.messages.topics import CreatableTopic
from ....protocol.schema import Message
from ...result import GroupRequest
from ..assigned_group import (
    ValidationError,
    find_member,
    first_error,
    full,
    invalid,
    no_group,
    unreleased,
    validate_names,
    wrong_epoch,
)
from ..classic.group import ClassicGroup
from ..consumer.group import metadata_hash
from . import description
from .assignment import Target, reconcile, remove_from_group, update_target
from .group import (
    JOIN_EPOCH,
    LEAVE_STATIC_EPOCH,
    NO_TASKS,
    NO_TOPOLOGY_EPOCH,
    NOTHING_HELD,
    Member,
    MemberState,
    StreamsGroup,
    TaskId,
    Tasks,
    acceptable_recovery_lag,
    assignment_configs,
    by_subtopology,
    heartbeat_interval_ms,
    initial_rebalance_delay_ms,
    rack_aware_tags,
    replace_member,
    session_timeout_ms,
    task_offset_interval_ms,
    tasks_in,
    write_current,
    write_member,
    write_metadata,
    write_topology,
)
from .topology import ConfiguredTopology, InvalidTopology, Status, as_record, configure, is_same, required_topics

if TYPE_CHECKING:
    from ..state import ShardState


# Validation of StreamsGroupHeartbeat, with Kafka's messages. Each check is a small function; they run in order.


Heartbeat = StreamsGroupHeartbeatRequest


def error_response(validation_error: ValidationError) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(
        error_code=validation_error.error, error_message=validation_error.message, status=[]
    )


def _features(request: Heartbeat) -> ValidationError | None:
    if request.topology is not None and any(one.source_topic_regex for one in request.topology.subtopologies):
        return invalid("Regular expressions for source topics are not supported yet.")
    return None


def _joining(request: Heartbeat) -> ValidationError | None:
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
            return ValidationError(ErrorCode.STREAMS_INVALID_TOPOLOGY, words)
    return None


def _epochs(request: Heartbeat) -> ValidationError | None:
    if request.member_epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        return invalid("InstanceId can't be null.")
    if request.member_epoch < LEAVE_STATIC_EPOCH:
        return invalid(f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.")
    return None


def _validate_task_lists(request: Heartbeat) -> ValidationError | None:
    said = [tasks is not None for tasks in _roles(request)]
    if any(said) and not all(said):
        return invalid("If one task-type is non-null, all must be non-null.")
    if request.member_epoch != JOIN_EPOCH and request.topology is not None:
        return invalid("Topology can only be provided when (re-)joining.")
    return None


CHECKS: tuple[Callable[[Heartbeat], ValidationError | None], ...] = (
    _features,
    validate_names,
    _joining,
    _epochs,
    _validate_task_lists,
)


def validate(request: Heartbeat) -> ValidationError | None:
    return first_error(CHECKS, request)


def _roles(request: Heartbeat) -> tuple[list[Any] | None, ...]:
    return (request.active_tasks, request.standby_tasks, request.warmup_tasks)


def owned_tasks(request: Heartbeat) -> Tasks | None:
    """Returns the tasks that the member reports; None if the request omits them."""
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return Tasks(tasks_in(request.active_tasks), tasks_in(request.standby_tasks), tasks_in(request.warmup_tasks))


def validate_epoch(member: Member, epoch: int, owned: Tasks | None) -> ValidationError | None:
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


def validate_unknown_state(member: Member, owned: Tasks | None) -> ValidationError | None:
    if member.state is not MemberState.UNKNOWN or (owned is not None and owned.is_empty()):
        return None
    words = "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin."
    return ValidationError(ErrorCode.FENCED_MEMBER_EPOCH, words)


def validate_tasks(configured: ConfiguredTopology, owned: Tasks | None) -> ValidationError | None:
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


def other_topology() -> ValidationError:
    return invalid("Topology updates are not supported yet.")


def invalid_topology(words: str) -> ValidationError:
    return ValidationError(ErrorCode.STREAMS_INVALID_TOPOLOGY, words)


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


# The partitions that each member serves to interactive queries. Members exchange them through the coordinator.


def endpoints(group: StreamsGroup, last: Member, image: MetadataImage) -> list[EndpointToPartitions]:
    """Returns the partitions of every member with an endpoint; those of `last` come last."""
    configured = group.configured
    if configured is None or not configured.subtopologies:
        return []
    others = [member for member_id, member in group.members.items() if member_id != last.member_id]
    return [
        EndpointToPartitions(
            user_endpoint=UserEndpoint(host=endpoint.host, port=endpoint.port),
            active_partitions=_partitions(member.assigned.active, configured, image),
            standby_partitions=_partitions(member.assigned.standby | member.assigned.warmup, configured, image),
        )
        for member in (*others, last)
        if (endpoint := member.metadata.user_endpoint) is not None
    ]


def _partitions(tasks: Iterable[TaskId], configured: ConfiguredTopology, image: MetadataImage) -> list[TopicPartition]:
    found = []
    for subtopology_id, partitions in by_subtopology(tasks).items():
        subtopology = configured.subtopologies.get(subtopology_id)
        for name in subtopology.inputs if subtopology is not None else ():
            topic = image.topic(name)
            indexes = [index for index in partitions if topic is not None and index < len(topic.partitions)]
            if indexes:
                found.append(TopicPartition(topic=name, partitions=indexes))
    return found


# The response of StreamsGroupHeartbeat: changed tasks, statuses, and the endpoints of interactive queries.


#: The first version whose clients support MISSING_CLIENT_TAGS.
CLIENT_TAGS_VERSION = 1
#: The first version that can request the description of the topology (KIP-1331).
DESCRIPTION_VERSION = 1


@dataclass
class NeedsTopics(Message):
    """A response, and the internal topics that its sender must have created. Every heartbeat repeats missing ones."""

    response: StreamsGroupHeartbeatResponse
    topics: tuple[CreatableTopic, ...]


def respond(
    state: ShardState,
    message: GroupRequest,
    request: StreamsGroupHeartbeatRequest,
    group: StreamsGroup,
    before: Member,
    after: Member,
    delay: str | None,
    is_new_group: bool,
    now: int,
) -> Message:
    group_id = group.group_id
    status = _status(state, message, group, after, delay)
    response = StreamsGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=heartbeat_interval_ms(state, group_id),
        task_offset_interval_ms=task_offset_interval_ms(state, group_id),
        acceptable_recovery_lag=acceptable_recovery_lag(state, group_id),
        status=status,
    )
    has_others = before.assigned != after.assigned
    if request.member_epoch == JOIN_EPOCH or has_others or _says_all(request):
        response.active_tasks = _tasks(after.assigned.active)
        response.standby_tasks = _tasks(after.assigned.standby)
        response.warmup_tasks = _tasks(after.assigned.warmup)
    endpoint = after.metadata.user_endpoint
    if before.metadata.user_endpoint != endpoint or (has_others and endpoint is not None):
        group.endpoint_epoch += 1
    if group.endpoint_epoch != request.endpoint_information_epoch:
        response.partitions_by_user_endpoint = endpoints(group, after, state.image)
    if not is_new_group:
        response.endpoint_information_epoch = group.endpoint_epoch
    if message.version >= DESCRIPTION_VERSION and not any(s.status_code == Status.STALE_TOPOLOGY for s in status):
        response.topology_description_required = description.asks(group, now)
    configured = group.configured
    if configured is not None and configured.missing:
        return NeedsTopics(response, configured.missing)
    return response


def _says_all(request: StreamsGroupHeartbeatRequest) -> bool:
    """Returns whether the request has all fields, as a client sends it when a response may have been lost.

    Kafka 4.4 does not repeat the tasks then, and no member would process the lost ones until the next assignment. For
    consumer groups it does repeat the assignment (KIP-848).
    """
    return request.rebalance_timeout_ms != -1 and request.active_tasks is not None


def _tasks(tasks: Iterable[TaskId]) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=subtopology_id, partitions=partitions)
        for subtopology_id, partitions in by_subtopology(tasks).items()
    ]


def _status(
    state: ShardState, message: GroupRequest, group: StreamsGroup, member: Member, delay: str | None
) -> list[StatusTold]:
    reported = []
    topology_epoch = member.metadata.topology_epoch
    if group.topology is not None and topology_epoch < group.topology.epoch:
        words = (
            f"The member's topology epoch {topology_epoch} is behind the group's topology epoch {group.topology.epoch}."
        )
        reported.append((Status.STALE_TOPOLOGY, words))
    if delay is not None:
        reported.append((Status.ASSIGNMENT_DELAYED, delay))
    problem = group.configured.problem if group.configured is not None else None
    if problem is not None:
        reported.append((problem.status, str(problem)))
    if group.shutdown_asked_by is not None:
        words = (
            f"Streams group member {group.shutdown_asked_by} encountered a fatal error and requested a shutdown for the "
            "entire application."
        )
        reported.append((Status.SHUTDOWN_APPLICATION, words))
    missing = _missing_tags(state, group, member) if message.version >= CLIENT_TAGS_VERSION else []
    if missing:
        words = (
            f"Missing required client tags for rack-aware standby assignment: [{', '.join(missing)}]. Configure them via "
            "'client.tag.<tagKey>' in your Streams config."
        )
        reported.append((Status.MISSING_CLIENT_TAGS, words))
    return [StatusTold(status_code=status, status_detail=words) for status, words in reported]


def _missing_tags(state: ShardState, group: StreamsGroup, member: Member) -> list[str]:
    has = {tag.key for tag in member.metadata.client_tags}
    return [tag for tag in rack_aware_tags(state, group.group_id) if tag not in has]


Request = StreamsGroupHeartbeatRequest


@dataclass(frozen=True, slots=True)
class Understood:
    """A valid heartbeat."""

    group: StreamsGroup
    #: The member before this heartbeat; for a returning static member, the state that it takes over.
    member: Member
    replaced: Member | None
    metadata: StreamsGroupMemberMetadataValue
    topology: StreamsGroupTopologyValue
    configured: ConfiguredTopology
    metadata_hash: int
    owned: Tasks | None


def heartbeat(state: ShardState, message: GroupRequest, now: int) -> None:
    request = message.request
    assert isinstance(request, Request)
    validation_error = validate(request)
    response: Message | ValidationError
    if validation_error is not None:
        response = validation_error
    elif request.member_epoch < JOIN_EPOCH:
        response = _leave(state, request)
    else:
        understood = _understood(state, message, request)
        response = (
            understood if isinstance(understood, ValidationError) else _go_on(state, message, request, understood, now)
        )
    state.reply(message, error_response(response) if isinstance(response, ValidationError) else response)


def _leave(state: ShardState, request: Request) -> StreamsGroupHeartbeatResponse | ValidationError:
    group = state.find(StreamsGroup, request.group_id)
    if group is None:
        return no_group(state.groups, request.group_id, StreamsGroup.kind, "Group")
    if request.shutdown_application and group.shutdown_asked_by is None:
        group.shutdown_asked_by = request.member_id
    member = find_member(group, request)
    if isinstance(member, ValidationError):
        return member
    if request.instance_id is not None and request.member_epoch == LEAVE_STATIC_EPOCH:
        # The static member may return within its session. It then gets its tasks back.
        held = replace(member.assigned, active=dict.fromkeys(member.assigned.active, 0))
        write_current(
            state,
            group.group_id,
            replace(member, epoch=LEAVE_STATIC_EPOCH, assigned=held, revoking=NOTHING_HELD),
        )
    else:
        remove_from_group(state, group, member.member_id)
    return StreamsGroupHeartbeatResponse(member_id=member.member_id, member_epoch=request.member_epoch, status=[])


# Validation.


def _understood(state: ShardState, message: GroupRequest, request: Request) -> Understood | ValidationError:
    group = _group(state, request)
    if isinstance(group, ValidationError):
        return group
    owned = owned_tasks(request)
    replaced = _replaced(group, request)
    found = replaced if isinstance(replaced, ValidationError) else _member(group, request, replaced)
    if isinstance(found, ValidationError):
        return found
    assert not isinstance(replaced, ValidationError)
    validation_error = validate_epoch(found, request.member_epoch, owned) or validate_unknown_state(found, owned)
    if validation_error is not None:
        return validation_error
    topology = _topology(group, request)
    if isinstance(topology, ValidationError):
        return topology
    try:
        configured, digest = _configured(state, group, topology)
    except InvalidTopology as error:
        return invalid_topology(str(error))
    validation_error = validate_tasks(configured, owned)
    if validation_error is not None:
        return validation_error
    metadata = _updated(found.metadata, message, request)
    return Understood(group, found, replaced, metadata, topology, configured, digest, owned)


def _group(state: ShardState, request: Request) -> StreamsGroup | ValidationError:
    """Returns the group, or a new one if there is none or an empty classic group."""
    group_id = request.group_id
    group = state.find(StreamsGroup, group_id)
    is_joining = request.member_epoch == JOIN_EPOCH
    if group is None:
        is_free = group_id not in state.groups or state.find(ClassicGroup, group_id) is not None
        if not is_joining or not is_free or not state.may_replace(group_id):
            return no_group(state.groups, group_id, StreamsGroup.kind)
        return StreamsGroup(group_id)
    limit = state.config.streams.max_size
    is_known = request.instance_id in group.static_members or request.member_id in group.members
    if is_joining and not is_known and len(group.members) >= limit:
        return full(StreamsGroup.kind, limit)
    return group


def _replaced(group: StreamsGroup, request: Request) -> Member | ValidationError | None:
    """Returns the static member that this one replaces. It must have left with the epoch of a static member."""
    if request.instance_id is None or request.member_epoch != JOIN_EPOCH:
        return None
    known_id = group.static_members.get(request.instance_id)
    if known_id is None:
        return None
    known = group.members[known_id]
    return known if known.epoch == LEAVE_STATIC_EPOCH else unreleased(request, known_id)


def _member(group: StreamsGroup, request: Request, replaced: Member | None) -> Member | ValidationError:
    if replaced is not None:
        return replace(replaced, member_id=request.member_id, epoch=JOIN_EPOCH, previous_epoch=0)
    if request.member_epoch == JOIN_EPOCH:
        return group.members.get(request.member_id) or Member(request.member_id)
    return find_member(group, request)


def _topology(group: StreamsGroup, request: Request) -> StreamsGroupTopologyValue | ValidationError:
    """Returns the group's topology, which is that of its first member.

    A member may have an older topology. It gets the status STALE_TOPOLOGY, and no tasks of its own topology.
    """
    if request.topology is None:
        assert group.topology is not None, "a group begins with a topology"
        return group.topology
    said = as_record(request.topology)
    if group.topology is None:
        return said
    if group.topology.epoch > said.epoch or is_same(group.topology, said):
        return group.topology
    return other_topology()


def _configured(
    state: ShardState, group: StreamsGroup, topology: StreamsGroupTopologyValue
) -> tuple[ConfiguredTopology, int]:
    """Returns the configured topology and the metadata hash. Configures again if the topics may have changed.

    Raises InvalidTopology.
    """
    known = group.configured
    if known is not None and not group.is_outdated:
        return known, group.metadata.metadata_hash
    digest = metadata_hash(state.image, required_topics(topology))
    if known is not None and digest == group.metadata.metadata_hash:
        return known, digest
    return configure(topology, state.image), digest


def _updated(
    metadata: StreamsGroupMemberMetadataValue, message: GroupRequest, request: Request
) -> StreamsGroupMemberMetadataValue:
    """Returns the updated metadata. Omitted fields keep their values, except the endpoint of a joining member."""
    endpoint, tags, topology = request.user_endpoint, request.client_tags, request.topology
    new_endpoint = None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port)
    if endpoint is None and request.member_epoch != JOIN_EPOCH:
        new_endpoint = metadata.user_endpoint
    new_tags = metadata.client_tags
    if tags is not None:
        new_tags = [KeyValue(key=key, value=value) for key, value in sorted({t.key: t.value for t in tags}.items())]
    timeout_ms = request.rebalance_timeout_ms
    return StreamsGroupMemberMetadataValue(
        instance_id=request.instance_id if request.instance_id is not None else metadata.instance_id,
        rack_id=request.rack_id if request.rack_id is not None else metadata.rack_id,
        client_id=message.client_id,
        client_host=message.client_host,
        rebalance_timeout_ms=timeout_ms if timeout_ms != -1 else metadata.rebalance_timeout_ms,
        topology_epoch=topology.epoch if topology is not None else metadata.topology_epoch,
        process_id=request.process_id if request.process_id is not None else metadata.process_id,
        user_endpoint=new_endpoint,
        client_tags=new_tags,
    )


# Execution.


def _go_on(state: ShardState, message: GroupRequest, request: Request, said: Understood, now: int) -> Message:
    group, group_id, member_id = said.group, request.group_id, request.member_id
    is_new_group = state.find(StreamsGroup, group_id) is None
    was_empty = not group.members
    if is_new_group:
        state.replace(group_id)
        state.put(group)
    if said.replaced is not None:
        came_back = replace(said.replaced, epoch=JOIN_EPOCH, previous_epoch=0)
        replace_member(state, group, came_back, member_id)
    if member_id not in group.members or said.metadata != said.member.metadata:
        write_member(state, group_id, member_id, said.metadata)
    if group.topology is None:
        write_topology(state, group_id, said.topology)
    group.configured, group.is_outdated = said.configured, False
    _remember_offsets(group, request)
    _update_epoch(state, group, said)
    if was_empty:
        _delay_first(state, group, now)
    delay = update_target(state, group, now)
    after = _reconciled(state, group, group.members[member_id], said.owned, now)
    state.timers.set(group.session(member_id), now + session_timeout_ms(state, group_id))
    if request.shutdown_application and group.shutdown_asked_by is None:
        group.shutdown_asked_by = member_id
    response = respond(state, message, request, group, said.member, after, delay, is_new_group, now)
    if is_new_group:
        # Kafka's first response precedes the group's existence: state outside the records begins after it.
        group.endpoint_epoch, group.configured = 0, None
        group.task_offsets.clear()
        group.task_end_offsets.clear()
    return response


def _remember_offsets(group: StreamsGroup, request: Request) -> None:
    for reported, known in (
        (request.task_offsets, group.task_offsets),
        (request.task_end_offsets, group.task_end_offsets),
    ):
        if reported is not None:
            known[request.member_id] = {TaskId(one.subtopology_id, one.partition): one.offset for one in reported}


def _update_epoch(state: ShardState, group: StreamsGroup, said: Understood) -> None:
    """Increments the group epoch if members, topics, their readiness or the assignment configuration changed."""
    metadata = group.metadata
    validated = said.topology.epoch if said.configured.is_ready else NO_TOPOLOGY_EPOCH
    configs = assignment_configs(state, group.group_id)
    if (
        _needs_assignment(said.member.metadata, said.metadata)
        or said.metadata_hash != metadata.metadata_hash
        or validated != metadata.validated_topology_epoch
        or configs != group.assignment_configs
    ):
        write_metadata(state, group, metadata.epoch + 1, said.metadata_hash, validated, configs)
        state.counters.streams_rebalances += 1


def _needs_assignment(before: StreamsGroupMemberMetadataValue, after: StreamsGroupMemberMetadataValue) -> bool:
    """Returns whether a metadata change requires a new assignment.

    For a static member only the fields that affect the assignment count: it may return from another address.
    """
    if after.instance_id is None:
        return before != after
    return any(
        getattr(before, name) != getattr(after, name)
        for name in ("topology_epoch", "rack_id", "client_tags", "process_id")
    )


def _delay_first(state: ShardState, group: StreamsGroup, now: int) -> None:
    """Delays the first assignment, so that the members of a starting application are assigned together."""
    delay_ms = initial_rebalance_delay_ms(state, group.group_id)
    if delay_ms > 0 and not group.delay_timer.is_set:
        state.timers.set(group.delay_timer, now + delay_ms)


def _reconciled(state: ShardState, group: StreamsGroup, member: Member, owned: Tasks | None, now: int) -> Member:
    tasks = NO_TASKS if group.delay_timer.is_set else group.target_of(member.member_id)
    after = reconcile(member, Target(group.target_epoch, tasks), group.holders, owned)
    if after != member:
        write_current(state, group.group_id, after)
        if after.state is MemberState.UNREVOKED_TASKS:
            state.timers.set(group.revocation(after.member_id), now + after.metadata.rebalance_timeout_ms)
        else:
            group.revocation(after.member_id).cancel()
    return after
