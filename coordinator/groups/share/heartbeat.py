"""ShareGroupHeartbeat 1: join, subscribe, leave."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ....protocol.internal.share_group_records import ShareGroupMemberMetadataValue
from ....protocol.messages.assignments import Assignment as AssignmentResponse
from ....protocol.messages.assignments import TopicPartitions
from ....protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ...rejection import Rejection
from ...result import GroupRequest
from ..member_checks import full, no_group, too_large, unknown_member
from ..member_epochs import JOIN_EPOCH, LEAVE_EPOCH
from .group import ShareGroup
from .initialization import begin
from .member import EMPTY_METADATA, ShareMember
from .persister_requests import Followed
from .settings import heartbeat_interval_ms, session_timeout_ms
from .targets import remove_member, update_epoch, update_target
from .validation import heartbeat_error, validate, validate_epoch
from .writing import write_current, write_member

if TYPE_CHECKING:
    from ..shard_state import ShardState

Response = Followed[ShareGroupHeartbeatResponse]


def heartbeat(state: ShardState, message: GroupRequest, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, ShareGroupHeartbeatRequest)
    validation_error = validate(request)
    if validation_error is None:
        leaves = request.member_epoch == LEAVE_EPOCH
        response = _leave(state, request) if leaves else _beat(state, message, request, now_ms)
    else:
        response = validation_error
    state.reply(message, Followed(heartbeat_error(response), None) if isinstance(response, Rejection) else response)


def _leave(state: ShardState, request: ShareGroupHeartbeatRequest) -> Response | Rejection:
    group = state.find(ShareGroup, request.group_id)
    if group is None:
        return no_group(state.groups, request.group_id, ShareGroup.kind, "Group")
    if request.member_id not in group.members:
        return unknown_member(group.group_id, request.member_id)
    remove_member(state, group, request.member_id)
    response = ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    return Followed(response, None)


def _beat(
    state: ShardState, message: GroupRequest, request: ShareGroupHeartbeatRequest, now_ms: int
) -> Response | Rejection:
    group_id, member_id, is_joining = request.group_id, request.member_id, request.member_epoch == JOIN_EPOCH
    group = state.find(ShareGroup, group_id)
    if group is None:
        if not is_joining or group_id in state.groups:
            return no_group(state.groups, group_id, ShareGroup.kind)
        group = ShareGroup(group_id)
    limit = state.config.share_max_size
    if len(group.members) >= limit and member_id not in group.members:
        return full(ShareGroup.kind, limit)
    member = group.members.get(member_id)
    if member is None:
        if not is_joining:
            return unknown_member(group_id, member_id)
        member = ShareMember(member_id, EMPTY_METADATA)
    validation_error = validate_epoch(member, request.member_epoch)
    return _advance(state, group, member, message, request, now_ms) if validation_error is None else validation_error


def _advance(
    state: ShardState,
    group: ShareGroup,
    member: ShareMember,
    message: GroupRequest,
    request: ShareGroupHeartbeatRequest,
    now_ms: int,
) -> Response | Rejection:
    group_id, member_id = group.group_id, member.member_id
    names = request.subscribed_topic_names
    metadata = ShareGroupMemberMetadataValue(
        rack_id=request.rack_id if request.rack_id is not None else member.metadata.rack_id,
        client_id=message.client_id,
        client_host=message.client_host,
        subscribed_topic_names=sorted(set(names)) if names is not None else member.metadata.subscribed_topic_names,
    )
    if metadata != member.metadata:
        if not state.can_store(metadata, group_id, member_id):
            return too_large("member's metadata", state.config.max_record_bytes)
        write_member(state, group_id, member_id, metadata)
        group = state.find(ShareGroup, group_id) or group
    is_new_epoch = metadata.subscribed_topic_names != member.metadata.subscribed_topic_names
    is_new_epoch = update_epoch(state, group, is_new_epoch)
    update_target(state, group, now_ms)
    after = _at_target(state, group, group.members[member_id], is_new_epoch)
    state.timers.set(group.session(member_id), now_ms + session_timeout_ms(state, group_id))
    response = ShareGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=heartbeat_interval_ms(state, group_id),
    )
    if request.member_epoch == JOIN_EPOCH or names is not None or after.assigned != member.assigned:
        response.assignment = AssignmentResponse(
            topic_partitions=[TopicPartitions(topic_id=t, partitions=sorted(p)) for t, p in after.assigned.items()]
        )
    return Followed(response, begin(state, group, now_ms))


def _at_target(state: ShardState, group: ShareGroup, member: ShareMember, is_new_epoch: bool) -> ShareMember:
    """Returns the member with its part of the target, without topics that it does not subscribe to."""
    if member.epoch == group.target_epoch and not is_new_epoch:
        return member
    names = member.metadata.subscribed_topic_names
    subscribed = {topic.id for name in names if (topic := state.image.topic(name)) is not None}
    target = group.targets.get(member.member_id, {})
    after = replace(member, assigned={t: p for t, p in target.items() if t in subscribed})
    if member.epoch != group.target_epoch:
        after = replace(after, epoch=group.target_epoch, previous_epoch=member.epoch)
    if after != member:
        write_current(state, group.group_id, after)
    return after
