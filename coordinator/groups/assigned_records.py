"""The records that every kind of assigned group has: members, their targets and current assignments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

from ...protocol.schema import Message
from ..result import Record
from .assigned_group import AMember, AssignedGroup, ATarget

if TYPE_CHECKING:
    from .shard_state import ShardState


def write(state: ShardState, key: Message, value: Message | None) -> None:
    """Writes a record; None is a tombstone."""
    state.write(Record(key, value, 0))


@dataclass(frozen=True)
class AssignedRecords(Generic[ATarget]):
    """Writes these records of one kind, in Kafka's order. The keys are the message classes of the kind."""

    member_key: Callable[..., Message]
    current_key: Callable[..., Message]
    target_key: Callable[..., Message]
    target_epoch_key: Callable[..., Message]
    target_epoch_value: Callable[..., Message]
    #: Returns the record value of a member's target.
    target_value: Callable[[ATarget], Message]

    def write_target(self, state: ShardState, group_id: str, member_id: str, target: ATarget) -> None:
        write(state, self.target_key(group_id=group_id, member_id=member_id), self.target_value(target))

    def write_targets(
        self,
        state: ShardState,
        group: AssignedGroup[AMember, ATarget],
        targets: Mapping[str, ATarget],
        epoch: int,
        now_ms: int,
    ) -> None:
        """Writes the targets that changed, then the target epoch."""
        for member_id, target in targets.items():
            if group.targets.get(member_id) != target:
                self.write_target(state, group.group_id, member_id, target)
        self.write_target_epoch(state, group.group_id, epoch, now_ms)

    def write_target_epoch(self, state: ShardState, group_id: str, epoch: int, timestamp_ms: int) -> None:
        """`timestamp_ms` is 0 if the next target need not wait for the assignment interval."""
        value = self.target_epoch_value(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
        write(state, self.target_epoch_key(group_id=group_id), value)

    def remove_member(self, state: ShardState, group_id: str, member_id: str) -> None:
        for key in (self.current_key, self.target_key, self.member_key):
            write(state, key(group_id=group_id, member_id=member_id), None)
