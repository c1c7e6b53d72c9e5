"""Classic-protocol members of a consumer group (KIP-848): JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

The coordinator assigns partitions to them as to all others. It announces a new epoch to them as a rebalance: they
rejoin with the partitions that they own, and get their part of the target with SyncGroup. The generation is their
member epoch. So they pause as long as with the cooperative protocol, and the other members do not pause.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ....protocol.behaviour_versions import JOIN_GROUP_WITH_MEMBER_ID
from ....protocol.errors import ErrorCode
from ....protocol.internal.consumer_group_records import ConsumerGroupMemberMetadataValue
from ....protocol.internal.consumer_protocol import ConsumerProtocolSubscription
from ....protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ....protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ....protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from ....protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ...result import GroupRequest
from ..classic.rebalance import prepare
from ..classic.rebalance_errors import join_error, sync_error
from ..classic.subscriptions import CONSUMER_PROTOCOL_TYPE
from .consumer_protocol import MalformedEmbedded, by_id, read_subscription, version_of, write_assignment
from .group import ConsumerGroup
from .member import EMPTY_METADATA, ConsumerMember, ConsumerMemberState, generated_member_id
from .migration import classic_metadata, downgrade, has_targets, may_downgrade, remove_or_downgrade
from .reconciliation import reconcile_member
from .regexes import RegexChange, update_regex
from .targets import update_epoch, update_target
from .writing import replace_member, write_member

if TYPE_CHECKING:
    from ..shard_state import ShardState


def join_consumer_group(state: ShardState, group: ConsumerGroup, message: GroupRequest, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, JoinGroupRequest)
    member_id = request.member_id or generated_member_id(message.member_uuid)
    error = _validate_join(state, group, request, member_id)
    if error is not ErrorCode.NONE:
        state.reply(message, join_error(error))
        return
    if not request.member_id and request.group_instance_id is None and message.version in JOIN_GROUP_WITH_MEMBER_ID:
        state.reply(message, join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        return
    error = _validate_member(group, request)
    if error is not ErrorCode.NONE:
        state.reply(message, join_error(error))
        return
    response = _join(state, group, message, request, member_id, now_ms)
    state.reply(message, response)


def _validate_join(state: ShardState, group: ConsumerGroup, request: JoinGroupRequest, member_id: str) -> ErrorCode:
    if state.config.consumer_migration_policy == "disabled":
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    instance_id = request.group_instance_id
    static_id = None if instance_id is None else group.static_members.get(instance_id)
    is_known = static_id is not None or member_id in group.members
    if not is_known and len(group.members) >= state.config.consumer_max_size:
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if not _supports(group, request):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _validate_member(group: ConsumerGroup, request: JoinGroupRequest) -> ErrorCode:
    """Returns the error of a member that has its id. Kafka, too, decodes the subscription only then."""
    instance_id = request.group_instance_id
    if instance_id is not None and request.member_id:
        static_id = group.static_members.get(instance_id)
        if static_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if static_id != request.member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    try:
        read_subscription(request.protocols[0].metadata)
    except MalformedEmbedded:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _supports(group: ConsumerGroup, request: JoinGroupRequest) -> bool:
    """Returns whether every classic member supports one of the request's protocols."""
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return False
    spoken = [
        {protocol.name for protocol in classic.supported_protocols}
        for member in group.members.values()
        if (classic := member.metadata.classic_member_metadata) is not None
    ]
    return any(all(protocol.name in names for names in spoken) for protocol in request.protocols)


def _join(
    state: ShardState,
    group: ConsumerGroup,
    message: GroupRequest,
    request: JoinGroupRequest,
    member_id: str,
    now_ms: int,
) -> JoinGroupResponse:
    subscription = read_subscription(request.protocols[0].metadata)
    before = group.members.get(group.static_members.get(request.group_instance_id or "") or member_id)
    known = EMPTY_METADATA if before is None else before.metadata
    metadata = _updated(known, message, request, subscription)
    is_same = metadata == known and member_id in group.members
    if not is_same and not state.can_store(metadata, group.group_id, member_id):
        return join_error(ErrorCode.UNKNOWN_SERVER_ERROR)
    is_replaced = before is not None and request.group_instance_id is not None and not request.member_id
    if before is not None and is_replaced:
        member = replace_member(state, group, before, member_id)
    else:
        member = before or ConsumerMember(member_id, EMPTY_METADATA)
    if member.member_id not in group.members or metadata != member.metadata:
        write_member(state, group.group_id, member_id, metadata)
    is_changed = metadata.subscribed_topic_names != member.metadata.subscribed_topic_names
    is_changed |= update_regex(state, group, member.metadata, metadata.subscribed_topic_regex) is not RegexChange.NONE
    update_epoch(state, group, is_changed)
    # The last member with the new protocol rejoins as a classic member.
    was_last = request.group_instance_id is not None and before is not None and not before.is_classic
    if was_last and may_downgrade(state, group, ()):
        return _joined_downgraded(state, group, message, member_id, now_ms)
    update_target(state, group, now_ms)
    owned = by_id(state.image, subscription.owned_partitions)
    after = reconcile_member(state, group, group.members[member_id], owned, is_changed, now_ms)
    if after is None:
        return join_error(ErrorCode.FENCED_MEMBER_EPOCH)
    group.timer("consumer join", member_id).cancel()
    state.timers.set(group.session(member_id), now_ms + request.session_timeout_ms)
    state.timers.set(group.timer("consumer sync", member_id), now_ms + after.metadata.rebalance_timeout_ms)
    return _joined(after)


