"""Warm-up tasks of streams groups (KIP-1071).

Neither Kafka 4.4's assignors nor Odradek's assign warm-up tasks, but a log may have targets and members with them. They are
assigned, recorded, handed over and revoked like standby tasks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from odradek.coordinator.groups.loading import encode_record
from odradek.coordinator.groups.streams.group import MemberState, TaskId, Tasks, write_group_metadata, write_targets
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from odradek.protocol.messages.streams_group_heartbeat import TaskIdsRequest

from tests.coordinator.group_logs import load
from tests.coordinator.harness.streams_groups import tasks
from tests.coordinator.streams_stand import CURRENT, Stand

COUNTS = [TaskId("1", 0), TaskId("1", 1)]
READS = frozenset({TaskId("0", 0), TaskId("0", 1)})


class WarmStand(Stand):
    """A stand whose log has targets that its assignor would not compute."""

    def __init__(self, **processes: str) -> None:
        """Adds members with their processes. The first member gets all tasks."""
        super().__init__()
        for member, process in processes.items():
            self.beat(member, 0, process_id=process)
        first, *others = processes
        self.plan(**{first: Tasks(READS | frozenset(COUNTS))}, **dict.fromkeys(others, Tasks()))
        for member in (*others, first):
            self.settle(member)

    def plan(self, **targets: Tasks) -> None:
        """Writes a target for the next epoch to the log."""
        state, group = self.shard.state, self.group
        write_group_metadata(state, "g", replace(group.metadata, epoch=group.epoch + 1))
        write_targets(state, group, targets, group.epoch, self.now)
        self.log += [encode_record(record) for record in self.shard.take().records]

    def settle(self, member: str) -> None:
        """Sends heartbeats with the member's tasks until it is reconciled."""
        while not self.group.members[member].is_reconciled_to(self.group.target_epoch):
            self.say(member)

    def say(self, member: str, **others: Any) -> Any:
        """Sends a heartbeat with the member's tasks in the log, and with `others`, by role."""
        has = self.group.members[member]
        said = {}
        for role in ("active", "standby", "warmup"):
            held = [*getattr(has.assigned, role), *others.get(role, ())]
            said[f"{role}_tasks"] = [TaskIdsRequest(name, [index]) for name, index in held]
        return self.beat(member, has.epoch, **said)

    def held(self, member: str) -> tuple[set[TaskId], set[TaskId], set[TaskId]]:
        has = self.group.members[member].assigned
        return set(has.active), set(has.standby), set(has.warmup)


def warm(*indexes: int) -> Tasks:
    return Tasks(warmup=frozenset(COUNTS[index] for index in indexes))


@pytest.fixture
def stand() -> WarmStand:
    """Returns a stand where `a` has all tasks; `b` and `c`, in another process, have none."""
    return WarmStand(a="p", b="q", c="q")


def test_warm_up_task_is_assigned_described_and_survives_failover(stand: WarmStand) -> None:
    stand.plan(b=warm(0))
    response, records = stand.say("b")
    assert (tasks(response.active_tasks), tasks(response.standby_tasks)) == ({}, {})
    assert (tasks(response.warmup_tasks), records) == ({"1": [0]}, [CURRENT])
    (group,) = stand.ask(StreamsGroupDescribeRequest(group_ids=["g"]))[0].groups
    (b,) = (member for member in group.members if member.member_id == "b")
    assert tasks(b.assignment.warmup_tasks) == tasks(b.target_assignment.warmup_tasks) == {"1": [0]}

    before = stand.group
    after: Any = load(stand.shard.state.config, stand.log, stand.now).state.groups["g"]
    assert (after.members, after.targets, vars(after.holders)) == (before.members, before.targets, vars(before.holders))
    assert after.members["b"].assigned.warmup == after.target_of("b").warmup == {COUNTS[0]}


def test_warm_up_task_becomes_active_after_owner_revokes_it(stand: WarmStand) -> None:
    stand.plan(b=warm(0))
    stand.settle("b")
    stand.plan(a=Tasks(READS | {COUNTS[1]}), b=Tasks(frozenset({COUNTS[0]})))
    response, _ = stand.say("b")
    assert (response.member_epoch, tasks(response.warmup_tasks)) == (stand.group.epoch, None), "it still warms up"
    assert stand.held("b") == (set(), set(), {COUNTS[0]})
    response, _ = stand.say("a")
    assert tasks(response.active_tasks) == {"0": [0, 1], "1": [1]}
    stand.say("b")
    assert stand.held("b") == (set(), set(), {COUNTS[0]}), "the owner has not revoked the task yet"
    stand.say("a")
    response, _ = stand.say("b")
    assert (tasks(response.active_tasks), tasks(response.warmup_tasks)) == ({"1": [0]}, {})
    assert stand.group.members["b"].state is MemberState.STABLE


