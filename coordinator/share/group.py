"""One share group: what its records say, and what follows from that (KIP-932).

Empty    no members
Stable   it has some; each goes to the target's epoch with its next heartbeat, for several may have one partition

All of it is set by replaying records only, but for timers, and when the persister was asked.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from ...protocol.internal.share_group_records import (
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
)
from ...protocol.schema import Message
from ..consumer.member import as_partitions
from ..timers import Timer
from .member import LEAVE_EPOCH, NOTHING_SAID, Member, Partitions
from .state_partitions import StatePartitions, from_record


class GroupState(Enum):
    EMPTY = "Empty"
    STABLE = "Stable"


class ShareGroup:
    kind: ClassVar[str] = "share"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 1
        self.metadata_hash = 0
        self.target_epoch = 1
        #: When the target was made; 0 when it never was.
        self.target_timestamp_ms = 0
        self.members: dict[str, Member] = {}
        #: Member id -> what it is to have.
        self.targets: dict[str, Partitions] = {}
        #: What the persister knows; None before there is a record of it.
        self.states: StatePartitions | None = None
        #: Topics may have changed since the group was last compared with them.
        self.is_outdated = True
        #: When the persister was last asked.
        self.asked_ms = 0
        self.sessions: dict[str, Timer] = {}

    # Questions.

    @property
    def state(self) -> GroupState:
        return GroupState.STABLE if self.members else GroupState.EMPTY

    @property
    def protocol_type(self) -> str:
        return "share"

    def subscribed_topics(self) -> set[str]:
        return {name for member in self.members.values() for name in member.metadata.subscribed_topic_names}

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed_topics()

    def has_unassigned_states(self) -> bool:
        """Whether the persister has begun partitions that the target does not have yet."""
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

    def replay(self, key: Message, value: Message | None) -> None:
        if isinstance(key, ShareGroupMetadataKey):
            assert isinstance(value, ShareGroupMetadataValue)
            self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
        elif isinstance(key, ShareGroupMemberMetadataKey):
            assert value is None or isinstance(value, ShareGroupMemberMetadataValue)
            self._replay_member(key.member_id, value)
        elif isinstance(key, ShareGroupCurrentMemberAssignmentKey):
            assert value is None or isinstance(value, ShareGroupCurrentMemberAssignmentValue)
            self._replay_current(key.member_id, value)
        elif isinstance(key, ShareGroupTargetAssignmentMemberKey):
            assert value is None or isinstance(value, ShareGroupTargetAssignmentMemberValue)
            self.targets.pop(key.member_id, None)
            if value is not None:
                self.targets[key.member_id] = as_partitions(value.topic_partitions)
        elif isinstance(key, ShareGroupTargetAssignmentMetadataKey):
            assert value is None or isinstance(value, ShareGroupTargetAssignmentMetadataValue)
            self.target_epoch = 0 if value is None else value.assignment_epoch
            self.target_timestamp_ms = 0 if value is None else value.assignment_timestamp
        else:
            assert isinstance(key, ShareGroupStatePartitionMetadataKey)
            assert value is None or isinstance(value, ShareGroupStatePartitionMetadataValue)
            self.states = None if value is None else from_record(value, self.asked_ms)

    def _replay_member(self, member_id: str, value: ShareGroupMemberMetadataValue | None) -> None:
        before = self.members.get(member_id)
        if value is None:
            self.members.pop(member_id, None)
            self.cancel_session(member_id)
        elif before is None:
            self.members[member_id] = Member(member_id, value)
        else:
            self.members[member_id] = Member(member_id, value, before.epoch, before.previous_epoch, before.assigned)

    def _replay_current(self, member_id: str, value: ShareGroupCurrentMemberAssignmentValue | None) -> None:
        before = self.members.get(member_id)
        if before is None:
            if value is None:
                return
            # A compacted log may have a member's newer metadata behind its assignment.
            before = Member(member_id, NOTHING_SAID)
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

    # Timers.

    def session(self, member_id: str) -> Timer:
        return self.sessions.setdefault(member_id, Timer(("share session", self.group_id, member_id)))

    def cancel_session(self, member_id: str) -> None:
        timer = self.sessions.pop(member_id, None)
        if timer is not None:
            timer.cancel()

    def cancel_timers(self) -> None:
        for member_id in list(self.sessions):
            self.cancel_session(member_id)
