"""ConsumerGroupHeartbeat 0-1: join, subscribe, own, leave.

The steps have Kafka's order: the member, its subscription, the group epoch, the target, the member's part of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ....protocol.internal.consumer_group_records import ConsumerGroupMemberMetadataValue
from ....protocol.messages.assignments import Assignment, TopicPartitions
from ....protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ...patterns import InvalidRegularExpression, compiled
from ...rejection import Rejection
from ...result import GroupRequest
from ..classic.group import ClassicGroup
from ..member_checks import find_member, full, no_group, too_large, unreleased
from ..member_epochs import JOIN_EPOCH, LEAVE_STATIC_EPOCH
from ..shard_state import ShardState
from . import migration
from .group import ConsumerGroup
from .member import EMPTY_METADATA, ConsumerMember, Owned, Partitions, as_partitions, generated_member_id
from .reconciliation import reconcile_member
from .regexes import Describable, RegexChange, check_new_regex, resolve_regexes, update_regex
from .settings import heartbeat_interval_ms, session_timeout_ms
from .targets import update_epoch, update_target
from .validation import heartbeat_error, in_unknown_state, invalid_regex, validate, validate_epoch
from .writing import replace_member, write_current, write_member


@dataclass(frozen=True, slots=True)
class _Beat:
    """A valid heartbeat of a member that stays. `owned` is None if the request does not say what the member owns."""

    group: ConsumerGroup
    #: The member before this heartbeat; for a returning static member, the state that it takes over.
    member: ConsumerMember
    #: The id of the member, which a returning static member has changed.
    member_id: str
    request: ConsumerGroupHeartbeatRequest
    metadata: ConsumerGroupMemberMetadataValue
    owned: Partitions | None
    #: See GroupRequest.
    describable: Describable | None


def heartbeat(state: ShardState, message: GroupRequest, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    validation_error = validate(request, message.version)
    if validation_error is None:
        is_leaving = request.member_epoch < JOIN_EPOCH
        response = _leave(state, request, now_ms) if is_leaving else _stay(state, message, request, now_ms)
    else:
        response = validation_error
    state.reply(message, heartbeat_error(response) if isinstance(response, Rejection) else response)


def _leave(
    state: ShardState, request: ConsumerGroupHeartbeatRequest, now_ms: int
) -> ConsumerGroupHeartbeatResponse | Rejection:
    group = state.find(ConsumerGroup, request.group_id)
    if group is None:
        return no_group(state.groups, request.group_id, ConsumerGroup.kind, "Group")
    member = find_member(group, request)
    if isinstance(member, Rejection):
        return member
    if request.member_epoch == LEAVE_STATIC_EPOCH:
        # The static member may return within its session. It then gets its partitions back, whatever their epoch.
        kept = {topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.assigned.items()}
        left = replace(member, epoch=LEAVE_STATIC_EPOCH, assigned=kept, revoking={})
        write_current(state, group.group_id, left)
    else:
        migration.remove_or_downgrade(state, group, [member.member_id], now_ms)
    return ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=request.member_epoch)


def _stay(
    state: ShardState, message: GroupRequest, request: ConsumerGroupHeartbeatRequest, now_ms: int
) -> ConsumerGroupHeartbeatResponse | Rejection:
    group = state.find(ConsumerGroup, request.group_id)
    if group is None:
        found = _new_group(state, message, request, now_ms)
        if isinstance(found, Rejection):
            return found
        group = found
    member_id = request.member_id or generated_member_id(message.member_uuid)
    limit = state.config.consumer_max_size
    is_new = member_id not in group.members and request.instance_id not in group.static_members
    if is_new and request.member_epoch == JOIN_EPOCH and len(group.members) >= limit:
        return full(ConsumerGroup.kind, limit)
    owned = as_partitions(request.topic_partitions) if request.topic_partitions is not None else None
    if request.member_epoch == JOIN_EPOCH:
        member = _joining_member(state, group, request, member_id)
    else:
        member = find_member(group, request)
        if isinstance(member, ConsumerMember):
            validation_error = validate_epoch(member, request.member_epoch, owned)
            member = member if validation_error is None else validation_error
    if isinstance(member, Rejection):
        return member
    metadata = _updated(member.metadata, message, request)
    try:
        check_new_regex(group, member, metadata)
    except InvalidRegularExpression as error:
        return invalid_regex(metadata.subscribed_topic_regex or "", error)
    is_same = metadata == member.metadata and member_id in group.members
    validation_error = None if is_same else _validate_size(state, request, metadata)
    if validation_error is not None:
        return validation_error
    return _advance(state, _Beat(group, member, member_id, request, metadata, owned, message.describable), now_ms)


def _new_group(
    state: ShardState, message: GroupRequest, request: ConsumerGroupHeartbeatRequest, now_ms: int
) -> ConsumerGroup | Rejection:
    """Returns the group for the first member of the new protocol: a new one, or an upgraded classic group."""
    if request.member_epoch != JOIN_EPOCH:
        return no_group(state.groups, request.group_id, ConsumerGroup.kind)
    classic = state.find(ClassicGroup, request.group_id)
    if state.may_replace(request.group_id) or classic is None:
        if classic is None and request.group_id in state.groups:
            return no_group(state.groups, request.group_id, ConsumerGroup.kind)
        return ConsumerGroup(request.group_id)
    validation_error = migration.validate_upgrade(state, classic) or _validate_before_upgrade(
        state, classic, message, request
    )
    return migration.upgrade(state, classic, now_ms) if validation_error is None else validation_error


def _validate_before_upgrade(
    state: ShardState, classic: ClassicGroup, message: GroupRequest, request: ConsumerGroupHeartbeatRequest
) -> Rejection | None:
    """Runs the remaining checks before an upgrade, since a request that fails must not change anything."""
    is_known = request.instance_id in classic.static_members or request.member_id in classic.members
    if not is_known and len(classic.members) >= state.config.consumer_max_size:
        return full(ConsumerGroup.kind, state.config.consumer_max_size)
    try:
        compiled(request.subscribed_topic_regex or "")
    except InvalidRegularExpression as error:
        return invalid_regex(request.subscribed_topic_regex or "", error)
    member = classic.members.get(classic.static_members.get(request.instance_id or "", request.member_id))
    known = EMPTY_METADATA if member is None else migration.upgraded_metadata(classic, member)
    return _validate_size(state, request, _updated(known, message, request))


def _validate_size(
    state: ShardState, request: ConsumerGroupHeartbeatRequest, metadata: ConsumerGroupMemberMetadataValue
) -> Rejection | None:
    if state.can_store(metadata, request.group_id, request.member_id):
        return None
    return too_large("member's metadata", state.config.max_record_bytes)


def _joining_member(
    state: ShardState, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, member_id: str
) -> ConsumerMember | Rejection:
    """Returns the joining member: a new one, or the known one that rejoins.

    A static member takes over the state that it left under another member id.
    """
    known_id = group.static_members.get(request.instance_id) if request.instance_id is not None else member_id
    known = group.members.get(known_id) if known_id is not None else None
    if known is None or known_id is None:
        return ConsumerMember(member_id, EMPTY_METADATA)
    if request.instance_id is None:
        return known
    if known.epoch != LEAVE_STATIC_EPOCH and not known.is_classic:
        return unreleased(request, known_id)
    return known


def _advance(state: ShardState, beat: _Beat, now_ms: int) -> ConsumerGroupHeartbeatResponse | Rejection:
    group, group_id, member, request, metadata = (
        beat.group,
        beat.group.group_id,
        beat.member,
        beat.request,
        beat.metadata,
    )
    if state.groups.get(group_id) is not group:
        state.replace(group_id)
        state.put(group)
    if request.instance_id is not None and request.member_epoch == JOIN_EPOCH and member.member_id in group.members:
        member = replace_member(state, group, member, beat.member_id)
    subscription_changed, is_changed = _write_subscription(state, group, member, metadata)
    update_epoch(state, group, is_changed or group.was_rebalancing)
    group.was_rebalancing = False
    update_target(state, group, now_ms)
    after = reconcile_member(state, group, group.members[member.member_id], beat.owned, subscription_changed, now_ms)
    if after is None:
        return in_unknown_state()
    state.timers.set(group.session(member.member_id), now_ms + session_timeout_ms(state, group_id))
    resolve_regexes(state, group, now_ms, beat.describable)
    return _response(state, group_id, request, member.assigned, after)


def _write_subscription(
    state: ShardState, group: ConsumerGroup, member: ConsumerMember, metadata: ConsumerGroupMemberMetadataValue
) -> tuple[bool, bool]:
    """Writes the member if it changed. Returns whether its subscription changed, and whether the group needs a new
    assignment for it.
    """
    # Counting votes iterates over all members.
    may_vote_anew = metadata.server_assignor != member.metadata.server_assignor
    assignor = group.assignor(state.config.consumer_assignors) if may_vote_anew else ""
    if member.member_id not in group.members or metadata != member.metadata:
        write_member(state, group.group_id, member.member_id, metadata)
    names_changed = metadata.subscribed_topic_names != member.metadata.subscribed_topic_names
    regex_change = update_regex(state, group, member.metadata, metadata.subscribed_topic_regex)
    assignor_changed = may_vote_anew and group.assignor(state.config.consumer_assignors) != assignor
    is_changed = names_changed or regex_change is RegexChange.RESOLVED or assignor_changed
    return names_changed or regex_change is not RegexChange.NONE, is_changed


def _updated(
    metadata: ConsumerGroupMemberMetadataValue, message: GroupRequest, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupMemberMetadataValue:
    """Returns the updated metadata. Fields that the request omits keep their values."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return ConsumerGroupMemberMetadataValue(
        instance_id=request.instance_id if request.instance_id is not None else metadata.instance_id,
        rack_id=request.rack_id if request.rack_id is not None else metadata.rack_id,
        client_id=message.client_id,
        client_host=message.client_host,
        subscribed_topic_names=sorted(set(names)) if names is not None else metadata.subscribed_topic_names,
        subscribed_topic_regex=regex if regex is not None else metadata.subscribed_topic_regex,
        rebalance_timeout_ms=timeout_ms if timeout_ms != -1 else metadata.rebalance_timeout_ms,
        server_assignor=request.server_assignor if request.server_assignor is not None else metadata.server_assignor,
        classic_member_metadata=None,
    )


def _response(
    state: ShardState, group_id: str, request: ConsumerGroupHeartbeatRequest, had: Owned, after: ConsumerMember
) -> ConsumerGroupHeartbeatResponse:
    """Returns the response. It has the assignment after a join, a full request (as after an error), or a change."""
    says_subscription = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    is_full = request.rebalance_timeout_ms != -1 and says_subscription and request.topic_partitions is not None
    response = ConsumerGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=heartbeat_interval_ms(state, group_id),
    )
    if request.member_epoch == JOIN_EPOCH or is_full or had != after.assigned:
        response.assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=sorted(epochs))
                for topic_id, epochs in after.assigned.items()
                if epochs
            ]
        )
    return response
