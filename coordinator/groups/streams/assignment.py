"""Assignment in streams groups: the assignor, the target of a group, and the reconciliation of each member with it.

- `sticky`: the task assignor, as in the coordinator of Kafka 4.4.
- `update_target`, `remove_from_group`: the target assignment of a group.
- `reconcile`: moves one member from its tasks to its target tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..assigned_group import TargetNeed, restart_sessions, target_need
from .group import (
    NO_TASKS,
    NOTHING_HELD,
    HeldTasks,
    Member,
    MemberState,
    StreamsGroup,
    TaskId,
    Tasks,
    assignment_interval_ms,
    num_standby_replicas,
    remove_member,
    session_timeout_ms,
    write_metadata,
    write_target_epoch,
    write_targets,
)
from .topology import ConfiguredSubtopology

if TYPE_CHECKING:
    from ..state import ShardState


# ---- the assignor
#
# Tasks stay with their member while the load is fair. Else an active task goes to a member with a copy of its state.
# Else it goes to the process with the fewest tasks per thread, and there to the thread with the fewest. Standby tasks
# of stateful tasks go to other processes than the active task's, by preference where they or the active task were
# before.
#
# Among equals Kafka takes the first in its hash maps and heaps. Here that is the first by process id and member id.


class Candidate(NamedTuple):
    """A member and its current tasks. `offsets`: task -> the changelog offset of its state."""

    process_id: str
    has: Tasks
    offsets: Mapping[TaskId, int]


#: Chooses one of several members that are equally suitable for a task.
Choice = Callable[[TaskId, Sequence[str]], str]


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


# ---- targets
#
# Target assignments of streams groups, and the removal of members.


DELAYED_AT_FIRST = "Assignment delayed due to the configured initial rebalance delay."
DELAYED_BY_INTERVAL = "Assignment delayed due to the configured assignment interval."


def update_target(state: ShardState, group: StreamsGroup, now: int) -> str | None:
    """Computes the target for the group's epoch. Returns the reason if the assignment is delayed.

    A later heartbeat, or the end of the initial delay, computes a delayed target.
    """
    if group.delay_timer.is_set:
        return DELAYED_AT_FIRST
    need = target_need(group, assignment_interval_ms(state, group.group_id), now)
    if need is TargetNeed.NOW:
        write_targets(state, group, _assign(group), group.epoch, now)
    return DELAYED_BY_INTERVAL if need is TargetNeed.DELAYED else None


def _assign(group: StreamsGroup) -> dict[str, Tasks]:
    configured = group.configured
    if configured is None or not configured.is_ready:
        return dict.fromkeys(group.members, NO_TASKS)
    candidates = {
        member_id: Candidate(
            member.process_id,
            Tasks(frozenset(member.assigned.active), member.assigned.standby, member.assigned.warmup),
            group.task_offsets.get(member_id, {}),
        )
        for member_id, member in group.members.items()
    }
    replicas = num_standby_replicas(group.assignment_configs)
    return sticky(candidates, configured.subtopologies, replicas)


def remove_from_group(state: ShardState, group: StreamsGroup, member_id: str) -> None:
    """Removes a member that left or was fenced.

    Its tasks are free at once, and the next heartbeat computes a new target assignment.
    """
    is_last = len(group.members) == 1
    metadata, configs = group.metadata, group.assignment_configs
    epoch = metadata.epoch + 1
    remove_member(state, group.group_id, member_id)
    write_metadata(state, group, epoch, metadata.metadata_hash, metadata.validated_topology_epoch, configs)
    if is_last:
        write_target_epoch(state, group.group_id, epoch, 0)


def expired(state: ShardState, event: tuple[str, ...], now: int) -> None:
    """Handles an expired timer of a streams group."""
    group = state.find(StreamsGroup, event[1])
    assert group is not None, "a deleted group takes its timers along"
    if event[0] == "streams delay":
        if group.members and group.configured is not None:
            update_target(state, group, now)
        return
    member = group.members[event[2]]
    if event[0] == "streams session" or member.state is MemberState.UNREVOKED_TASKS:
        remove_from_group(state, group, member.member_id)


def restore(state: ShardState, group: StreamsGroup, now: int) -> None:
    """Starts a whole session for every member after a load, and a whole revocation timeout where one is pending."""
    restart_sessions(state, group, now, session_timeout_ms)
    for member_id, member in group.members.items():
        if member.state is MemberState.UNREVOKED_TASKS:
            state.timers.set(group.revocation(member_id), now + member.metadata.rebalance_timeout_ms)


# ---- reconciliation
#
# state               meaning                                              effect of the next heartbeat
# STABLE              the member has its part of the target at its epoch   a newer target: `_advance`; else nothing
# UNREVOKED_TASKS     the member must revoke `revoking`; its epoch stays   still owned, or omitted: nothing;
#                                                                          else `_advance`
# UNRELEASED_TASKS    the member is at the target's epoch, but other       `_advance`
#                     members still hold some of its tasks
# UNKNOWN             a later version wrote the state                      the member owns nothing: `_advance`;
#                                                                          else it is fenced (heartbeat.py)
#
# Only one member at a time has a task as active, and a process has only one copy of its state. So an active task
# waits for its current active owner, and for another member of the same process with a copy. A copy waits for another
# member of the same process with the task in any role. A task that changes its role within the member is handed over
# without waiting: an active task becomes a standby at once, and a copy that will become active is kept until then.


@dataclass(frozen=True, slots=True)
class Target:
    """The target of one member."""

    epoch: int
    tasks: Tasks


class Holders(Protocol):
    """The holders of a task, as assigned or to be revoked: member id -> process id."""

    def of_active(self, task: TaskId) -> Mapping[str, str]: ...
    def of_standby(self, task: TaskId) -> Mapping[str, str]: ...
    def of_warmup(self, task: TaskId) -> Mapping[str, str]: ...


def reconcile(member: Member, target: Target, holders: Holders, owned: Tasks | None) -> Member:
    """Returns the member's new state; the same object if nothing changes.

    `owned`: the tasks that the member reports; None if the request omits them, which means: unchanged.
    """
    if member.is_reconciled_to(target.epoch):
        return member
    if member.state is MemberState.UNREVOKED_TASKS:
        if _is_not_released(member.revoking, owned):
            return member
        return _advance(member, member.epoch + 1, target, holders, owned)
    epoch = target.epoch if member.state is MemberState.UNKNOWN else member.epoch
    return _advance(member, epoch, target, holders, owned)


def _is_not_released(revoking: HeldTasks, owned: Tasks | None) -> bool:
    return owned is None or revoking.overlaps(owned)


class _Difference:
    """The difference between a member's tasks and its target tasks in one role."""

    def __init__(self, has: Iterable[TaskId], wanted: Iterable[TaskId], waiting_for: set[TaskId]) -> None:
        has, wanted = set(has), set(wanted)
        self.kept = has & wanted
        self.revoked = has - wanted
        self.is_waiting = bool(waiting_for)
        self.granted = wanted - has - waiting_for