def test_active_task_becomes_warm_up_only_after_revocation(stand: WarmStand) -> None:
    stand.plan(a=Tasks(READS | {COUNTS[1]}, warmup=frozenset({COUNTS[0]})), c=Tasks(frozenset({COUNTS[0]})))
    stand.say("a")
    assert stand.group.members["a"].state is MemberState.UNREVOKED_TASKS
    assert stand.held("a")[2] == set(), "the member still runs the task"
    stand.say("a")
    assert stand.held("a") == ({*READS, COUNTS[1]}, set(), set())
    stand.say("c")
    stand.say("a")
    assert stand.held("a") == ({*READS, COUNTS[1]}, set(), {COUNTS[0]})
    assert stand.held("c") == ({COUNTS[0]}, set(), set())


@pytest.mark.parametrize(("before", "after"), [("warmup", "standby"), ("standby", "warmup")])
def test_standby_and_warm_up_tasks_change_role_at_once(stand: WarmStand, before: str, after: str) -> None:
    one = frozenset({COUNTS[0]})
    stand.plan(b=Tasks(**{before: one}))
    stand.settle("b")
    stand.plan(b=Tasks(**{after: one}))
    response, records = stand.say("b")
    assert (response.member_epoch, records) == (stand.group.epoch, [CURRENT])
    assert tasks(getattr(response, f"{before}_tasks")) == {}
    assert tasks(getattr(response, f"{after}_tasks")) == {"1": [0]}
    assert stand.group.members["b"].state is MemberState.STABLE


def test_removed_warm_up_task_must_be_revoked_first(stand: WarmStand) -> None:
    stand.plan(b=warm(0, 1))
    stand.settle("b")
    epoch = stand.group.epoch
    stand.plan(b=warm(1))
    response, _ = stand.say("b")
    assert (response.member_epoch, tasks(response.warmup_tasks)) == (epoch, {"1": [1]})
    member = stand.group.members["b"]
    assert (member.state, member.revoking.warmup) == (MemberState.UNREVOKED_TASKS, {COUNTS[0]})
    assert stand.say("b", warmup=[COUNTS[0]])[1] == [], "the member still has the task"
    response, _ = stand.say("b")
    assert (response.member_epoch, response.warmup_tasks) == (stand.group.epoch, None)
    assert stand.group.members["b"].state is MemberState.STABLE


def test_member_waits_for_copy_of_same_process(stand: WarmStand) -> None:
    stand.plan(b=warm(0))
    stand.settle("b")
    stand.plan(b=Tasks(), c=warm(0))
    stand.say("c")
    assert (stand.group.members["c"].state, stand.held("c")[2]) == (MemberState.UNRELEASED_TASKS, set())
    stand.say("b")
    stand.say("c")
    assert stand.held("c")[2] == set(), "b must revoke the task and has not confirmed it"
    stand.say("b")
    stand.say("c")
    assert (stand.held("b"), stand.held("c")) == ((set(), set(), set()), (set(), set(), {COUNTS[0]}))


def test_member_is_removed_when_it_misses_revocation_of_warm_up_task(stand: WarmStand) -> None:
    stand.plan(b=warm(0))
    stand.settle("b")
    stand.plan(b=Tasks(), c=warm(0))
    stand.say("b")
    stand.now += 30_000
    stand.shard.expire(stand.now)
    assert "b" not in stand.group.members
    assert not stand.group.holders.of_warmup(COUNTS[0])


def test_next_assignment_has_no_warm_up_tasks(stand: WarmStand) -> None:
    """Like Kafka's assignors, which assign only active and standby tasks."""
    stand.plan(b=warm(0))
    stand.settle("b")
    stand.beat("d", 0, process_id="r")
    assert all(not stand.group.target_of(member_id).warmup for member_id in stand.group.members)
    response, _ = stand.say("b")
    assert (tasks(response.warmup_tasks), stand.group.members["b"].revoking.warmup) == ({}, {COUNTS[0]})


def test_member_with_previous_epoch_cannot_claim_other_warm_up_tasks(stand: WarmStand) -> None:
    epoch = stand.group.members["b"].epoch
    stand.plan(b=warm(0))
    stand.settle("b")
    said = {"standby_tasks": [], "active_tasks": []}
    answers = [
        stand.beat("b", epoch, **said, warmup_tasks=[TaskIdsRequest("1", [index])])[0].error_code for index in (0, 1)
    ]
    assert answers == [ErrorCode.NONE, ErrorCode.FENCED_MEMBER_EPOCH]
