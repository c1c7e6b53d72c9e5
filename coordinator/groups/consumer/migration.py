"""Groups change their protocol while they work (KIP-848), in the direction of `group.consumer.migration.policy`.

Upgrade: the first member of the consumer protocol joins a classic group with members. The group becomes a consumer
group, in which they continue as classic members (`join_consumer_group`). Downgrade: the last member of the consumer
protocol leaves, and the remaining members form a classic group again.

A group may change in the middle of a rebalance, when members still own what they must revoke. No partition gets a
second owner: the owned partitions are known in both directions. Kafka uses assignments for the upgrade only, and
takes targets for assignments in a downgrade, so the next member that joins may get a partition that another still
owns.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ....metadata.image import MetadataImage
from ....protocol.codec import MalformedMessage, decode, encode
from ....protocol.errors import ErrorCode
from ....protocol.internal.consumer_offsets import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from ....protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from ....protocol.schema import Message
from ...result import GroupRequest, Timer
from ..assigned_group import ValidationError
from ..classic.group import (
    CONSUMER_PROTOCOL_TYPE,
    ClassicGroup,
    State,
    delete_classic_group,
    find_or_make,
    join_error,
    sync_error,
    write_group,
)
from ..classic.group import Member as ClassicMember
from ..classic.join import prepare
from .assignment import reconcile_member, remove_from_group, update_epoch, update_target
from .group import (
    EMPTY_METADATA,
    ConsumerGroup,
    Member,
    MemberState,
    Owned,
    Partitions,
    RegexChange,
    delete_group,
    generated_member_id,
    held_partitions,
    metadata_hash,
    replace_member,
    update_regex,
    write_current,
    write_epoch,
    write_member,
    write_target,
    write_target_epoch,
)

if TYPE_CHECKING:
    from ..state import ShardState


# The consumer protocol in JoinGroup and SyncGroup, decoded and encoded for groups in migration (KIP-848).
#
# The version precedes the subscription or assignment. Every version begins with the fields of the earlier ones, so a
# newer version is read as the newest one supported here.


_VERSION = struct.Struct(">h")
NEWEST = 3


class MalformedEmbedded(Exception):
    """The bytes are not a valid subscription or assignment."""


def version_of(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise MalformedEmbedded("no version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise MalformedEmbedded(f"version {version}")
    return min(version, NEWEST)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    subscription: ConsumerProtocolSubscription = _read(ConsumerProtocolSubscription, data)
    return subscription


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """Decodes an assignment. Empty bytes mean that nothing is assigned."""
    assignment: ConsumerProtocolAssignment = _read(ConsumerProtocolAssignment, data) if data else _nothing()
    return assignment


def _nothing() -> ConsumerProtocolAssignment:
    return ConsumerProtocolAssignment(assigned_partitions=[])


def _read(cls: type[Message], data: bytes) -> Any:
    try:
        return decode(cls, version_of(data), data, _VERSION.size)[0]
    except MalformedMessage as error:
        raise MalformedEmbedded(str(error)) from error


def write_assignment(image: MetadataImage, partitions: Partitions, version: int) -> bytes:
    """Encodes an assignment without deleted topics, since the classic protocol has only topic names."""
    topics = [
        ConsumerProtocolAssignmentTopicPartition(topic=topic.name, partitions=sorted(indexes))
        for topic_id, indexes in partitions.items()
        if (topic := image.topic_by_id(topic_id)) is not None
    ]
    return _VERSION.pack(version) + encode(ConsumerProtocolAssignment(assigned_partitions=topics), version)


def by_id(image: MetadataImage, named: Iterable[Any]) -> dict[bytes, frozenset[int]]:
    """Returns partitions by topic id, from any structures with `topic` and `partitions`."""
    return {
        topic.id: frozenset(one.partitions)
        for one in named
        if one.partitions and (topic := image.topic(one.topic)) is not None
    }


log = logging.getLogger(__name__)

BOTH_WAYS = "bidirectional"
UPWARDS = (BOTH_WAYS, "upgrade")
DOWNWARDS = (BOTH_WAYS, "downgrade")


# Up.


def validate_upgrade(state: ShardState, group: ClassicGroup) -> ValidationError | None:
    why = _why_not_up(state, group)
    if why is None:
        return None
    words = f"Cannot upgrade classic group {group.group_id} to consumer group because {why}."
    return ValidationError(ErrorCode.GROUP_ID_NOT_FOUND, words)


def _why_not_up(state: ShardState, group: ClassicGroup) -> str | None:
    if state.config.consumer_migration_policy not in UPWARDS:
        return "online upgrade is disabled"
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return "the group does not use the consumer embedded protocol"
    if len(group.members) > state.config.consumer_max_size:
        return "the group size exceeds the consumer group maximum size"
    try:
        for member in group.members.values():
            read_subscription(_metadata(group, member))
            if read_assignment(member.assignment).user_data:
                return (
                    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
                    "assignor before re-attempting the upgrade"
                )
    except MalformedEmbedded:
        return "the embedded consumer protocol is malformed"
    return None


def _metadata(group: ClassicGroup, member: ClassicMember) -> bytes:
    """Returns the member's metadata in the group's protocol; in its preferred one, if the group has none yet."""
    return member.protocols.get(group.protocol_name or "") or next(iter(member.protocols.values()))


def upgrade(state: ShardState, classic: ClassicGroup, now: int) -> ConsumerGroup:
    """Upgrades a classic group. Each member keeps its partitions; none has to revoke anything yet."""
    holdings = _holdings(state, classic)
    members = [(m, _upgraded(classic, m, holdings[m.member_id])) for m in classic.members.values()]
    for before, _ in members:
        classic.respond_to_join(before, join_error(ErrorCode.REBALANCE_IN_PROGRESS, before.member_id))
        classic.respond_to_sync(before, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    delete_classic_group(state, classic.group_id)
    group = ConsumerGroup(classic.group_id)
    state.put(group)
    group_id, epoch = group.group_id, classic.generation_id
    for _, member in members:
        write_member(state, group_id, member.member_id, member.metadata)
    write_epoch(state, group_id, epoch, metadata_hash(state.image, group.subscribed_topics()))
    group.was_rebalancing = not _is_stable(state, classic, group.subscribed_topics(), holdings.values())
    for _, member in members:
        assigned = {topic_id: frozenset(epochs) for topic_id, epochs in member.assigned.items()}
        write_target(state, group_id, member.member_id, assigned)
    write_target_epoch(state, group_id, epoch, 0)
    for before, member in members:
        write_current(state, group_id, member)
        state.timers.set(group.session(member.member_id), now + before.session_timeout_ms)
    log.info("the classic group %s is a consumer group now", group_id)
    return group


def _is_stable(
    state: ShardState, group: ClassicGroup, subscribed: Iterable[str], holdings: Collection[Holding]
) -> bool:
    """Returns whether its leader has assigned all partitions. If not, the group needs an assignment even if the member that
    comes now changes nothing: a static member that takes its own place under the new protocol. Kafka waits for a change.
    """
    is_stable = group.state is State.STABLE and group.predecessor is None
    if not is_stable or any(holding.revoking for holding in holdings):
        return False
    topics = [topic for name in subscribed if (topic := state.image.topic(name)) is not None]
    every = {(topic.id, index) for topic in topics for index in topic.partitions}
    return every <= {place for holding in holdings for place in _places(holding.assigned)}


class Holding(NamedTuple):
    """The partitions of a member: those that it keeps, and those that it must revoke."""

    assigned: Partitions
    revoking: Partitions


def _holdings(state: ShardState, group: ClassicGroup) -> dict[str, Holding]:
    """Returns for each member what it was assigned, and what it reported to own when it joined.

    A member of the cooperative protocol keeps revoked partitions until it joins again. After a rebalance that was broken
    off, members have no assignment, but own what they had before.
    """
    members = group.members.values()
    assigned = {m.member_id: by_id(state.image, read_assignment(m.assignment).assigned_partitions) for m in members}
    owned = {m.member_id: by_id(state.image, read_subscription(_metadata(group, m)).owned_partitions) for m in members}
    if isinstance(group.predecessor, ConsumerGroup):
        said = {m.member_id: owned[m.member_id] for m in members if m.has_joined}
        return _of_targets(members, assigned, _owned_partitions(group.predecessor.last_held, said))
    taken = {place for partitions in assigned.values() for place in _places(partitions)}
    found = {}
    for member in members:
        kept = _without(owned[member.member_id], taken)
        taken.update(_places(kept))
        found[member.member_id] = _holding(member, assigned[member.member_id], kept)
    return found


def _owned_partitions(known: Mapping[str, Partitions], said: Mapping[str, Partitions]) -> dict[str, Partitions]:
    """Returns what members own: as those report that have joined since, except partitions that another member is known to
    own. They have not learnt yet that they lost these.
    """
    holders = {place: member_id for member_id, partitions in known.items() for place in _places(partitions)}
    believed = dict(known)
    for member_id, partitions in said.items():
        of_others = {place for place in _places(partitions) if holders.setdefault(place, member_id) != member_id}
        believed[member_id] = _without(partitions, of_others)
    return believed


def _of_targets(
    members: Iterable[ClassicMember], assigned: Mapping[str, Partitions], held: Mapping[str, Partitions]
) -> dict[str, Holding]:
    """Handles a group that was a consumer group until now: its assignments are targets, which members own or not."""
    found = {}
    for member in members:
        has = held.get(member.member_id)
        if has is None:
            # Compaction has left nothing of it. By then it has long had what it was to have.
            found[member.member_id] = Holding(assigned[member.member_id], {})
            continue
        wanted = set(_places(assigned[member.member_id]))
        rest = _without(has, wanted)
        found[member.member_id] = _holding(member, _without(has, set(_places(rest))), rest)
    return found


def _holding(member: ClassicMember, assigned: Partitions, rest: Partitions) -> Holding:
    return Holding(assigned, rest) if member.assignment else Holding(rest, {})


def _without(partitions: Partitions, places: Set[tuple[bytes, int]]) -> Partitions:
    left = {t: frozenset(i for i in indexes if (t, i) not in places) for t, indexes in partitions.items()}
    return {topic_id: indexes for topic_id, indexes in left.items() if indexes}


def _places(partitions: Partitions) -> Iterator[tuple[bytes, int]]:
    return ((topic_id, index) for topic_id, indexes in partitions.items() for index in indexes)


def _upgraded(group: ClassicGroup, member: ClassicMember, holding: Holding) -> Member:
    subscription = read_subscription(_metadata(group, member))
    metadata = ConsumerGroupMemberMetadataValue(
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(set(subscription.topics)),
        subscribed_topic_regex="",
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=None,
        classic_member_metadata=classic_metadata(member.session_timeout_ms, member.protocols.items()),
    )
    epoch = group.generation_id
    member_state = MemberState.UNREVOKED_PARTITIONS if holding.revoking else MemberState.STABLE
    assigned, revoking = (_since(partitions, epoch) for partitions in holding)
    return Member(member.member_id, metadata, epoch, epoch, member_state, assigned, revoking)


def _since(partitions: Partitions, epoch: int) -> Owned:
    return {topic_id: dict.fromkeys(sorted(indexes), epoch) for topic_id, indexes in partitions.items()}


def classic_metadata(session_timeout_ms: int, protocols: Iterable[tuple[str, bytes]]) -> ClassicMemberMetadata:
    supported = [ClassicProtocol(name=name, metadata=bytes(metadata)) for name, metadata in protocols]
    return ClassicMemberMetadata(session_timeout_ms=session_timeout_ms, supported_protocols=supported)


# Down.


def may_downgrade(state: ShardState, group: ConsumerGroup, without: Collection[str]) -> bool:
    """Returns whether the group that is left `without` these members is a classic group."""
    left = [member for member_id, member in group.members.items() if member_id not in without]
    return (
        bool(left)
        and all(member.is_classic for member in left)
        and state.config.consumer_migration_policy in DOWNWARDS
        and len(left) <= state.config.max_group_size
    )


def downgrade(state: ShardState, group: ConsumerGroup, without: Collection[str], now: int) -> ClassicGroup:
    """Downgrades a group: members keep their targets, in a Stable group whose generation is the epoch."""
    left = [member for member_id, member in group.members.items() if member_id not in without]
    targets_before = dict(group.targets)
    delete_group(state, group)
    classic = find_or_make(state, group.group_id)
    for member in left:
        classic.add(_downgraded(classic, member), None)
    classic.become_stable(CONSUMER_PROTOCOL_TYPE, group.epoch, now)
    for one in classic.members.values():
        version = version_of(one.protocols[classic.protocol_name or ""])
        one.assignment = write_assignment(state.image, targets_before.get(one.member_id, {}), version)
        classic.touch(one, now)
    write_group(state, classic, {one.member_id: one.assignment for one in classic.members.values()})
    log.info("the consumer group %s is a classic group again", group.group_id)
    return classic


def has_targets(group: ConsumerGroup) -> bool:
    """Returns whether every member owns its target."""
    return group.epoch == group.target_epoch and all(
        held_partitions(member) == group.targets.get(member_id, {}) for member_id, member in group.members.items()
    )


def _downgraded(group: ClassicGroup, member: Member) -> ClassicMember:
    metadata = member.metadata
    classic = metadata.classic_member_metadata
    assert classic is not None, "only classic members are left"
    return ClassicMember(
        member_id=member.member_id,
        group_instance_id=metadata.instance_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms,
        session_timeout_ms=classic.session_timeout_ms,
        protocols={protocol.name: protocol.metadata for protocol in classic.supported_protocols},
        session=Timer(("classic session", group.group_id, member.member_id)),
    )


def remove_or_downgrade(state: ShardState, group: ConsumerGroup, member_ids: Collection[str], now: int) -> None:
    """Removes members that left or were fenced; downgrades the group if only classic members are left."""
    if not member_ids:
        return
    if may_downgrade(state, group, member_ids):
        classic = downgrade(state, group, member_ids, now)
        prepare(state, classic, now, "the last member of the consumer protocol left")
    else:
        remove_from_group(state, group, member_ids)


# Classic-protocol members of a consumer group (KIP-848): JoinGroup, SyncGroup, Heartbeat, LeaveGroup.
#
# The coordinator assigns partitions to them as to all others. It announces a new epoch to them as a rebalance: they
# rejoin with the partitions that they own, and get their part of the target with SyncGroup. The generation is their
# member epoch. So they pause as long as with the cooperative protocol, and the other members do not pause.


#: The first version of JoinGroup whose clients get their member id before they join (KIP-394).
MEMBER_ID_REQUIRED_VERSION = 4


# JoinGroup.


def join_consumer_group(state: ShardState, group: ConsumerGroup, message: GroupRequest, now: int) -> None:
    request = message.request
    assert isinstance(request, JoinGroupRequest)
    member_id = request.member_id or generated_member_id(message.member_uuid)
    error = _validate_join(state, group, request, member_id)
    if error is not ErrorCode.NONE:
        state.reply(message, join_error(error))
        return
    if not request.member_id and request.group_instance_id is None and message.version >= MEMBER_ID_REQUIRED_VERSION:
        state.reply(message, join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        return
    error = _validate_member(group, request)
    if error is not ErrorCode.NONE:
        state.reply(message, join_error(error))
        return
    response = _join(state, group, message, request, member_id, now)
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
    state: ShardState, group: ConsumerGroup, message: GroupRequest, request: JoinGroupRequest, member_id: str, now: int
) -> JoinGroupResponse:
    subscription = read_subscription(request.protocols[0].metadata)
    before = group.members.get(group.static_members.get(request.group_instance_id or "") or member_id)
    is_replaced = before is not None and request.group_instance_id is not None and not request.member_id
    if before is not None and is_replaced:
        member = replace_member(state, group, before, member_id)
    else:
        member = before or Member(member_id, EMPTY_METADATA)
    metadata = _updated(member.metadata, message, request, subscription)
    if member.member_id not in group.members or metadata != member.metadata:
        write_member(state, group.group_id, member_id, metadata)
    is_changed = metadata.subscribed_topic_names != member.metadata.subscribed_topic_names
    is_changed |= update_regex(state, group, member.metadata, metadata.subscribed_topic_regex) is not RegexChange.NONE
    update_epoch(state, group, is_changed)
    # The last member with the new protocol rejoins as a classic member.
    was_last = request.group_instance_id is not None and before is not None and not before.is_classic
    if was_last and may_downgrade(state, group, ()):
        return _joined_downgraded(state, group, message, member_id, now)
    update_target(state, group, now)
    owned = by_id(state.image, subscription.owned_partitions)
    after = reconcile_member(state, group, group.members[member_id], owned, is_changed, now)
    if after is None:
        return join_error(ErrorCode.FENCED_MEMBER_EPOCH)
    group.timer("consumer join", member_id).cancel()
    state.timers.set(group.session(member_id), now + request.session_timeout_ms)
    state.timers.set(group.timer("consumer sync", member_id), now + after.metadata.rebalance_timeout_ms)
    return _joined(after)


def _joined_downgraded(
    state: ShardState, group: ConsumerGroup, message: GroupRequest, member_id: str, now: int
) -> JoinGroupResponse:
    after = group.members[member_id]
    if group.target_epoch == group.epoch:
        after = reconcile_member(state, group, after, None, False, now) or after
    response = _joined(after)
    is_done = has_targets(group)
    classic = downgrade(state, group, (), now)
    if not is_done:
        prepare(state, classic, now, "not every member has its target assignment")
    return response


def _joined(member: Member) -> JoinGroupResponse:
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


# SyncGroup and Heartbeat.


def sync(state: ShardState, group: ConsumerGroup, message: GroupRequest, now: int) -> None:
    request = message.request
    assert isinstance(request, SyncGroupRequest)
    member = _classic_member(group, request)
    error = member if isinstance(member, ErrorCode) else _validate_sync(member, request)
    if error is ErrorCode.NONE and isinstance(member, Member) and _must_rejoin(group, member):
        _await_join(state, group, member, now)
        error = ErrorCode.REBALANCE_IN_PROGRESS
    if error is not ErrorCode.NONE or isinstance(member, ErrorCode):
        state.reply(message, sync_error(error))
        return
    classic = member.metadata.classic_member_metadata
    assert classic is not None
    group.timer("consumer sync", member.member_id).cancel()
    state.timers.set(group.session(member.member_id), now + classic.session_timeout_ms)
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


def _validate_sync(member: Member, request: SyncGroupRequest) -> ErrorCode:
    classic = member.metadata.classic_member_metadata
    assert classic is not None
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name not in (None, classic.supported_protocols[0].name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _must_rejoin(group: ConsumerGroup, member: Member) -> bool:
    return group.target_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS


def heartbeat(state: ShardState, group: ConsumerGroup, message: GroupRequest, now: int) -> None:
    request = message.request
    assert isinstance(request, HeartbeatRequest)
    member = _classic_member(group, request)
    if isinstance(member, ErrorCode):
        state.reply(message, HeartbeatResponse(error_code=member))
        return
    classic = member.metadata.classic_member_metadata
    assert classic is not None
    state.timers.set(group.session(member.member_id), now + classic.session_timeout_ms)
    error = ErrorCode.NONE
    is_behind = member.epoch < group.target_epoch or member.state is MemberState.UNREVOKED_PARTITIONS
    if is_behind or (member.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member)):
        error = ErrorCode.REBALANCE_IN_PROGRESS
        _await_join(state, group, member, now)
    state.reply(message, HeartbeatResponse(error_code=error))


def _waits_for_others(group: ConsumerGroup, member: Member) -> bool:
    return any(
        index not in member.assigned.get(topic_id, {}) and group.is_held(topic_id, index)
        for topic_id, indexes in group.targets.get(member.member_id, {}).items()
        for index in indexes
    )


def _await_join(state: ShardState, group: ConsumerGroup, member: Member, now: int) -> None:
    timer = group.timer("consumer join", member.member_id)
    if not timer.is_set:
        state.timers.set(timer, now + member.metadata.rebalance_timeout_ms)


def _classic_member(group: ConsumerGroup, request: SyncGroupRequest | HeartbeatRequest) -> Member | ErrorCode:
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


# LeaveGroup: it may remove members of both protocols.


def leave(state: ShardState, group: ConsumerGroup, message: GroupRequest, now: int) -> None:
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
    remove_or_downgrade(state, group, gone, now)
    state.reply(message, LeaveGroupResponse(members=responses))


def _leaver(group: ConsumerGroup, one: MemberIdentity) -> str | ErrorCode:
    if one.group_instance_id is None:
        return one.member_id if one.member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID
    known = group.static_members.get(one.group_instance_id)
    if known is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return known if one.member_id in ("", known) else ErrorCode.FENCED_INSTANCE_ID