def _joined_downgraded(
    state: ShardState, group: ConsumerGroup, message: GroupRequest, member_id: str, now_ms: int
) -> JoinGroupResponse:
    after = group.members[member_id]
    if group.target_epoch == group.epoch:
        after = reconcile_member(state, group, after, None, False, now_ms) or after
    response = _joined(after)
    is_done = has_targets(group)
    classic = downgrade(state, group, (), now_ms)
    if not is_done:
        prepare(state, classic, now_ms, "not every member has its target assignment")
    return response


def _joined(member: ConsumerMember) -> JoinGroupResponse:
    classic = member.metadata.classic_member_metadata
    assert classic is not None, "the member has just joined as a classic member"
    return JoinGroupResponse(
        member_id=member.member_id,
        generation_id=member.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=classic.supported_protocols[0].name,
    )


def _updated(
    metadata: ConsumerGroupMemberMetadataValue,
    message: GroupRequest,
    request: JoinGroupRequest,
    subscription: ConsumerProtocolSubscription,
) -> ConsumerGroupMemberMetadataValue:
    protocols = [(protocol.name, protocol.metadata) for protocol in request.protocols]
    timeout_ms = request.rebalance_timeout_ms if request.rebalance_timeout_ms != -1 else request.session_timeout_ms
    return replace(
        metadata,
        instance_id=request.group_instance_id or metadata.instance_id,
        rack_id=subscription.rack_id or metadata.rack_id,
        rebalance_timeout_ms=timeout_ms,
        subscribed_topic_names=sorted(set(subscription.topics)),
        subscribed_topic_regex="",
        client_id=message.client_id,
        client_host=message.client_host,
        classic_member_metadata=classic_metadata(request.session_timeout_ms, protocols),
    )


def sync(state: ShardState, group: ConsumerGroup, message: GroupRequest, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, SyncGroupRequest)
    member = _classic_member(group, request)
    error = member if isinstance(member, ErrorCode) else _validate_sync(member, request)
    if error is ErrorCode.NONE and isinstance(member, ConsumerMember) and _must_rejoin(group, member):
        _await_join(state, group, member, now_ms)
        error = ErrorCode.REBALANCE_IN_PROGRESS
    if error is not ErrorCode.NONE or isinstance(member, ErrorCode):
        state.reply(message, sync_error(error))
        return
    classic = member.metadata.classic_member_metadata
    assert classic is not None
    group.timer("consumer sync", member.member_id).cancel()
    state.timers.set(group.session(member.member_id), now_ms + classic.session_timeout_ms)
    assigned = {topic_id: frozenset(epochs) for topic_id, epochs in member.assigned.items()}
    version = version_of(classic.supported_protocols[0].metadata)
    state.reply(
        message,
        SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(state.image, assigned, version),
        ),
    )


def _validate_sync(member: ConsumerMember, request: SyncGroupRequest) -> ErrorCode:
    classic = member.metadata.classic_member_metadata
    assert classic is not None
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name not in (None, classic.supported_protocols[0].name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _must_rejoin(group: ConsumerGroup, member: ConsumerMember) -> bool:
    return group.target_epoch > member.epoch and member.state is not ConsumerMemberState.UNREVOKED_PARTITIONS


def heartbeat(state: ShardState, group: ConsumerGroup, message: GroupRequest, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, HeartbeatRequest)
    member = _classic_member(group, request)
    if isinstance(member, ErrorCode):
        state.reply(message, HeartbeatResponse(error_code=member))
        return
    classic = member.metadata.classic_member_metadata
    assert classic is not None
    state.timers.set(group.session(member.member_id), now_ms + classic.session_timeout_ms)
    error = ErrorCode.NONE
    is_behind = member.epoch < group.target_epoch or member.state is ConsumerMemberState.UNREVOKED_PARTITIONS
    if is_behind or (
        member.state is ConsumerMemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member)
    ):
        error = ErrorCode.REBALANCE_IN_PROGRESS
        _await_join(state, group, member, now_ms)
    state.reply(message, HeartbeatResponse(error_code=error))


def _waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    return any(
        index not in member.assigned.get(topic_id, {}) and group.is_held(topic_id, index)
        for topic_id, indexes in group.targets.get(member.member_id, {}).items()
        for index in indexes
    )


def _await_join(state: ShardState, group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
    timer = group.timer("consumer join", member.member_id)
    if not timer.is_set:
        state.timers.set(timer, now_ms + member.metadata.rebalance_timeout_ms)


def _classic_member(group: ConsumerGroup, request: SyncGroupRequest | HeartbeatRequest) -> ConsumerMember | ErrorCode:
    member_id = request.member_id
    if request.group_instance_id is not None:
        known = group.static_members.get(request.group_instance_id)
        if known is not None and known != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        member_id = known or ""
    member = group.members.get(member_id)
    if member is None or not member.is_classic:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return member if member.epoch == request.generation_id else ErrorCode.ILLEGAL_GENERATION


def leave(state: ShardState, group: ConsumerGroup, message: GroupRequest, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, LeaveGroupRequest)
    found = [_leaver(group, one) for one in request.members]
    responses = [
        MemberResponse(
            member_id=one.member_id,
            group_instance_id=one.group_instance_id,
            error_code=who if isinstance(who, ErrorCode) else ErrorCode.NONE,
        )
        for one, who in zip(request.members, found)
    ]
    gone = {who for who in found if not isinstance(who, ErrorCode)}
    remove_or_downgrade(state, group, gone, now_ms)
    state.reply(message, LeaveGroupResponse(members=responses))


def _leaver(group: ConsumerGroup, leaver: MemberIdentity) -> str | ErrorCode:
    if leaver.group_instance_id is None:
        return leaver.member_id if leaver.member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID
    known = group.static_members.get(leaver.group_instance_id)
    if known is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return known if leaver.member_id in ("", known) else ErrorCode.FENCED_INSTANCE_ID
