"""Reconciliation of a streams member with its target: tasks are handed over between members (KIP-1071).

state               meaning                                              effect of the next heartbeat
STABLE              the member has its part of the target at its epoch   a newer target: `_advance`; else nothing
UNREVOKED_TASKS     the member must revoke `revoking`; its epoch stays   still owned, or omitted: nothing;
                                                                         else `_advance`
UNRELEASED_TASKS    the member is at the target's epoch, but other       `_advance`
                    members still hold some of its tasks
UNKNOWN             a later version wrote the state                      the member owns nothing: `_advance`;
                                                                         else it is fenced (heartbeat.py)

Only one member at a time has a task as active, and a process has only one copy of its state. So an active task
waits for its current active owner, and for another member of the same process with a copy. A copy waits for another
member of the same process with the task in any role. A task that changes its role within the member is handed over
without waiting: an active task becomes a standby at once, and a copy that will become active is kept until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from .member import StreamsMember, StreamsMemberState
from .tasks import NOTHING_HELD, HeldTasks, TaskId, Tasks


@dataclass(frozen=True, slots=True)
class StreamsTarget:
    """The target of one member."""

    epoch: int
    tasks: Tasks


class Holders(Protocol):
    """The holders of a task, as assigned or to be revoked: member id -> process id."""

    def of_active(self, task: TaskId) -> Mapping[str, str]: ...
    def of_standby(self, task: TaskId) -> Mapping[str, str]: ...
    def of_warmup(self, task: TaskId) -> Mapping[str, str]: ...


def reconcile(member: StreamsMember, target: StreamsTarget, holders: Holders, owned: Tasks | None) -> StreamsMember:
    """Returns the member's new state; the same object if nothing changes.

    `owned`: the tasks that the member reports; None if the request omits them, which means: unchanged.
    """
    if member.is_reconciled_to(target.epoch):
        return member
    if member.state is StreamsMemberState.UNREVOKED_TASKS:
        if _is_not_released(member.revoking, owned):
            return member
        return _advance(member, member.epoch + 1, target, holders, owned)
    epoch = target.epoch if member.state is StreamsMemberState.UNKNOWN else member.epoch
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


def _advance(
    member: StreamsMember, epoch: int, target: StreamsTarget, holders: Holders, owned: Tasks | None
) -> StreamsMember:
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
            state=StreamsMemberState.UNREVOKED_TASKS,
            assigned=assigned,
            revoking=revoking,
        )
    is_waiting = active.is_waiting or standby.is_waiting or warmup.is_waiting
    return replace(
        member,
        epoch=target.epoch,
        previous_epoch=member.epoch,
        state=StreamsMemberState.UNRELEASED_TASKS if is_waiting else StreamsMemberState.STABLE,
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


def _waiting_active(member: StreamsMember, wanted: Tasks, holders: Holders) -> set[TaskId]:
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


def _waiting_standby(member: StreamsMember, wanted: Tasks, holders: Holders) -> set[TaskId]:
    has = member.assigned
    return {
        task
        for task in wanted.standby - has.standby
        if (_is_here(member, holders.of_active(task)) and task not in has.active)
        or _is_here(member, holders.of_standby(task))
        or (_is_here(member, holders.of_warmup(task)) and task not in has.warmup)
    }


def _waiting_warmup(member: StreamsMember, wanted: Tasks, holders: Holders) -> set[TaskId]:
    has = member.assigned
    return {
        task
        for task in wanted.warmup - has.warmup
        if _is_here(member, holders.of_active(task))
        or (_is_here(member, holders.of_standby(task)) and task not in has.standby)
        or _is_here(member, holders.of_warmup(task))
    }


def _is_here(member: StreamsMember, holders: Mapping[str, str]) -> bool:
    """Returns whether any holder is in the member's process."""
    return member.process_id in holders.values()