def _advance(member: Member, epoch: int, target: Target, holders: Holders, owned: Tasks | None) -> Member:
    has, wanted = member.assigned, target.tasks
    active = _Difference(has.active, wanted.active, _waiting_active(member, wanted, holders))
    standby = _Difference(has.standby, wanted.standby, _waiting_standby(member, wanted, holders))
    warmup = _Difference(has.warmup, wanted.warmup, _waiting_warmup(member, wanted, holders))
    _hand_over(has.active, standby)
    warmup.revoked -= _hand_over(has.warmup, standby)
    standby.revoked -= _hand_over(has.standby, warmup)
    standby.revoked -= wanted.active
    warmup.revoked -= wanted.active
    revoking = HeldTasks(
        {task: has.active[task] for task in active.revoked}, frozenset(standby.revoked), frozenset(warmup.revoked)
    )
    must_revoke = not revoking.is_empty() and _is_not_released(revoking, owned)
    # The state of an active task is restored from the member's copy: the copy stays until the task is active.
    promoted = set() if must_revoke else active.granted
    standby.kept |= (has.standby & wanted.active) - promoted
    warmup.kept |= (has.warmup & wanted.active) - promoted
    kept = {task: has.active[task] for task in active.kept}
    if must_revoke:
        assigned = HeldTasks(kept, frozenset(standby.kept), frozenset(warmup.kept))
        return replace(
            member,
            epoch=epoch,
            previous_epoch=member.epoch,
            state=MemberState.UNREVOKED_TASKS,
            assigned=assigned,
            revoking=revoking,
        )
    is_waiting = active.is_waiting or standby.is_waiting or warmup.is_waiting
    return replace(
        member,
        epoch=target.epoch,
        previous_epoch=member.epoch,
        state=MemberState.UNRELEASED_TASKS if is_waiting else MemberState.STABLE,
        assigned=HeldTasks(
            kept | dict.fromkeys(active.granted, target.epoch),
            frozenset(standby.kept | standby.granted),
            frozenset(warmup.kept | warmup.granted),
        ),
        revoking=NOTHING_HELD,
    )


def _hand_over(has: Iterable[TaskId], to: _Difference) -> set[TaskId]:
    """Hands over tasks that the member has in one role and gets in another, at once. Returns them."""
    handed_over = to.granted.intersection(has)
    to.granted -= handed_over
    to.kept |= handed_over
    return handed_over


def _waiting_active(member: Member, wanted: Tasks, holders: Holders) -> set[TaskId]:
    has = member.assigned
    return {
        task
        for task in wanted.active
        if task not in has.active
        and (
            holders.of_active(task)
            or (_is_here(member, holders.of_standby(task)) and task not in has.standby)
            or (_is_here(member, holders.of_warmup(task)) and task not in has.warmup)
        )
    }


def _waiting_standby(member: Member, wanted: Tasks, holders: Holders) -> set[TaskId]:
    has = member.assigned
    return {
        task
        for task in wanted.standby - has.standby
        if (_is_here(member, holders.of_active(task)) and task not in has.active)
        or _is_here(member, holders.of_standby(task))
        or (_is_here(member, holders.of_warmup(task)) and task not in has.warmup)
    }


def _waiting_warmup(member: Member, wanted: Tasks, holders: Holders) -> set[TaskId]:
    has = member.assigned
    return {
        task
        for task in wanted.warmup - has.warmup
        if _is_here(member, holders.of_active(task))
        or (_is_here(member, holders.of_standby(task)) and task not in has.standby)
        or _is_here(member, holders.of_warmup(task))
    }


def _is_here(member: Member, holders: Mapping[str, str]) -> bool:
    """Returns whether any holder is in the member's process."""
    return member.process_id in holders.values()
