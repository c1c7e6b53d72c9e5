"""One consumer group: the state that its records define.

Besides the group's two epochs (assigned_group.py) each member has its own epoch, and advances it at its own pace
(assignment.py).

Empty          no members
Assigning      the target epoch is lower than the group epoch
Reconciling    some member does not have its part of the target yet
Stable         all members have their part of the target

Only replayed records change this state. Timers track live members: `restore` starts them after a load.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any

from ....metadata.image import MetadataImage, TopicImage
from ....protocol.internal.consumer_offsets import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)
from ....protocol.schema import Message
from ....protocol.uuids import uuid_to_text
from ...patterns import compiled
from ..assigned_group import AssignedGroup, AssignedRecords, write
from ..state import number

if TYPE_CHECKING:
    from ..state import ShardState


# The settings of a consumer group: its own configuration if present, else the broker's (KIP-848).


def session_timeout_ms(state: ShardState, group_id: str) -> int:
    of_broker, bounds = state.config.consumer_session_timeout_ms, state.config.consumer_session_timeout_bounds_ms
    return number(state, group_id, "consumer.session.timeout.ms", of_broker, bounds)


def heartbeat_interval_ms(state: ShardState, group_id: str) -> int:
    of_broker, bounds = state.config.consumer_heartbeat_interval_ms, state.config.consumer_heartbeat_interval_bounds_ms
    return number(state, group_id, "consumer.heartbeat.interval.ms", of_broker, bounds)


def assignment_interval_ms(state: ShardState, group_id: str) -> int:
    of_broker, bounds = (
        state.config.consumer_assignment_interval_ms,
        state.config.consumer_assignment_interval_bounds_ms,
    )
    return number(state, group_id, "consumer.assignment.interval.ms", of_broker, bounds)


# The record types of consumer groups: the version number of their keys, key class and value class.


RECORD_TYPES: dict[int, tuple[type[Message], type[Message]]] = {
    3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    4: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}


# The subscribed topics of a group: their ids, numbers of partitions, and a metadata hash.
#
# `ConsumerGroupMetadataValue` keeps the hash (KIP-1101), so that a coordinator that loads the group detects changed
# topics. It is the same as Kafka's: XXH3 over the bytes that `_topic_hash` assembles.


def metadata_hash(image: MetadataImage, names: Iterable[str]) -> int:
    """Returns the hash of the existing topics among `names`; 0 if there are none."""
    from xxhash import xxh3_64_intdigest  # only groups of the new protocol need it

    found = [topic for name in sorted(set(names)) if (topic := image.topic(name)) is not None]
    if not found:
        return 0
    pieces = [_remembered_hash(image, topic).to_bytes(8, "little") for topic in found]
    return _signed(xxh3_64_intdigest(b"".join(pieces)))


#: The number of cached topic hashes. Every joining member needs those of its group's topics.
REMEMBERED_TOPICS = 4_096

#: Topic id -> topic, brokers and hash. An entry is valid while both are the same objects as in the image.
_remembered: dict[bytes, tuple[TopicImage, object, int]] = {}


def _remembered_hash(image: MetadataImage, topic: TopicImage) -> int:
    known = _remembered.get(topic.id)
    if known is not None and known[0] is topic and known[1] is image.cluster.brokers:
        return known[2]
    if len(_remembered) >= REMEMBERED_TOPICS:
        _remembered.clear()
    found = _topic_hash(topic, _racks(image, topic))
    _remembered[topic.id] = (topic, image.cluster.brokers, found)
    return found


Racks = tuple[tuple[str, ...], ...]


def _racks(image: MetadataImage, topic: TopicImage) -> Racks:
    brokers = image.cluster.brokers
    return tuple(
        tuple(sorted({b.rack for r in topic.partitions[i].replicas if (b := brokers.get(r)) and b.rack is not None}))
        for i in range(len(topic.partitions))
    )


def _topic_hash(topic: TopicImage, racks: Racks) -> int:
    from xxhash import xxh3_64_intdigest

    pieces = [b"\0", topic.id[7::-1], topic.id[:7:-1], _string(topic.name), struct.pack("<i", len(racks))]
    for index, names in enumerate(racks):
        pieces.append(struct.pack("<i", index))
        pieces += [_length(name) + _string(name) for name in names]
    return xxh3_64_intdigest(b"".join(pieces))


def _string(text: str) -> bytes:
    """Encodes a string like hash4j: UTF-16 code units, then their number."""
    return text.encode("utf-16-le") + _length(text)


def _length(text: str) -> bytes:
    return struct.pack("<i", len(text.encode("utf-16-le")) // 2)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def matching_topics(image: MetadataImage, regex: str) -> list[str]:
    """Returns the sorted names of all topics that `regex` (RE2) fully matches. Raises InvalidRegularExpression."""
    pattern = compiled(regex)
    return sorted(name for name in image.topics.by_name if pattern(name) is not None)


# One member of a consumer group, as replayed from the log.


JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2

#: Metadata of a member before its first heartbeat.
EMPTY_METADATA = ConsumerGroupMemberMetadataValue(
    instance_id=None, rack_id=None, subscribed_topic_regex="", server_assignor=None
)

#: Topic id -> partitions.
Partitions = Mapping[bytes, frozenset[int]]
#: Topic id -> partition -> the member epoch at which the partition was assigned to the member (KIP-1251).
Owned = Mapping[bytes, Mapping[int, int]]


class MemberState(IntEnum):
    """The state of a member, described in assignment.py. The numbers are those of the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


