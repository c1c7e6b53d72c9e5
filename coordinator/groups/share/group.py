"""One share group: the state that its records define (KIP-932).

Empty    no members
Stable   has members; each moves to the target's epoch with its next heartbeat, since members may share a partition

Only replayed records change this state, except timers and the time of the last request to the persister.
"""

from __future__ import annotations

from enum import Enum

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
)
from ..assigned_group import AssignedGroup
from ..consumer.member import Partitions, as_partitions
from ..member_epochs import LEAVE_EPOCH
from .member import EMPTY_METADATA, ShareMember
from .state_partitions import StatePartitions, from_record


class ShareGroupState(Enum):
    EMPTY = "Empty"
    STABLE = "Stable"


class ShareGroup(AssignedGroup[ShareMember, Partitions]):
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
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

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
            self.members[member_id] = ShareMember(member_id, value)
        else:
            self.members[member_id] = ShareMember(
                member_id, value, before.epoch, before.previous_epoch, before.assigned
            )

    def _replay_current(
        self, key: ShareGroupCurrentMemberAssignmentKey, value: ShareGroupCurrentMemberAssignmentValue | None
    ) -> None:
        member_id = key.member_id
        before = self.members.get(member_id)
        if before is None:
            if value is None:
                return
            # In a compacted log a member's newer metadata may follow its assignment.
            before = ShareMember(member_id, EMPTY_METADATA)
        if value is None:
            self.members[member_id] = ShareMember(member_id, before.metadata, LEAVE_EPOCH, LEAVE_EPOCH)
        else:
            self.members[member_id] = ShareMember(
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
