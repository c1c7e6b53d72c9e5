"""StreamsGroupHeartbeat 0-1: join with a topology, own tasks, leave.

First `_understood` validates the request in Kafka's order, without any change. Then the records are written: the
member, the topology, the group epoch, the target, the member's part of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ....protocol.internal.streams_group_records import (
    ClientTag,
    StreamsGroupMemberMetadataValue,
    StreamsGroupTopologyValue,
    StreamsMemberEndpoint,
)
from ....protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from ....protocol.schema import Message
from ...rejection import Rejection
from ...result import GroupRequest
from ..classic.group import ClassicGroup
from ..consumer.topics import metadata_hash
from ..member_checks import find_member, full, no_group, too_large, unreleased
from ..member_epochs import JOIN_EPOCH, LEAVE_STATIC_EPOCH
from .configured import ConfiguredTopology, configure
from .group import NO_TOPOLOGY_EPOCH, StreamsGroup
from .member import StreamsMember, StreamsMemberState
from .partition_counts import InvalidTopology
from .reconciliation import StreamsTarget, reconcile
from .response import respond
from .settings import assignment_configs, initial_rebalance_delay_ms, session_timeout_ms
from .targets import remove_from_group, update_target
from .tasks import NO_TASKS, NOTHING_HELD, TaskId, Tasks
from .topology import as_record, is_same, required_topics
from .validation import (
    heartbeat_error,
    invalid_topology,
    other_topology,
    owned_tasks,
    validate,
    validate_epoch,
    validate_tasks,
    validate_unknown_state,
)
from .writing import replace_member, write_current, write_member, write_metadata, write_topology

if TYPE_CHECKING:
    from ..shard_state import ShardState

Request = StreamsGroupHeartbeatRequest


@dataclass(frozen=True, slots=True)
class Understood:
    """A valid heartbeat."""

    group: StreamsGroup
    #: The member before this heartbeat; for a returning static member, the state that it takes over.
    member: StreamsMember
    replaced: StreamsMember | None
    metadata: StreamsGroupMemberMetadataValue
    topology: StreamsGroupTopologyValue
    configured: ConfiguredTopology
    metadata_hash: int
    owned: Tasks | None


def heartbeat(state: ShardState, message: GroupRequest, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, Request)
    validation_error = validate(request)
    response: Message | Rejection
    if validation_error is not None:
        response = validation_error
    elif request.member_epoch < JOIN_EPOCH:
        response = _leave(state, request)
    else:
        understood = _understood(state, message, request)
        response = (
            understood if isinstance(understood, Rejection) else _advance(state, message, request, understood, now_ms)
        )
    state.reply(message, heartbeat_error(response) if isinstance(response, Rejection) else response)


def _leave(state: ShardState, request: Request) -> StreamsGroupHeartbeatResponse | Rejection:
    group = state.find(StreamsGroup, request.group_id)
    if group is None:
        return no_group(state.groups, request.group_id, StreamsGroup.kind, "Group")
    if request.shutdown_application and group.shutdown_asked_by is None:
        group.shutdown_asked_by = request.member_id
    member = find_member(group, request)
    if isinstance(member, Rejection):
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


def _understood(state: ShardState, message: GroupRequest, request: Request) -> Understood | Rejection:
    group = _group(state, request)
    if isinstance(group, Rejection):
        return group
    owned = owned_tasks(request)
    replaced = _replaced(group, request)
    found = replaced if isinstance(replaced, Rejection) else _member(group, request, replaced)
    if isinstance(found, Rejection):
        return found
    assert not isinstance(replaced, Rejection)
    validation_error = validate_epoch(found, request.member_epoch, owned) or validate_unknown_state(found, owned)
    if validation_error is not None:
        return validation_error
    topology = _topology(group, request)
    if isinstance(topology, Rejection):
        return topology
    try:
        configured, digest = _configured(state, group, topology)
    except InvalidTopology as error:
        return invalid_topology(str(error))
    validation_error = validate_tasks(configured, owned)
    if validation_error is not None:
        return validation_error
    metadata = _updated(found.metadata, message, request)
    validation_error = _validate_sizes(state, group, found, metadata, topology)
    if validation_error is not None:
        return validation_error
    return Understood(group, found, replaced, metadata, topology, configured, digest, owned)


def _validate_sizes(
    state: ShardState,
    group: StreamsGroup,
    member: StreamsMember,
    metadata: StreamsGroupMemberMetadataValue,
    topology: StreamsGroupTopologyValue,
) -> Rejection | None:
    """Checks that the records that clients decide can be stored."""
    limit = state.config.max_record_bytes
    is_same = metadata == member.metadata and member.member_id in group.members
    if not is_same and not state.can_store(metadata, group.group_id, member.member_id):
        return too_large("member's metadata", limit)
    if group.topology is None and not state.can_store(topology, group.group_id):
        return too_large("topology", limit)
    return None


def _group(state: ShardState, request: Request) -> StreamsGroup | Rejection:
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


def _replaced(group: StreamsGroup, request: Request) -> StreamsMember | Rejection | None:
    """Returns the static member that this one replaces. It must have left with the epoch of a static member."""
    if request.instance_id is None or request.member_epoch != JOIN_EPOCH:
        return None
    known_id = group.static_members.get(request.instance_id)
    if known_id is None:
        return None
    known = group.members[known_id]
    return known if known.epoch == LEAVE_STATIC_EPOCH else unreleased(request, known_id)


def _member(group: StreamsGroup, request: Request, replaced: StreamsMember | None) -> StreamsMember | Rejection:
    if replaced is not None:
        return replace(replaced, member_id=request.member_id, epoch=JOIN_EPOCH, previous_epoch=0)
    if request.member_epoch == JOIN_EPOCH:
        return group.members.get(request.member_id) or StreamsMember(request.member_id)
    return find_member(group, request)


def _topology(group: StreamsGroup, request: Request) -> StreamsGroupTopologyValue | Rejection:
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
    new_endpoint = None if endpoint is None else StreamsMemberEndpoint(host=endpoint.host, port=endpoint.port)
    if endpoint is None and request.member_epoch != JOIN_EPOCH:
        new_endpoint = metadata.user_endpoint
    new_tags = metadata.client_tags
    if tags is not None:
        new_tags = [ClientTag(key=key, value=value) for key, value in sorted({t.key: t.value for t in tags}.items())]
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


def _advance(state: ShardState, message: GroupRequest, request: Request, said: Understood, now_ms: int) -> Message:
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
    _remember_offsets(group, request, said.configured)
    _update_epoch(state, group, said)
    if was_empty:
        _delay_first(state, group, now_ms)
    delay = update_target(state, group, now_ms)
    after = _reconciled(state, group, group.members[member_id], said.owned, now_ms)
    state.timers.set(group.session(member_id), now_ms + session_timeout_ms(state, group_id))
    if request.shutdown_application and group.shutdown_asked_by is None:
        group.shutdown_asked_by = member_id
    response = respond(state, message, request, group, said.member, after, delay, is_new_group, now_ms)
    if is_new_group:
        # Kafka's first response precedes the group's existence: state outside the records begins after it.
        group.endpoint_epoch, group.configured = 0, None
        group.task_offsets.clear()
        group.task_end_offsets.clear()
    return response


def _remember_offsets(group: StreamsGroup, request: Request, configured: ConfiguredTopology) -> None:
    """Keeps those of tasks that exist: a client decides how many it reports, and each stays in memory."""
    counts = {name: one.task_count for name, one in configured.subtopologies.items()}
    for reported, known in (
        (request.task_offsets, group.task_offsets),
        (request.task_end_offsets, group.task_end_offsets),
    ):
        if reported is not None:
            known[request.member_id] = {
                TaskId(one.subtopology_id, one.partition): one.offset
                for one in reported
                if 0 <= one.partition < counts.get(one.subtopology_id, 0)
            }


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


def _delay_first(state: ShardState, group: StreamsGroup, now_ms: int) -> None:
    """Delays the first assignment, so that the members of a starting application are assigned together."""
    delay_ms = initial_rebalance_delay_ms(state, group.group_id)
    if delay_ms > 0 and not group.delay_timer.is_set:
        state.timers.set(group.delay_timer, now_ms + delay_ms)


def _reconciled(
    state: ShardState, group: StreamsGroup, member: StreamsMember, owned: Tasks | None, now_ms: int
) -> StreamsMember:
    tasks = NO_TASKS if group.delay_timer.is_set else group.target_of(member.member_id)
    after = reconcile(member, StreamsTarget(group.target_epoch, tasks), group.holders, owned)
    if after != member:
        write_current(state, group.group_id, after)
        if after.state is StreamsMemberState.UNREVOKED_TASKS:
            state.timers.set(group.revocation(after.member_id), now_ms + after.metadata.rebalance_timeout_ms)
        else:
            group.revocation(after.member_id).cancel()
    return after
