"""One member of a streams group, as replayed from the log: a thread of a process that runs the application."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from ....protocol.internal.streams_group_records import (
    StreamsGroupCurrentMemberAssignmentTaskIds,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
)
from ..member_epochs import JOIN_EPOCH
from .tasks import NOTHING_HELD, HeldTasks, TaskId, by_subtopology, tasks_in


def _nothing_said() -> StreamsGroupMemberMetadataValue:
    return StreamsGroupMemberMetadataValue(instance_id=None, rack_id=None, rebalance_timeout_ms=-1, topology_epoch=-1)


class StreamsMemberState(IntEnum):
    """The state of a member, described in reconciliation.py. The numbers are those of the records."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class StreamsMember:
    member_id: str
    metadata: StreamsGroupMemberMetadataValue = field(default_factory=_nothing_said)
    epoch: int = JOIN_EPOCH
    previous_epoch: int = 0
    state: StreamsMemberState = StreamsMemberState.STABLE
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
        return self.state is StreamsMemberState.STABLE and self.epoch == target_epoch


def current_assignment(member: StreamsMember) -> StreamsGroupCurrentMemberAssignmentValue:
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
) -> StreamsMember:
    epoch = value.member_epoch
    return StreamsMember(
        member_id,
        metadata,
        epoch,
        value.previous_member_epoch,
        StreamsMemberState(value.state) if value.state in (1, 2, 3) else StreamsMemberState.UNKNOWN,
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
