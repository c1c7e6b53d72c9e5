"""Groups change their protocol while they work (KIP-848), in the direction of `group.consumer.migration.policy`.

Upgrade: the first member of the consumer protocol joins a classic group with members. The group becomes a consumer
group, in which they continue as classic members (classic_members.py). Downgrade: the last member of the consumer
protocol leaves, and the remaining members form a classic group again.

A group may change in the middle of a rebalance, when members still own what they must revoke. No partition gets a
second owner: the owned partitions are known in both directions. Kafka uses assignments for the upgrade only, and
takes targets for assignments in a downgrade, so the next member that joins may get a partition that another still
owns.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from typing import TYPE_CHECKING, NamedTuple

from ....protocol.errors import ErrorCode
from ....protocol.internal.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from ...rejection import Rejection
from ...timers import Timer
from ..classic.group import ClassicGroup, ClassicGroupState
from ..classic.lookup import find_or_make
from ..classic.member import ClassicMember
from ..classic.rebalance import prepare
from ..classic.rebalance_errors import join_error, sync_error
from ..classic.subscriptions import CONSUMER_PROTOCOL_TYPE
from ..classic.writing import delete_classic_group, write_group
from .consumer_protocol import (
    MalformedEmbedded,
    by_id,
    read_assignment,
    read_subscription,
    version_of,
    write_assignment,
)
from .group import ConsumerGroup
from .member import ConsumerMember, ConsumerMemberState, Owned, Partitions, held_partitions
from .targets import remove_from_group
from .topics import metadata_hash
from .writing import delete_group, write_current, write_epoch, write_member, write_target, write_target_epoch

if TYPE_CHECKING:
    from ..shard_state import ShardState

log = logging.getLogger(__name__)
#: The bytes of lengths and numbers in the record of a classic group: of each member, and of the group with its type.
MEMBER_FRAME_BYTES = 24
GROUP_FRAME_BYTES = 34
BOTH_WAYS = "bidirectional"
UPWARDS = (BOTH_WAYS, "upgrade")
DOWNWARDS = (BOTH_WAYS, "downgrade")


def validate_upgrade(state: ShardState, group: ClassicGroup) -> Rejection | None:
    why = _why_not_up(state, group)
    if why is None:
        return None
    words = f"Cannot upgrade classic group {group.group_id} to consumer group because {why}."
    return Rejection(ErrorCode.GROUP_ID_NOT_FOUND, words)


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
    if not all(
        state.can_store(upgraded_metadata(group, member), group.group_id, member.member_id)
        for member in group.members.values()
    ):
        # A classic group's record has one protocol of each member; this one has all.
        return f"a member's metadata does not fit into a record of {state.config.max_record_bytes} bytes"
    return None


def _metadata(group: ClassicGroup, member: ClassicMember) -> bytes:
    """Returns the member's metadata in the group's protocol; in its preferred one, if the group has none yet."""
    return member.protocols.get(group.protocol_name or "") or next(iter(member.protocols.values()))


def upgrade(state: ShardState, classic: ClassicGroup, now_ms: int) -> ConsumerGroup:
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
        state.timers.set(group.session(member.member_id), now_ms + before.session_timeout_ms)
    log.info("the classic group %s is a consumer group now", group_id)
    return group


def _is_stable(
    state: ShardState, group: ClassicGroup, subscribed: Iterable[str], holdings: Collection[Holding]
) -> bool:
    """Returns whether its leader has assigned all partitions. If not, the group needs an assignment even if the member that
    comes now changes nothing: a static member that takes its own place under the new protocol. Kafka waits for a change.
    """
    is_stable = group.state is ClassicGroupState.STABLE and group.predecessor is None
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


def upgraded_metadata(group: ClassicGroup, member: ClassicMember) -> ConsumerGroupMemberMetadataValue:
    """Returns the metadata of a classic group's member in a consumer group. Raises MalformedEmbedded."""
    subscription = read_subscription(_metadata(group, member))
    return ConsumerGroupMemberMetadataValue(
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


def _upgraded(group: ClassicGroup, member: ClassicMember, holding: Holding) -> ConsumerMember:
    metadata = upgraded_metadata(group, member)
    epoch = group.generation_id
    member_state = ConsumerMemberState.UNREVOKED_PARTITIONS if holding.revoking else ConsumerMemberState.STABLE
    assigned, revoking = (_since(partitions, epoch) for partitions in holding)
    return ConsumerMember(member.member_id, metadata, epoch, epoch, member_state, assigned, revoking)


def _since(partitions: Partitions, epoch: int) -> Owned:
    return {topic_id: dict.fromkeys(sorted(indexes), epoch) for topic_id, indexes in partitions.items()}


def classic_metadata(session_timeout_ms: int, protocols: Iterable[tuple[str, bytes]]) -> ClassicMemberMetadata:
    supported = [ClassicProtocol(name=name, metadata=bytes(metadata)) for name, metadata in protocols]
    return ClassicMemberMetadata(session_timeout_ms=session_timeout_ms, supported_protocols=supported)


def may_downgrade(state: ShardState, group: ConsumerGroup, without: Collection[str]) -> bool:
    """Returns whether the group that is left `without` these members is a classic group."""
    left = [member for member_id, member in group.members.items() if member_id not in without]
    return (
        bool(left)
        and all(member.is_classic for member in left)
        and state.config.consumer_migration_policy in DOWNWARDS
        and len(left) <= state.config.max_group_size
        and _fit_together(left)
        and _fit_into_record(state, group, left)
    )


def _fit_together(members: list[ConsumerMember]) -> bool:
    """Returns whether a classic group may have these members. Those of a wrong record may share no protocol."""
    common: set[str] | None = None
    for member in members:
        classic = member.metadata.classic_member_metadata
        names = {protocol.name for protocol in classic.supported_protocols} if classic is not None else set()
        common = names if common is None else common & names
    instances = [member.instance_id for member in members if member.instance_id is not None]
    return bool(common) and len(set(instances)) == len(instances)


def _fit_into_record(state: ShardState, group: ConsumerGroup, members: list[ConsumerMember]) -> bool:
    """Returns whether the one record of a classic group can hold these members, whichever protocol they elect."""
    size, leader, protocol = GROUP_FRAME_BYTES + len(group.group_id.encode()), 0, 0
    for member in members:
        classic = member.metadata.classic_member_metadata
        assert classic is not None, "only classic members are left"
        longest = max(classic.supported_protocols, key=lambda protocol: len(protocol.metadata)).metadata
        texts = (member.member_id, member.instance_id, member.metadata.client_id, member.metadata.client_host)
        assignment = write_assignment(state.image, group.targets.get(member.member_id, {}), version_of(longest))
        size += MEMBER_FRAME_BYTES + len(longest) + len(assignment) + sum(len((text or "").encode()) for text in texts)
        leader = max(leader, len(member.member_id.encode()))
        protocol = max(protocol, *(len(one.name.encode()) for one in classic.supported_protocols))
    return size + leader + protocol <= state.config.max_record_bytes


def downgrade(state: ShardState, group: ConsumerGroup, without: Collection[str], now_ms: int) -> ClassicGroup:
    """Downgrades a group: members keep their targets, in a Stable group whose generation is the epoch."""
    left = [member for member_id, member in group.members.items() if member_id not in without]
    targets_before = dict(group.targets)
    delete_group(state, group)
    classic = find_or_make(state, group.group_id)
    for member in left:
        classic.add(_downgraded(classic, member), None)
    classic.become_stable(CONSUMER_PROTOCOL_TYPE, group.epoch, now_ms)
    for one in classic.members.values():
        version = version_of(one.protocols[classic.protocol_name or ""])
        one.assignment = write_assignment(state.image, targets_before.get(one.member_id, {}), version)
        classic.touch(one, now_ms)
    write_group(state, classic, {one.member_id: one.assignment for one in classic.members.values()})
    log.info("the consumer group %s is a classic group again", group.group_id)
    return classic


def has_targets(group: ConsumerGroup) -> bool:
    """Returns whether every member owns its target."""
    return group.epoch == group.target_epoch and all(
        held_partitions(member) == group.targets.get(member_id, {}) for member_id, member in group.members.items()
    )


def _downgraded(group: ClassicGroup, member: ConsumerMember) -> ClassicMember:
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


def remove_or_downgrade(state: ShardState, group: ConsumerGroup, member_ids: Collection[str], now_ms: int) -> None:
    """Removes members that left or were fenced; downgrades the group if only classic members are left."""
    if not member_ids:
        return
    if may_downgrade(state, group, member_ids):
        classic = downgrade(state, group, member_ids, now_ms)
        prepare(state, classic, now_ms, "the last member of the consumer protocol left")
    else:
        remove_from_group(state, group, member_ids)
