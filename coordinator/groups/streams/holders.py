"""The members that hold each task of a group, by role. Reconciliation waits for them (reconciliation.py)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .member import StreamsMember
from .tasks import HeldTasks, TaskId

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

    def take(self, member: StreamsMember) -> None:
        for held in (member.assigned, member.revoking):
            for role, tasks in self._roles(held):
                for task in tasks:
                    role.setdefault(task, {})[member.member_id] = member.process_id

    def release(self, member: StreamsMember) -> None:
        for held in (member.assigned, member.revoking):
            for role, tasks in self._roles(held):
                for task in tasks:
                    holders = role.get(task, {})
                    holders.pop(member.member_id, None)
                    if not holders:
                        role.pop(task, None)

    def _roles(self, held: HeldTasks) -> Iterable[tuple[_Role, Iterable[TaskId]]]:
        return ((self._active, held.active), (self._standby, held.standby), (self._warmup, held.warmup))
