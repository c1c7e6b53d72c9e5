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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from ....metadata.image import GROUP_RESOURCE
from ....protocol.internal.streams_group_records import (
    LastAssignmentConfig,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentTaskIds,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberTaskIds,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from ....protocol.schema import Message
from ...result import Timer
from ..assigned_group import FIRST_EPOCH, AssignedGroup, AssignedRecords, write
from ..state import number
from .topology import ConfiguredTopology, input_topics, is_same, required_topics

if TYPE_CHECKING:
    from ..state import ShardState


# The settings of a streams group: its own configuration if present, else the broker's (KIP-1071).


def session_timeout_ms(state: ShardState, group_id: str) -> int:
    return number(state, group_id, "streams.session.timeout.ms", state.config.streams.session_timeout_ms)


def heartbeat_interval_ms(state: ShardState, group_id: str) -> int:
    return number(state, group_id, "streams.heartbeat.interval.ms", state.config.streams.heartbeat_interval_ms)


def assignment_interval_ms(state: ShardState, group_id: str) -> int:
    return number(state, group_id, "streams.assignment.interval.ms", state.config.streams.assignment_interval_ms)


def initial_rebalance_delay_ms(state: ShardState, group_id: str) -> int:
    of_broker = state.config.streams.initial_rebalance_delay_ms
    return number(state, group_id, "streams.initial.rebalance.delay.ms", of_broker)


def task_offset_interval_ms(state: ShardState, group_id: str) -> int:
    return number(state, group_id, "streams.task.offset.interval.ms", state.config.streams.task_offset_interval_ms)


def acceptable_recovery_lag(state: ShardState, group_id: str) -> int:
    return number(state, group_id, "streams.acceptable.recovery.lag", state.config.streams.acceptable_recovery_lag)


def assignment_configs(state: ShardState, group_id: str) -> dict[str, str]:
    """Returns the assignment configuration in the form of the group's record. A change causes a new assignment."""
    replicas = number(state, group_id, "streams.num.standby.replicas", state.config.streams.num_standby_replicas)
    configs = {"num.standby.replicas": str(replicas)}
    tags = rack_aware_tags(state, group_id)
    return configs | ({"rack.aware.assignment.tags": ",".join(tags)} if tags else {})


def num_standby_replicas(configs: dict[str, str]) -> int:
    return int(configs.get("num.standby.replicas", "0"))


def rack_aware_tags(state: ShardState, group_id: str) -> tuple[str, ...]:
    own = state.image.config(GROUP_RESOURCE, group_id).get("streams.rack.aware.assignment.tags")
    if own is None:
        return state.config.streams.rack_aware_assignment_tags
    return tuple(tag for one in own.split(",") if (tag := one.strip()))


# The record types of streams groups: the version number of their keys, key class and value class.


RECORD_TYPES: dict[int, tuple[type[Message], type[Message]]] = {
    17: (StreamsGroupMetadataKey, StreamsGroupMetadataValue),
    19: (StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue),
    20: (StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue),
    21: (StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue),
    22: (StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue),
    23: (StreamsGroupTopologyKey, StreamsGroupTopologyValue),
}


# Tasks: the unit of assignment in streams groups. A task is a subtopology and a partition of its input.
#
# A task has three roles. Only one member at a time has it as an active task. Standby and warm-up tasks are copies of
# its state, at most one per process (KIP-1071).


class TaskId(NamedTuple):
    subtopology_id: str
    partition: int


Some = frozenset[TaskId]


@dataclass(frozen=True, slots=True)
class Tasks:
    """The target tasks of a member, or the tasks that it reports."""

    active: Some = frozenset()
    standby: Some = frozenset()
    warmup: Some = frozenset()

    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)


@dataclass(frozen=True, slots=True)
class HeldTasks:
    """The tasks that a member holds, as replayed from the log."""

    #: Task -> the member epoch at which the task was assigned to the member (KIP-1251).
    active: Mapping[TaskId, int] = field(default_factory=dict)
    standby: Some = frozenset()
    warmup: Some = frozenset()

    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    def overlaps(self, tasks: Tasks) -> bool:
        """Returns whether both contain a common task in the same role."""
        active = any(task in tasks.active for task in self.active)
        return active or not self.standby.isdisjoint(tasks.standby) or not self.warmup.isdisjoint(tasks.warmup)

    def contains(self, tasks: Tasks) -> bool:
        active = all(task in self.active for task in tasks.active)
        return active and tasks.standby <= self.standby and tasks.warmup <= self.warmup


NO_TASKS = Tasks()
NOTHING_HELD = HeldTasks()


def tasks_in(structures: Iterable[Any]) -> Some:
    """Returns the tasks in any structures with `subtopology_id` and `partitions`."""
    return frozenset(TaskId(one.subtopology_id, index) for one in structures for index in one.partitions)


