"""One share group: the state that its records define (KIP-932).

Empty    no members
Stable   has members; each moves to the target's epoch with its next heartbeat, since members may share a partition

Only replayed records change this state, except timers and the time of the last request to the persister.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ....metadata.image import MetadataImage
from ....protocol.internal.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    TopicInfo,
    TopicPartition,
    TopicPartitions,
    TopicPartitionsInfo,
)
from ....protocol.schema import Message
from ..assigned_group import AssignedGroup, AssignedRecords, write
from ..consumer.group import JOIN_EPOCH, LEAVE_EPOCH, Partitions, as_partitions
from ..state import number

if TYPE_CHECKING:
    from ..state import ShardState


# The settings of a share group: its own configuration if present, else the broker's (KIP-932).


def session_timeout_ms(state: ShardState, group_id: str) -> int:
    return number(state, group_id, "share.session.timeout.ms", state.config.share_session_timeout_ms)


def heartbeat_interval_ms(state: ShardState, group_id: str) -> int:
    return number(state, group_id, "share.heartbeat.interval.ms", state.config.share_heartbeat_interval_ms)


def assignment_interval_ms(state: ShardState, group_id: str) -> int:
    return number(state, group_id, "share.assignment.interval.ms", state.config.share_assignment_interval_ms)


# The record types of share groups in `__consumer_offsets`: version number of the key, key class and value class.


RECORD_TYPES: dict[int, tuple[type[Message], type[Message]]] = {
    10: (ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
    11: (ShareGroupMetadataKey, ShareGroupMetadataValue),
    12: (ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
    13: (ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
    14: (ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
    15: (ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
}


# The share partitions of a group by their state in the persister. Only initialized partitions are assigned.
#
# initializing   the persister was asked to initialize them; the request is repeated if no response arrives for a
# while initialized    the persister has initialized them deleting       the persister was asked to delete them


UNKNOWN_TOPIC = "<UNKNOWN>"


class TopicState(NamedTuple):
    name: str
    partitions: frozenset[int]
    #: Time when the record of this state was replayed.
    since_ms: int = 0


TopicStates = Mapping[bytes, TopicState]


@dataclass(frozen=True, slots=True)
class StatePartitions:
    initializing: TopicStates = field(default_factory=dict)
    initialized: TopicStates = field(default_factory=dict)
    #: Topic id -> name.
    deleting: Mapping[bytes, str] = field(default_factory=dict)

    def known(self, retry_before_ms: int) -> TopicStates:
        """Returns the partitions that need no request. Requests older than `retry_before_ms` are repeated."""
        recent = {t: s for t, s in self.initializing.items() if s.since_ms > retry_before_ms}
        return joined(self.initialized, recent)

    def is_empty(self) -> bool:
        return not (self.initializing or self.initialized or self.deleting)


def joined(a: TopicStates, b: TopicStates) -> dict[bytes, TopicState]:
    """Returns the union of both, partition by partition."""
    result = dict(a)
    for topic_id, state in b.items():
        before = result.get(topic_id)
        result[topic_id] = state if before is None else state._replace(partitions=before.partitions | state.partitions)
    return result


def without(a: TopicStates, partitions: Mapping[bytes, frozenset[int]]) -> dict[bytes, TopicState]:
    left = {t: s._replace(partitions=s.partitions - partitions.get(t, frozenset())) for t, s in a.items()}
    return {topic_id: state for topic_id, state in left.items() if state.partitions}


def missing(states: StatePartitions, image: MetadataImage, names: Iterable[str], retry_before_ms: int) -> TopicStates:
    """Returns the partitions of these topics that the persister must initialize, by the current metadata."""
    known = states.known(retry_before_ms)
    result: dict[bytes, TopicState] = {}
    for name in sorted(names):
        topic = image.topic(name)
        if topic is not None:
            have = known[topic.id].partitions if topic.id in known else frozenset()
            wanted = frozenset(range(len(topic.partitions))) - have
            if wanted:
                result[topic.id] = TopicState(name, wanted)
    return result


def as_record(states: StatePartitions) -> ShareGroupStatePartitionMetadataValue:
    return ShareGroupStatePartitionMetadataValue(
        initializing_topics=_infos(states.initializing),
        initialized_topics=_infos(states.initialized),
        deleting_topics=[TopicInfo(topic_id=t, topic_name=name) for t, name in states.deleting.items()],
    )


def from_record(value: ShareGroupStatePartitionMetadataValue, now: int) -> StatePartitions:
    return StatePartitions(
        _states(value.initializing_topics, now),
        _states(value.initialized_topics, now),
        {topic.topic_id: topic.topic_name for topic in value.deleting_topics},
    )


def _infos(states: TopicStates) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=t, topic_name=s.name, partitions=sorted(s.partitions)) for t, s in states.items()
    ]


def _states(topics: Iterable[TopicPartitionsInfo], now: int) -> dict[bytes, TopicState]:
    return {t.topic_id: TopicState(t.topic_name, frozenset(t.partitions), now) for t in topics}


# One member of a share group, as replayed from the log. Partitions are never revoked, so members have no states.


__all__ = ["JOIN_EPOCH", "LEAVE_EPOCH", "EMPTY_METADATA", "Member", "Partitions"]


#: Metadata of a member before its first heartbeat.
EMPTY_METADATA = ShareGroupMemberMetadataValue(rack_id=None)


@dataclass(frozen=True, slots=True)
class Member:
    member_id: str
    metadata: ShareGroupMemberMetadataValue
    epoch: int = JOIN_EPOCH
    previous_epoch: int = -1
    assigned: Partitions = field(default_factory=dict)


class GroupState(Enum):
    EMPTY = "Empty"
    STABLE = "Stable"


class ShareGroup(AssignedGroup[Member, Partitions]):
    kind = "share"
    protocol_type = "share"

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.metadata_hash = 0
        #: The state partitions of the persister; None before there is a record of them.
        self.states: StatePartitions | None = None
        #: Time of the last request to the persister.
        self.asked_ms = 0

    # Queries.

    @property
    def state(self) -> GroupState:
        return GroupState.STABLE if self.members else GroupState.EMPTY

    def subscribed_topics(self) -> set[str]:
        return {name for member in self.members.values() for name in member.metadata.subscribed_topic_names}

    def input_topics(self) -> set[str]:
        return self.subscribed_topics()

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed_topics()

    def has_unassigned_states(self) -> bool:
        """Returns whether the persister has initialized partitions that the target does not contain yet."""
        names = self.subscribed_topics()
        if self.states is None or not names:
            return False
        assigned: dict[bytes, set[int]] = {}
        for partitions in self.targets.values():
            for topic_id, indexes in partitions.items():
                assigned.setdefault(topic_id, set()).update(indexes)
        return any(
            state.name in names and frozenset(assigned.get(topic_id, ())) != state.partitions
            for topic_id, state in self.states.initialized.items()
        )

    # Replay.

    def _replay_epoch(self, key: ShareGroupMetadataKey, value: ShareGroupMetadataValue) -> None:
        self.epoch, self.metadata_hash = value.epoch, value.metadata_hash

    @staticmethod
    def target_from(value: ShareGroupTargetAssignmentMemberValue) -> Partitions:
        return as_partitions(value.topic_partitions)

    def _replay_states(
        self, key: ShareGroupStatePartitionMetadataKey, value: ShareGroupStatePartitionMetadataValue | None
    ) -> None:
        self.states = None if value is None else from_record(value, self.asked_ms)

    def _replay_member(self, key: ShareGroupMemberMetadataKey, value: ShareGroupMemberMetadataValue | None) -> None:
        member_id = key.member_id
        before = self.members.get(member_id)
        if value is None:
            self.members.pop(member_id, None)
            self.cancel_timers_of(member_id)
        elif before is None:
            self.members[member_id] = Member(member_id, value)
        else:
            self.members[member_id] = Member(member_id, value, before.epoch, before.previous_epoch, before.assigned)

    def _replay_current(
        self, key: ShareGroupCurrentMemberAssignmentKey, value: ShareGroupCurrentMemberAssignmentValue | None
    ) -> None:
        member_id = key.member_id
        before = self.members.get(member_id)
        if before is None:
            if value is None:
                return
            # In a compacted log a member's newer metadata may follow its assignment.
            before = Member(member_id, EMPTY_METADATA)
        if value is None:
            self.members[member_id] = Member(member_id, before.metadata, LEAVE_EPOCH, LEAVE_EPOCH)
        else:
            self.members[member_id] = Member(
                member_id,
                before.metadata,
                value.member_epoch,
                value.previous_member_epoch,
                as_partitions(value.assigned_partitions),
            )

    REPLAYS = {
        ShareGroupMetadataKey: _replay_epoch,
        ShareGroupMemberMetadataKey: _replay_member,
        ShareGroupTargetAssignmentMetadataKey: AssignedGroup.replay_target_epoch,
        ShareGroupTargetAssignmentMemberKey: AssignedGroup.replay_target,
        ShareGroupCurrentMemberAssignmentKey: _replay_current,
        ShareGroupStatePartitionMetadataKey: _replay_states,
    }


# The records of share groups, written as Kafka 4.4 orders them.


_STABLE = 0


def _target_value(partitions: Partitions) -> ShareGroupTargetAssignmentMemberValue:
    topics = [TopicPartition(topic_id=t, partitions=sorted(partitions[t])) for t in sorted(partitions)]
    return ShareGroupTargetAssignmentMemberValue(topic_partitions=topics)


_RECORDS = AssignedRecords(
    member_key=ShareGroupMemberMetadataKey,
    current_key=ShareGroupCurrentMemberAssignmentKey,
    target_key=ShareGroupTargetAssignmentMemberKey,
    target_epoch_key=ShareGroupTargetAssignmentMetadataKey,
    target_epoch_value=ShareGroupTargetAssignmentMetadataValue,
    target_value=_target_value,
)
write_targets = _RECORDS.write_targets
write_target_epoch = _RECORDS.write_target_epoch
remove_member = _RECORDS.remove_member


def write_epoch(state: ShardState, group_id: str, epoch: int, metadata_hash: int) -> None:
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    write(state, ShareGroupMetadataKey(group_id=group_id), value)


def write_member(state: ShardState, group_id: str, member_id: str, value: ShareGroupMemberMetadataValue) -> None:
    write(state, ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), value)


def write_current(state: ShardState, group_id: str, member: Member) -> None:
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=_STABLE,
        assigned_partitions=[
            TopicPartitions(topic_id=t, partitions=sorted(indexes)) for t, indexes in member.assigned.items()
        ],
    )
    write(state, ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value)


def write_states(state: ShardState, group_id: str, states: StatePartitions) -> None:
    write(state, ShareGroupStatePartitionMetadataKey(group_id=group_id), as_record(states))


def delete_group(state: ShardState, group: ShareGroup) -> None:
    assert not group.members, "only an empty group is deleted"
    group_id = group.group_id
    write(state, ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None)
    write(state, ShareGroupStatePartitionMetadataKey(group_id=group_id), None)
    write(state, ShareGroupMetadataKey(group_id=group_id), None)
