"""One streams group: the state that its records define.

Empty          no members
NotReady       the topics do not match the topology (yet): no member gets tasks
Assigning      the target epoch is lower than the group epoch
Reconciling    some member does not have its part of the target yet
Stable         all members have their part of the target

The epochs are as in a consumer group (KIP-848): the group's, the target's, each member's. Only replayed records
change the durable state. The rest concerns live members, which send it again after a failover.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from ....protocol.internal.streams_group_records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from ...timers import Timer
from ..assigned_group import FIRST_EPOCH, AssignedGroup
from ..member_epochs import LEAVE_EPOCH
from .configured import ConfiguredTopology
from .holders import TaskHolders
from .member import StreamsMember, member_from_record
from .tasks import NO_TASKS, NOTHING_HELD, TaskId, Tasks, tasks_in
from .topology import input_topics, is_same, required_topics

NO_TOPOLOGY_EPOCH = -1


@dataclass(frozen=True, slots=True)
class DescriptionWait:
    """The wait before the description is requested again. The next wait is twice as long."""

    until_ms: int
    ms: int


class StreamsGroupState(Enum):
    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class StreamsGroup(AssignedGroup[StreamsMember, Tasks]):
    kind = "streams"
    protocol_type = "streams"

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        #: Epoch, metadata hash, validated topology epoch, and the configuration of the last assignment.
        self.metadata = StreamsGroupMetadataValue(epoch=FIRST_EPOCH)
        self.topology: StreamsGroupTopologyValue | None = None
        #: group.instance.id -> member id.
        self.static_members: dict[str, str] = {}
        self.holders = TaskHolders()
        # State of live members.
        #: The topology configured with the topics as last inspected; None if not configured yet.
        self.configured: ConfiguredTopology | None = None
        #: The wait since a member was last asked for the topology description.
        self.description_wait: DescriptionWait | None = None
        #: The member that requested the shutdown of the whole application.
        self.shutdown_asked_by: str | None = None
        #: Incremented when the partitions of a user endpoint change (interactive queries).
        self.endpoint_epoch = 0
        #: Member id -> task -> the offset of its state, and the end offset of its changelog, as last reported.
        self.task_offsets: dict[str, dict[TaskId, int]] = {}
        self.task_end_offsets: dict[str, dict[TaskId, int]] = {}
        #: Delays the first assignment while the first members join.
        self.delay_timer = Timer(("streams delay", group_id))

    # Queries.

    @property
    def state(self) -> StreamsGroupState:
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.metadata.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.target_epoch:
            return StreamsGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    @property
    def assignment_configs(self) -> dict[str, str]:
        return {config.key: config.value for config in self.metadata.last_assignment_configs or ()}

    def target_of(self, member_id: str) -> Tasks:
        return self.targets.get(member_id, NO_TASKS)

    def required_topics(self) -> set[str]:
        return required_topics(self.topology) if self.topology is not None else set()

    def input_topics(self) -> set[str]:
        if not self.members or self.topology is None:
            return set()
        return {topic for one in self.topology.subtopologies for topic in input_topics(one)}

    def is_subscribed_to(self, topic: str) -> bool:
        if not self.members or self.topology is None:
            return False
        return any(topic in input_topics(one) for one in self.topology.subtopologies)

    # Replay.

    def _replay_metadata(self, key: StreamsGroupMetadataKey, value: StreamsGroupMetadataValue) -> None:
        self.metadata, self.epoch = value, value.epoch

    def _replay_topology(self, key: StreamsGroupTopologyKey, value: StreamsGroupTopologyValue | None) -> None:
        if value is None or self.topology is None or not is_same(self.topology, value):
            self.configured = None
        self.topology = value

    @staticmethod
    def target_from(value: StreamsGroupTargetAssignmentMemberValue) -> Tasks:
        return Tasks(*(tasks_in(role) for role in (value.active_tasks, value.standby_tasks, value.warmup_tasks)))

    def _replay_member(self, key: StreamsGroupMemberMetadataKey, value: StreamsGroupMemberMetadataValue | None) -> None:
        member_id = key.member_id
        before = self.members.get(member_id)
        if value is not None:
            self._put(before, replace(before or StreamsMember(member_id), metadata=value))
        elif before is not None:
            self._forget(before)
            del self.members[member_id]
            self.task_offsets.pop(member_id, None)
            self.task_end_offsets.pop(member_id, None)
            self.cancel_timers_of(member_id)
            if not self.members:
                self.shutdown_asked_by = None

    def _replay_current(
        self, key: StreamsGroupCurrentMemberAssignmentKey, value: StreamsGroupCurrentMemberAssignmentValue | None
    ) -> None:
        member_id = key.member_id
        before = self.members.get(member_id)
        if value is not None:
            # In a compacted log a member's newer metadata may follow its assignment.
            known = before or StreamsMember(member_id)
            self._put(before, member_from_record(member_id, known.metadata, value))
        elif before is not None:
            left = replace(before, epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH)
            self._put(before, replace(left, assigned=NOTHING_HELD, revoking=NOTHING_HELD))

    def _put(self, before: StreamsMember | None, member: StreamsMember) -> None:
        if before is not None:
            self._forget(before)
        self.members[member.member_id] = member
        self.holders.take(member)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def _forget(self, member: StreamsMember) -> None:
        self.holders.release(member)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]

    REPLAYS = {
        StreamsGroupMetadataKey: _replay_metadata,
        StreamsGroupMemberMetadataKey: _replay_member,
        StreamsGroupTargetAssignmentMetadataKey: AssignedGroup.replay_target_epoch,
        StreamsGroupTargetAssignmentMemberKey: AssignedGroup.replay_target,
        StreamsGroupCurrentMemberAssignmentKey: _replay_current,
        StreamsGroupTopologyKey: _replay_topology,
    }

    # Timers.

    def cancel_timers(self) -> None:
        self.delay_timer.cancel()
        super().cancel_timers()