def generated_member_id(member_uuid: str) -> str:
    """Returns the id for a member without one, in Kafka's text form of UUIDs."""
    return uuid_to_text(bytes.fromhex(member_uuid.replace("-", "")))


@dataclass(frozen=True, slots=True)
class Member:
    member_id: str
    metadata: ConsumerGroupMemberMetadataValue
    epoch: int = JOIN_EPOCH
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    #: Contains no topic without partitions.
    assigned: Owned = field(default_factory=dict)
    #: The partitions that the member must revoke before it can advance to the next epoch.
    revoking: Owned = field(default_factory=dict)

    @property
    def is_classic(self) -> bool:
        """Returns whether the member uses the classic protocol, in a group in migration."""
        return self.metadata.classic_member_metadata is not None

    @property
    def instance_id(self) -> str | None:
        return self.metadata.instance_id

    def held(self) -> Iterable[tuple[bytes, int]]:
        """Yields every partition that cannot be assigned to another member."""
        for owned in (self.assigned, self.revoking):
            for topic_id, partitions in owned.items():
                for index in partitions:
                    yield topic_id, index


def held_partitions(member: Member) -> Partitions:
    found: dict[bytes, set[int]] = {}
    for topic_id, index in member.held():
        found.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in found.items()}


def current_assignment(member: Member) -> ConsumerGroupCurrentMemberAssignmentValue:
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=int(member.state),
        assigned_partitions=_as_record(member.assigned),
        partitions_pending_revocation=_as_record(member.revoking),
    )


def _as_record(owned: Owned) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic_id, partitions=list(epochs), assignment_epochs=list(epochs.values()))
        for topic_id, epochs in owned.items()
    ]


def owned_from_record(topics: Iterable[TopicPartitions], member_epoch: int) -> dict[bytes, dict[int, int]]:
    """Returns owned partitions from a record. Before Kafka 4.3 it has no partition epochs: the member's applies."""
    return {
        topic.topic_id: dict(zip(topic.partitions, topic.assignment_epochs or [member_epoch] * len(topic.partitions)))
        for topic in topics
    }


def state_from_record(number: int) -> MemberState:
    return MemberState(number) if number in (0, 1, 2) else MemberState.UNKNOWN


def as_partitions(topics: Iterable[Any]) -> dict[bytes, frozenset[int]]:
    """Returns partitions by topic id, from any structures with both fields. Omits topics without partitions."""
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics if topic.partitions}


