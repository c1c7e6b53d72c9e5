"""One consumer group: the state that its records define.

Besides the group's two epochs (groups/assigned_group.py) each member has its own epoch, and advances it at its own pace
(reconciliation.py).

Empty          no members
Assigning      the target epoch is lower than the group epoch
Reconciling    some member does not have its part of the target yet
Stable         all members have their part of the target

Only replayed records change this state. Timers track live members: `restore` (targets.py) starts them after a load.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum

from ....protocol.internal.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from ....protocol.schema import Message
from ..assigned_group import AssignedGroup
from ..member_epochs import LEAVE_EPOCH
from .member import (
    EMPTY_METADATA,
    ConsumerMember,
    ConsumerMemberState,
    Partitions,
    as_partitions,
    held_partitions,
    owned_from_record,
    state_from_record,
)


class ConsumerGroupState(Enum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup(AssignedGroup[ConsumerMember, Partitions]):
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
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(m.state is ConsumerMemberState.STABLE and m.epoch == self.target_epoch for m in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

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
            self.members[member_id] = ConsumerMember(member_id, value)
        else:
            self._forget_instance(before)
            self.members[member_id] = ConsumerMember(
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
            before = ConsumerMember(member_id, EMPTY_METADATA)
        self._release(before)
        if value is None:
            self.last_held[member_id] = held_partitions(before)
            self.members[member_id] = ConsumerMember(member_id, before.metadata, LEAVE_EPOCH, LEAVE_EPOCH)
            return
        self.last_held.clear()
        member = self.members[member_id] = ConsumerMember(
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

    def _release(self, member: ConsumerMember) -> None:
        for place in member.held():
            if self.holders.get(place) == member.member_id:
                del self.holders[place]

    def _forget_instance(self, member: ConsumerMember) -> None:
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