def by_subtopology(tasks: Iterable[TaskId]) -> dict[str, list[int]]:
    """Returns subtopology id -> partitions, both sorted."""
    found: dict[str, list[int]] = {}
    for subtopology_id, partition in sorted(tasks):
        found.setdefault(subtopology_id, []).append(partition)
    return found


# One member of a streams group, as replayed from the log: a thread of a process that runs the application.


JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2


def _nothing_said() -> StreamsGroupMemberMetadataValue:
    return StreamsGroupMemberMetadataValue(instance_id=None, rack_id=None, rebalance_timeout_ms=-1, topology_epoch=-1)


class MemberState(IntEnum):
    """The state of a member, described in assignment.py. The numbers are those of the records."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class Member:
    member_id: str
    metadata: StreamsGroupMemberMetadataValue = field(default_factory=_nothing_said)
    epoch: int = JOIN_EPOCH
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: HeldTasks = NOTHING_HELD
    #: The tasks that the member must revoke before it can advance to the next epoch.
    revoking: HeldTasks = NOTHING_HELD

    @property
    def is_classic(self) -> bool:
        """Returns False: the classic protocol has no tasks."""
        return False

    @property
    def instance_id(self) -> str | None:
        return self.metadata.instance_id

    @property
    def process_id(self) -> str:
        return self.metadata.process_id

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch


def current_assignment(member: Member) -> StreamsGroupCurrentMemberAssignmentValue:
    assigned, revoking = member.assigned, member.revoking
    return StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=int(member.state),
        active_tasks=_active(assigned),
        standby_tasks=_copies(assigned.standby),
        warmup_tasks=_copies(assigned.warmup),
        active_tasks_pending_revocation=_active(revoking),
        standby_tasks_pending_revocation=_copies(revoking.standby),
        warmup_tasks_pending_revocation=_copies(revoking.warmup),
    )


def _active(held: HeldTasks) -> list[StreamsGroupCurrentMemberAssignmentTaskIds]:
    return [
        StreamsGroupCurrentMemberAssignmentTaskIds(
            subtopology_id=subtopology_id,
            partitions=partitions,
            assignment_epochs=[held.active[TaskId(subtopology_id, index)] for index in partitions],
        )
        for subtopology_id, partitions in by_subtopology(held.active).items()
    ]


def _copies(tasks: Iterable[TaskId]) -> list[StreamsGroupCurrentMemberAssignmentTaskIds]:
    return [
        StreamsGroupCurrentMemberAssignmentTaskIds(
            subtopology_id=subtopology_id, partitions=partitions, assignment_epochs=None
        )
        for subtopology_id, partitions in by_subtopology(tasks).items()
    ]


def member_from_record(
    member_id: str, metadata: StreamsGroupMemberMetadataValue, value: StreamsGroupCurrentMemberAssignmentValue
) -> Member:
    epoch = value.member_epoch
    return Member(
        member_id,
        metadata,
        epoch,
        value.previous_member_epoch,
        MemberState(value.state) if value.state in (1, 2, 3) else MemberState.UNKNOWN,
        HeldTasks(_epochs(value.active_tasks, epoch), tasks_in(value.standby_tasks), tasks_in(value.warmup_tasks)),
        HeldTasks(
            _epochs(value.active_tasks_pending_revocation, epoch),
            tasks_in(value.standby_tasks_pending_revocation),
            tasks_in(value.warmup_tasks_pending_revocation),
        ),
    )


def _epochs(structures: Iterable[StreamsGroupCurrentMemberAssignmentTaskIds], member_epoch: int) -> dict[TaskId, int]:
    """Returns the tasks with their epochs. Records before Kafka 4.2 have no task epochs: the member's applies."""
    found: dict[TaskId, int] = {}
    for one in structures:
        epochs = one.assignment_epochs or []
        if len(epochs) != len(one.partitions):
            epochs = [member_epoch] * len(one.partitions)
        found.update({TaskId(one.subtopology_id, i): epoch for i, epoch in zip(one.partitions, epochs, strict=True)})
    return found


# The members that hold each task of a group, by role. Reconciliation waits for them (assignment.py).


#: Task -> member id -> process id.
_Role = dict[TaskId, dict[str, str]]
_NO_HOLDERS: Mapping[str, str] = {}


class TaskHolders:
    def __init__(self) -> None:
        self._active: _Role = {}
        self._standby: _Role = {}
        self._warmup: _Role = {}

    def of_active(self, task: TaskId) -> Mapping[str, str]:
        return self._active.get(task, _NO_HOLDERS)

    def of_standby(self, task: TaskId) -> Mapping[str, str]:
        return self._standby.get(task, _NO_HOLDERS)

    def of_warmup(self, task: TaskId) -> Mapping[str, str]:
        return self._warmup.get(task, _NO_HOLDERS)

    def take(self, member: Member) -> None:
        for held in (member.assigned, member.revoking):
            for role, tasks in self._roles(held):
                for task in tasks:
                    role.setdefault(task, {})[member.member_id] = member.process_id

    def release(self, member: Member) -> None:
        for held in (member.assigned, member.revoking):
            for role, tasks in self._roles(held):
                for task in tasks:
                    holders = role.get(task, {})
                    holders.pop(member.member_id, None)
                    if not holders:
                        role.pop(task, None)

    def _roles(self, held: HeldTasks) -> Iterable[tuple[_Role, Iterable[TaskId]]]:
        return ((self._active, held.active), (self._standby, held.standby), (self._warmup, held.warmup))