class GroupState(Enum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup(AssignedGroup[Member, Partitions]):
    kind = "consumer"
    protocol_type = "consumer"

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.metadata_hash = 0
        #: Regular expression -> the topics that it matches.
        self.regexes: dict[str, ConsumerGroupRegularExpressionValue] = {}
        #: Topic or regular expression -> the number of members that subscribe with it.
        self.name_users: Counter[str] = Counter()
        self.regex_users: Counter[str] = Counter()
        #: Kafka 4.0 kept the topics in a record. A group with such a record deletes it eventually.
        self.has_partition_metadata = False
        #: group.instance.id -> member id.
        self.static_members: dict[str, str] = {}
        #: (topic id, partition) -> the member that holds it.
        self.holders: dict[tuple[bytes, int], str] = {}
        #: The partitions of members whose assignment was deleted, until the next epoch or assignment is replayed.
        self.last_held: dict[str, Partitions] = {}
        #: The group was just upgraded from a classic group in a rebalance: the next heartbeat increments the epoch.
        self.was_rebalancing = False
        #: Topics may have been created since the regular expressions were last resolved.
        self.has_outdated_regexes = True

    # Queries.

    @property
    def state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.target_epoch:
            return GroupState.ASSIGNING
        if all(m.state is MemberState.STABLE and m.epoch == self.target_epoch for m in self.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    def is_held(self, topic_id: bytes, index: int) -> bool:
        return (topic_id, index) in self.holders

    def topics_of(self, metadata: ConsumerGroupMemberMetadataValue) -> set[str]:
        """Returns the subscribed topic names, including topics that do not exist."""
        regex = metadata.subscribed_topic_regex
        resolved = self.regexes.get(regex) if regex else None
        return {*metadata.subscribed_topic_names, *(resolved.topics if resolved is not None else ())}

    def is_regex_used(self, regex: str) -> bool:
        return regex in self.regex_users

    def subscribed_topics(self) -> set[str]:
        by_regex = [value.topics for regex, value in self.regexes.items() if regex in self.regex_users]
        return set(self.name_users).union(*by_regex)

    def input_topics(self) -> set[str]:
        return self.subscribed_topics()

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.name_users or any(
            topic in value.topics for regex, value in self.regexes.items() if regex in self.regex_users
        )

    def assignor(self, available: Iterable[str]) -> str:
        """Returns the assignor that most members request; else the first available one."""
        names = list(available)
        votes = [m.metadata.server_assignor for m in self.members.values() if m.metadata.server_assignor in names]
        return max(names, key=votes.count)

    # Replay.

    def _replay_epoch(self, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue) -> None:
        self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
        self.last_held.clear()

    @staticmethod
    def target_from(value: ConsumerGroupTargetAssignmentMemberValue) -> Partitions:
        return as_partitions(value.topic_partitions)

    def _replay_regex(
        self, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None
    ) -> None:
        self.regexes.pop(key.regular_expression, None)
        if value is not None:
            self.regexes[key.regular_expression] = value

    def _replay_partition_metadata(self, key: ConsumerGroupPartitionMetadataKey, value: Message | None) -> None:
        self.has_partition_metadata = value is not None

    def _replay_member(
        self, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
    ) -> None:
        member_id = key.member_id
        before = self.members.get(member_id)
        self._count(value, 1)
        self._count(before.metadata if before is not None else None, -1)
        if value is None:
            if before is not None:
                self._release(before)
                del self.members[member_id]
                self._forget_instance(before)
                self.cancel_timers_of(member_id)
            return
        if before is None:
            self.members[member_id] = Member(member_id, value)
        else:
            self._forget_instance(before)
            self.members[member_id] = Member(
                member_id, value, before.epoch, before.previous_epoch, before.state, before.assigned, before.revoking
            )
        if value.instance_id is not None:
            self.static_members[value.instance_id] = member_id

    def _replay_current(
        self, key: ConsumerGroupCurrentMemberAssignmentKey, value: ConsumerGroupCurrentMemberAssignmentValue | None
    ) -> None:
        member_id = key.member_id
        before = self.members.get(member_id)
        if before is None:
            if value is None:
                return
            # In a compacted log a member's newer metadata may follow its assignment.
            before = Member(member_id, EMPTY_METADATA)
        self._release(before)
        if value is None:
            self.last_held[member_id] = held_partitions(before)
            self.members[member_id] = Member(member_id, before.metadata, LEAVE_EPOCH, LEAVE_EPOCH)
            return
        self.last_held.clear()
        member = self.members[member_id] = Member(
            member_id,
            before.metadata,
            value.member_epoch,
            value.previous_member_epoch,
            state_from_record(value.state),
            owned_from_record(value.assigned_partitions, value.member_epoch),
            owned_from_record(value.partitions_pending_revocation, value.member_epoch),
        )
        for place in member.held():
            self.holders[place] = member_id

    def _count(self, metadata: ConsumerGroupMemberMetadataValue | None, by: int) -> None:
        """Counts a member's subscriptions, so that queries need not iterate over all members."""
        if metadata is None:
            return
        for users, names in (
            (self.name_users, metadata.subscribed_topic_names),
            (self.regex_users, filter(None, [metadata.subscribed_topic_regex])),
        ):
            for name in names:
                users[name] += by
                if not users[name]:
                    del users[name]

    def _release(self, member: Member) -> None:
        for place in member.held():
            if self.holders.get(place) == member.member_id:
                del self.holders[place]

    def _forget_instance(self, member: Member) -> None:
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]

    REPLAYS = {
        ConsumerGroupMetadataKey: _replay_epoch,
        ConsumerGroupPartitionMetadataKey: _replay_partition_metadata,
        ConsumerGroupMemberMetadataKey: _replay_member,
        ConsumerGroupTargetAssignmentMetadataKey: AssignedGroup.replay_target_epoch,
        ConsumerGroupTargetAssignmentMemberKey: AssignedGroup.replay_target,
        ConsumerGroupCurrentMemberAssignmentKey: _replay_current,
        ConsumerGroupRegularExpressionKey: _replay_regex,
    }


# The records of consumer groups, written as Kafka 4.4 orders them.


def _target_value(partitions: Partitions) -> ConsumerGroupTargetAssignmentMemberValue:
    topics = [TopicPartition(topic_id=t, partitions=sorted(partitions[t])) for t in sorted(partitions)]
    return ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics)


