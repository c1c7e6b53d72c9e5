"""How one member gets from the tasks that it has to those that it is to have.

state               what it means                                          what the next heartbeat does
STABLE              it has its part of the target at its epoch             a newer target: `_advance`; else nothing
UNREVOKED_TASKS     it must give back `revoking`; its epoch stays          owned or unsaid: nothing; else `_advance`
UNRELEASED_TASKS    it is at the target's epoch, but some of its tasks     `_advance`
                    are still held elsewhere
UNKNOWN             a later version wrote it                               it says that it owns nothing: `_advance`;
                                                                           else it is fenced (refusals.py)

A task is active in one place at a time, and a process has one copy of its state: so an active task waits for whoever has
it as active, and for another member of the same process that has a copy; a copy waits for another member of the same
process that has the task in any role. What changes its role within the member is handed over without waiting: an active
task becomes a standby at once; a copy that is to become active is kept until it may.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from .member import Member, MemberState
from .tasks import NOTHING_HELD, HeldTasks, TaskId, Tasks


@dataclass(frozen=True, slots=True)
class Target:
    """What the group wants of a member."""

    epoch: int
    tasks: Tasks


class Holders(Protocol):
    """Who has a task, as assigned or still to be given back: member id -> process id."""

    def of_active(self, task: TaskId) -> Mapping[str, str]: ...
    def of_standby(self, task: TaskId) -> Mapping[str, str]: ...
    def of_warmup(self, task: TaskId) -> Mapping[str, str]: ...


def reconcile(member: Member, target: Target, holders: Holders, owned: Tasks | None) -> Member:
    """The member as it is from now on; itself when nothing changes.

    `owned`: what it says that it has; None when it does not say, which is to say: as before.
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
    """Between what a member has in one role and what it is to have."""

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
    # A copy that is to become active is what its state is restored from: it stays until that.
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
    """Tasks that the member has in one role and may have in another are its own in that at once."""
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
    """In the member's process, by whichever member."""
    return member.process_id in holders.values()