NO_TOPOLOGY_EPOCH = -1


@dataclass(frozen=True, slots=True)
class DescriptionWait:
    """The wait before the description is requested again. The next wait is twice as long."""

    until_ms: int
    ms: int


class GroupState(Enum):
    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class StreamsGroup(AssignedGroup[Member, Tasks]):
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
    def state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.metadata.validated_topology_epoch:
            return GroupState.NOT_READY
        if self.epoch > self.target_epoch:
            return GroupState.ASSIGNING
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

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
            self._put(before, replace(before or Member(member_id), metadata=value))
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
            known = before or Member(member_id)
            self._put(before, member_from_record(member_id, known.metadata, value))
        elif before is not None:
            left = replace(before, epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH)
            self._put(before, replace(left, assigned=NOTHING_HELD, revoking=NOTHING_HELD))

    def _put(self, before: Member | None, member: Member) -> None:
        if before is not None:
            self._forget(before)
        self.members[member.member_id] = member
        self.holders.take(member)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def _forget(self, member: Member) -> None:
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


# The records of streams groups, written as Kafka 4.4 orders them.


def _target_value(tasks: Tasks) -> StreamsGroupTargetAssignmentMemberValue:
    return StreamsGroupTargetAssignmentMemberValue(
        active_tasks=_role(tasks.active), standby_tasks=_role(tasks.standby), warmup_tasks=_role(tasks.warmup)
    )


def _role(tasks: Iterable[TaskId]) -> list[StreamsGroupTargetAssignmentMemberTaskIds]:
    return [
        StreamsGroupTargetAssignmentMemberTaskIds(subtopology_id=subtopology_id, partitions=partitions)
        for subtopology_id, partitions in by_subtopology(tasks).items()
    ]


_RECORDS = AssignedRecords(
    member_key=StreamsGroupMemberMetadataKey,
    current_key=StreamsGroupCurrentMemberAssignmentKey,
    target_key=StreamsGroupTargetAssignmentMemberKey,
    target_epoch_key=StreamsGroupTargetAssignmentMetadataKey,
    target_epoch_value=StreamsGroupTargetAssignmentMetadataValue,
    target_value=_target_value,
)
write_target = _RECORDS.write_target
write_targets = _RECORDS.write_targets
write_target_epoch = _RECORDS.write_target_epoch
remove_member = _RECORDS.remove_member


def write_metadata(
    state: ShardState,
    group: StreamsGroup,
    epoch: int,
    metadata_hash: int,
    validated_topology_epoch: int,
    assignment_configs: Mapping[str, str],
) -> None:
    value = StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated_topology_epoch,
        last_assignment_configs=[LastAssignmentConfig(key=k, value=v) for k, v in sorted(assignment_configs.items())],
        stored_description_topology_epoch=group.metadata.stored_description_topology_epoch,
        failed_description_topology_epoch=group.metadata.failed_description_topology_epoch,
    )
    write_group_metadata(state, group.group_id, value)


def write_group_metadata(state: ShardState, group_id: str, value: StreamsGroupMetadataValue) -> None:
    write(state, StreamsGroupMetadataKey(group_id=group_id), value)


def write_topology(state: ShardState, group_id: str, value: StreamsGroupTopologyValue) -> None:
    write(state, StreamsGroupTopologyKey(group_id=group_id), value)


def write_member(
    state: ShardState, group_id: str, member_id: str, value: StreamsGroupMemberMetadataValue | None
) -> None:
    write(state, StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), value)


def write_current(state: ShardState, group_id: str, member: Member) -> None:
    key = StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    write(state, key, current_assignment(member))


def replace_member(state: ShardState, group: StreamsGroup, before: Member, member_id: str) -> None:
    """Replaces a static member that returned under another id. The new one takes over its state."""
    target = group.target_of(before.member_id)
    remove_member(state, group.group_id, before.member_id)
    write_member(state, group.group_id, member_id, before.metadata)
    write_target(state, group.group_id, member_id, target)
    write_current(state, group.group_id, replace(before, member_id=member_id))


def delete_group(state: ShardState, group: StreamsGroup) -> None:
    group_id = group.group_id
    assert not group.members, "only an empty group is deleted"
    write(state, StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), None)
    write(state, StreamsGroupMetadataKey(group_id=group_id), None)
    write(state, StreamsGroupTopologyKey(group_id=group_id), None)
