"""Tasks: the unit of assignment in streams groups. A task is a subtopology and a partition of its input.

A task has three roles. Only one member at a time has it as an active task. Standby and warm-up tasks are copies of
its state, at most one per process (KIP-1071).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


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
