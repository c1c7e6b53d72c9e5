"""The assignor of streams groups: `sticky` (KIP-1071).

Tasks stay with their member while the load is fair. Else an active task goes to a member with a copy of its state.
Else it goes to the process with the fewest tasks per thread, and there to the thread with the fewest. Standby tasks
of stateful tasks go to other processes than the active task's, by preference where they or the active task were
before.

Among equals Kafka takes the first in its hash maps and heaps. Here that is the first by process id and member id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from .configured import ConfiguredSubtopology
from .tasks import TaskId, Tasks

#: Chooses one of several members that are equally suitable for a task.
Choice = Callable[[TaskId, Sequence[str]], str]


class Candidate(NamedTuple):
    """A member and its current tasks. `offsets`: task -> the changelog offset of its state."""

    process_id: str
    has: Tasks
    offsets: Mapping[TaskId, int]


def first(task: TaskId, equals: Sequence[str]) -> str:
    return equals[0]


class _Process:
    """A process: the members that share its state directory, and their tasks."""

    def __init__(self, process_id: str) -> None:
        self.process_id = process_id
        self.tasks: set[TaskId] = set()
        self.counts: dict[str, int] = {}

    @property
    def load(self) -> float:
        return sum(self.counts.values()) / len(self.counts)

    def least_loaded_members(self) -> list[str]:
        least = min(self.counts.values())
        return sorted(member_id for member_id, count in self.counts.items() if count == least)


class _Quota:
    """The limit of tasks per member, for an even distribution."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.limit = -(-tasks // members) if members else 0

    def given(self, count: int) -> None:
        """Records that a member has `count` tasks now. A member at the limit leaves the calculation."""
        if count == self.limit:
            self._members -= 1
            self._tasks -= count
            self.limit = -(-self._tasks // self._members) if self._members else 0


class _Assignment:
    def __init__(
        self,
        members: Mapping[str, Candidate],
        subtopologies: Mapping[str, ConfiguredSubtopology],
        replicas: int,
        choose: Choice,
    ) -> None:
        self.members = members
        self._choose = choose
        self.active: dict[str, set[TaskId]] = {member_id: set() for member_id in members}
        self.standby: dict[str, set[TaskId]] = {member_id: set() for member_id in members}
        self.processes: dict[str, _Process] = {}
        for member_id in sorted(members):
            process_id = members[member_id].process_id
            self.processes.setdefault(process_id, _Process(process_id)).counts[member_id] = 0
        count = sum(one.task_count for one in subtopologies.values())
        stateful = sum(one.task_count for one in subtopologies.values() if one.is_stateful)
        self.active_quota = _Quota(count, len(members))
        self.total_quota = _Quota(count + stateful * replicas, len(members))
        self.had_active = {task: member_id for member_id in sorted(members) for task in members[member_id].has.active}
        self.had_copy = _copies(members)

    def give(self, member_id: str, task: TaskId, role: dict[str, set[TaskId]]) -> None:
        process = self.process_of(member_id)
        process.tasks.add(task)
        process.counts[member_id] += 1
        role[member_id].add(task)
        count = process.counts[member_id]
        if role is self.active:
            self.active_quota.given(count)
        self.total_quota.given(count)

    def process_of(self, member_id: str) -> _Process:
        return self.processes[self.members[member_id].process_id]

    def has_room(self, member_id: str, quota: _Quota) -> bool:
        return self.process_of(member_id).counts[member_id] < quota.limit

    def least_loaded(self, task: TaskId) -> str | None:
        """Returns the member with the fewest tasks, in the least loaded process without the task."""
        free = [process for process in self.processes.values() if task not in process.tasks]
        if not free:
            return None
        least = min(process.load for process in free)
        equals = sorted((process for process in free if process.load == least), key=lambda process: process.process_id)
        return self._choose(task, [member_id for process in equals for member_id in process.least_loaded_members()])

    def best_copy(self, task: TaskId, may_have: Callable[[_Process], bool]) -> str | None:
        """Returns the first member with a copy of the task's state.

        A later one replaces it if both its process load and its own load are lower.
        """
        best: str | None = None
        best_load = (0.0, 0)
        for member_id in self.had_copy.get(task, ()):
            process = self.process_of(member_id)
            if not may_have(process):
                continue
            load = (process.load, process.counts[member_id])
            if best is None or (load[0] < best_load[0] and load[1] < best_load[1]):
                best, best_load = member_id, load
        return best


def sticky(
    members: Mapping[str, Candidate],
    subtopologies: Mapping[str, ConfiguredSubtopology],
    replicas: int,
    choose: Choice = first,
) -> dict[str, Tasks]:
    """Returns the target of each member.

    `replicas`: standby tasks of each stateful task. `choose`: selects among equals, so that a caller can follow Kafka's
    choices.
    """
    assignment = _Assignment(members, subtopologies, replicas, choose)
    if members:
        _assign_active(assignment, _tasks(subtopologies))
        if replicas > 0:
            stateful = {name: one for name, one in subtopologies.items() if one.is_stateful}
            _assign_standby(assignment, _tasks(stateful), replicas)
    return {
        member_id: Tasks(frozenset(assignment.active[member_id]), frozenset(assignment.standby[member_id]))
        for member_id in members
    }


def _tasks(subtopologies: Mapping[str, ConfiguredSubtopology]) -> list[TaskId]:
    return [TaskId(name, index) for name, one in subtopologies.items() for index in range(one.task_count)]


def _by_partition(task: TaskId) -> tuple[int, str]:
    return (task.partition, task.subtopology_id)


def _assign_active(assignment: _Assignment, tasks: Iterable[TaskId]) -> None:
    left = []
    for task in sorted(tasks, key=_by_partition):
        member_id = assignment.had_active.get(task)
        if member_id is not None and assignment.has_room(member_id, assignment.active_quota):
            assignment.give(member_id, task, assignment.active)
        else:
            left.append(task)
    still_left = []
    for task in left:
        member_id = assignment.best_copy(task, lambda process: True)
        if member_id is not None and assignment.has_room(member_id, assignment.active_quota):
            assignment.give(member_id, task, assignment.active)
        else:
            still_left.append(task)
    for task in sorted(still_left):
        least_loaded = assignment.least_loaded(task)
        assert least_loaded is not None, "no member has the task yet"
        assignment.give(least_loaded, task, assignment.active)


def _assign_standby(assignment: _Assignment, tasks: Iterable[TaskId], replicas: int) -> None:
    left: list[tuple[TaskId, int]] = []
    for task in sorted(tasks, key=_by_partition, reverse=True):
        for given in range(replicas):
            member_id = _stickiest(assignment, task)
            if member_id is None:
                left.append((task, replicas - given))
                break
            assignment.give(member_id, task, assignment.standby)
    for task, count in sorted(left, reverse=True):
        for _ in range(count):
            least_loaded = assignment.least_loaded(task)
            if least_loaded is None:
                break  # Fewer processes than replicas: the remaining ones are not assigned.
            assignment.give(least_loaded, task, assignment.standby)


def _stickiest(assignment: _Assignment, task: TaskId) -> str | None:
    """Returns a member with the task's state whose process does not have the task and which has room."""
    had_active = assignment.had_active.get(task)
    candidates = [had_active] if had_active is not None else []
    if had_active is None or not _may_copy(assignment, had_active, task):
        best = assignment.best_copy(task, lambda process: task not in process.tasks)
        candidates = [best] if best is not None else []
    return next((member_id for member_id in candidates if _may_copy(assignment, member_id, task)), None)


def _may_copy(assignment: _Assignment, member_id: str, task: TaskId) -> bool:
    process = assignment.process_of(member_id)
    return task not in process.tasks and assignment.has_room(member_id, assignment.total_quota)


def _copies(members: Mapping[str, Candidate]) -> dict[TaskId, list[str]]:
    """Returns the members with a copy of each task's state: standbys first, then by descending offset."""
    found: dict[TaskId, list[tuple[bool, int, str]]] = {}
    for member_id in sorted(members):
        candidate = members[member_id]
        for task in candidate.has.standby | candidate.offsets.keys():
            is_other = task not in candidate.has.standby
            found.setdefault(task, []).append((is_other, -candidate.offsets.get(task, 0), member_id))
    return {task: [member_id for _, _, member_id in sorted(copies)] for task, copies in found.items()}