_RECORDS = AssignedRecords(
    member_key=ConsumerGroupMemberMetadataKey,
    current_key=ConsumerGroupCurrentMemberAssignmentKey,
    target_key=ConsumerGroupTargetAssignmentMemberKey,
    target_epoch_key=ConsumerGroupTargetAssignmentMetadataKey,
    target_epoch_value=ConsumerGroupTargetAssignmentMetadataValue,
    target_value=_target_value,
)
write_target = _RECORDS.write_target
write_targets = _RECORDS.write_targets
write_target_epoch = _RECORDS.write_target_epoch
remove_member = _RECORDS.remove_member


def write_epoch(state: ShardState, group_id: str, epoch: int, metadata_hash: int) -> None:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    write(state, ConsumerGroupMetadataKey(group_id=group_id), value)


def write_member(
    state: ShardState, group_id: str, member_id: str, value: ConsumerGroupMemberMetadataValue | None
) -> None:
    write(state, ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), value)


def write_current(state: ShardState, group_id: str, member: Member) -> None:
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    write(state, key, current_assignment(member))


def delete_partition_metadata(state: ShardState, group_id: str) -> None:
    write(state, ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def write_regex(
    state: ShardState, group_id: str, regex: str, value: ConsumerGroupRegularExpressionValue | None
) -> None:
    write(state, ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value)


def replace_member(state: ShardState, group: ConsumerGroup, before: Member, member_id: str) -> Member:
    """Replaces a static member that returns, perhaps under another id. The new one takes over its state."""
    group_id, target = group.group_id, group.targets.get(before.member_id, {})
    after = replace(before, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    remove_member(state, group_id, before.member_id)
    write_member(state, group_id, member_id, after.metadata)
    write_target(state, group_id, member_id, target)
    write_current(state, group_id, after)
    return group.members[member_id]


def delete_group(state: ShardState, group: ConsumerGroup) -> None:
    """Deletes the group with its remaining members; if it has any, it continues as a group of another kind."""
    group_id = group.group_id
    members = list(group.members)
    for member_id in members:
        write(state, ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None)
    for member_id in members:
        write(state, ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None)
    write(state, ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)
    for member_id in members:
        write_member(state, group_id, member_id, None)
    for regex in list(group.regexes):
        write_regex(state, group_id, regex, None)
    delete_partition_metadata(state, group_id)
    write(state, ConsumerGroupMetadataKey(group_id=group_id), None)


# Subscriptions by regular expression (RE2): each is resolved once per group and kept in a record (KIP-848).
#
# Like Kafka, the coordinator resolves them after the response: a member with a new expression gets its topics with
# its next heartbeat. `update_regex` runs before the member's reconciliation, `resolve_regexes` after it.


#: The minimum interval between two resolutions of a group's expressions, however many topics are created.
RESOLUTION_INTERVAL_MS = 10_000


#: Returns those of some topics that the client of a request may describe.
Describable = Callable[[Collection[str]], Set[str]]


class RegexChange(Enum):
    NONE = 0
    #: The topics of the expression are not known yet.
    UNRESOLVED = 1
    RESOLVED = 2


def check_new_regex(group: ConsumerGroup, member: Member, metadata: ConsumerGroupMemberMetadataValue) -> None:
    """Checks a new expression. Raises InvalidRegularExpression. An expression in use by the group is valid already."""
    regex = metadata.subscribed_topic_regex
    if regex and regex != member.metadata.subscribed_topic_regex and not group.is_regex_used(regex):
        compiled(regex)


def update_regex(
    state: ShardState, group: ConsumerGroup, before: ConsumerGroupMemberMetadataValue, regex: str | None
) -> RegexChange:
    """Handles a changed expression after the member's metadata is written. `before`: the previous metadata."""
    old = before.subscribed_topic_regex
    if old == regex:
        return RegexChange.NONE
    if old and old in group.regexes and not group.is_regex_used(old):
        write_regex(state, group.group_id, old, None)
    if regex:
        return RegexChange.RESOLVED if regex in group.regexes else RegexChange.UNRESOLVED
    return RegexChange.RESOLVED if old else RegexChange.UNRESOLVED


def resolve_regexes(state: ShardState, group: ConsumerGroup, now: int, describable: Describable | None = None) -> None:
    """Resolves new expressions, and all of them again after topics were created or deleted.

    As in Kafka, topics that the member of this heartbeat may not describe are left out, for all members.
    """
    if not group.regex_users:
        return  # the usual case
    used = set(group.regex_users)
    last_ms = max((value.timestamp for value in group.regexes.values()), default=None)
    if last_ms is not None and now <= last_ms + RESOLUTION_INTERVAL_MS:
        return
    is_old = last_ms is not None and now > last_ms + state.config.consumer_regex_refresh_interval_ms
    if used == group.regexes.keys() and not group.has_outdated_regexes and not is_old:
        return
    group.has_outdated_regexes = False
    is_changed = False
    for regex in sorted(used):
        topics = matching_topics(state.image, regex)
        if describable is not None:
            allowed = describable(topics)
            topics = [topic for topic in topics if topic in allowed]
        known = group.regexes.get(regex)
        is_changed |= (known.topics if known is not None else []) != topics
        value = ConsumerGroupRegularExpressionValue(topics=topics, version=max(state.image.offset, 0), timestamp=now)
        write_regex(state, group.group_id, regex, value)
    digest = metadata_hash(state.image, group.subscribed_topics())
    if is_changed or digest != group.metadata_hash:
        write_epoch(state, group.group_id, group.epoch + 1, digest)
        state.counters.consumer_rebalances += 1


def unused_regexes(group: ConsumerGroup) -> list[str]:
    return [regex for regex in group.regexes if not group.is_regex_used(regex)]
