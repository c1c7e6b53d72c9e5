"""ShareGroupHeartbeat 1: join, subscribe, leave.

The steps have Kafka's order: the member, the group epoch, the target assignment, the member's assignment, and last the
partitions that the persister must initialize. The response does not wait for the persister: a later heartbeat assigns
these partitions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ....protocol.internal.share_group_records import ShareGroupMemberMetadataValue
from ....protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from ...common.result import GroupRequest
from ..base import membership
from ..base.membership import ValidationError
from . import initializing, settings, validation, writing
from .group import ShareGroup
from .member import EMPTY_METADATA, JOIN_EPOCH, LEAVE_EPOCH, Member
from .requests import Followed
from .targets import remove_member, update_epoch, update_target

if TYPE_CHECKING:
    from ..base.state import ShardState

Answer = Followed[ShareGroupHeartbeatResponse]


def heartbeat(state: ShardState, message: GroupRequest, now: int) -> None:
    request = message.request
    assert isinstance(request, ShareGroupHeartbeatRequest)
    validation_error = validation.validate(request)
    if validation_error is None:
        leaves = request.member_epoch == LEAVE_EPOCH
        answer = _leave(state, request) if leaves else _beat(state, message, request, now)
    else:
        answer = validation_error
    state.reply(message, Followed(validation.response(answer), None) if isinstance(answer, ValidationError) else answer)


def _leave(state: ShardState, request: ShareGroupHeartbeatRequest) -> Answer | ValidationError:
    group = state.find(ShareGroup, request.group_id)
    if group is None:
        return membership.no_group(state.groups, request.group_id, ShareGroup.kind, "Group")
    if request.member_id not in group.members:
        return membership.unknown_member(group.group_id, request.member_id)
    remove_member(state, group, request.member_id)
    response = ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    return Followed(response, None)


def _beat(
    state: ShardState, message: GroupRequest, request: ShareGroupHeartbeatRequest, now: int
) -> Answer | ValidationError:
    group_id, member_id, is_joining = request.group_id, request.member_id, request.member_epoch == JOIN_EPOCH
    group = state.find(ShareGroup, group_id)
    if group is None:
        if not is_joining or group_id in state.groups:
            return membership.no_group(state.groups, group_id, ShareGroup.kind)
        group = ShareGroup(group_id)
    limit = state.config.share_max_size
    if len(group.members) >= limit and member_id not in group.members:
        return membership.full(ShareGroup.kind, limit)
    member = group.members.get(member_id)
    if member is None:
        if not is_joining:
            return membership.unknown_member(group_id, member_id)
        member = Member(member_id, EMPTY_METADATA)
    validation_error = validation.validate_epoch(member, request.member_epoch)
    return _go_on(state, group, member, message, request, now) if validation_error is None else validation_error


def _go_on(
    state: ShardState,
    group: ShareGroup,
    member: Member,
    message: GroupRequest,
    request: ShareGroupHeartbeatRequest,
    now: int,
) -> Answer:
    group_id, member_id = group.group_id, member.member_id
    names = request.subscribed_topic_names
    metadata = ShareGroupMemberMetadataValue(
        rack_id=request.rack_id if request.rack_id is not None else member.metadata.rack_id,
        client_id=message.client_id,
        client_host=message.client_host,
        subscribed_topic_names=sorted(set(names)) if names is not None else member.metadata.subscribed_topic_names,
    )
    if metadata != member.metadata:
        writing.write_member(state, group_id, member_id, metadata)
        group = state.find(ShareGroup, group_id) or group
    is_new_epoch = metadata.subscribed_topic_names != member.metadata.subscribed_topic_names
    is_new_epoch = update_epoch(state, group, is_new_epoch)
    update_target(state, group, now)
    after = _at_target(state, group, group.members[member_id], is_new_epoch)
    state.timers.set(group.session(member_id), now + settings.session_timeout_ms(state, group_id))
    response = ShareGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=settings.heartbeat_interval_ms(state, group_id),
    )
    if request.member_epoch == JOIN_EPOCH or names is not None or after.assigned != member.assigned:
        response.assignment = Assignment(
            topic_partitions=[TopicPartitions(topic_id=t, partitions=sorted(p)) for t, p in after.assigned.items()]
        )
    return Followed(response, initializing.begin(state, group, now))


def _at_target(state: ShardState, group: ShareGroup, member: Member, is_new_epoch: bool) -> Member:
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
        writing.write_current(state, group.group_id, after)
    return after
