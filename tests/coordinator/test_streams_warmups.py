"""Warm-up tasks of streams groups (KIP-1071).

Neither Kafka 4.4's assignors nor Odradek's assign warm-up tasks, but a log may have targets and members with them. They are
assigned, recorded, handed over and revoked like standby tasks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from odradek.coordinator.groups.streams.member import StreamsMemberState
from odradek.coordinator.groups.streams.tasks import TaskId, Tasks
from odradek.coordinator.groups.streams.writing import write_group_metadata, write_targets
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from odradek.protocol.messages.streams_members import TaskIds

from tests.coordinator.group_logs import load
from tests.coordinator.harness.kinds import encode_record
from tests.coordinator.harness.streams_groups import tasks
from tests.coordinator.streams_harness import CURRENT, Harness

COUNTS = [TaskId("1", 0), TaskId("1", 1)]
READS = frozenset({TaskId("0", 0), TaskId("0", 1)})


class WarmHarness(Harness):
    """A harness whose log has targets that its assignor would not compute."""

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
            said[f"{role}_tasks"] = [TaskIds(name, [index]) for name, index in held]
        return self.beat(member, has.epoch, **said)

    def held(self, member: str) -> tuple[set[TaskId], set[TaskId], set[TaskId]]:
        has = self.group.members[member].assigned
        return set(has.active), set(has.standby), set(has.warmup)


def warm(*indexes: int) -> Tasks:
    return Tasks(warmup=frozenset(COUNTS[index] for index in indexes))


@pytest.fixture
def harness() -> WarmHarness:
    """Returns a harness where `a` has all tasks; `b` and `c`, in another process, have none."""
    return WarmHarness(a="p", b="q", c="q")


def test_warm_up_task_is_assigned_described_and_survives_failover(harness: WarmHarness) -> None:
    harness.plan(b=warm(0))
    response, records = harness.say("b")
    assert (tasks(response.active_tasks), tasks(response.standby_tasks)) == ({}, {})
    assert (tasks(response.warmup_tasks), records) == ({"1": [0]}, [CURRENT])
    (group,) = harness.ask(StreamsGroupDescribeRequest(group_ids=["g"]))[0].groups
    (b,) = (member for member in group.members if member.member_id == "b")
    assert tasks(b.assignment.warmup_tasks) == tasks(b.target_assignment.warmup_tasks) == {"1": [0]}

    before = harness.group
    after: Any = load(harness.shard.state.config, harness.log, harness.now).state.groups["g"]
    assert (after.members, after.targets, vars(after.holders)) == (before.members, before.targets, vars(before.holders))
    assert after.members["b"].assigned.warmup == after.target_of("b").warmup == {COUNTS[0]}


def test_warm_up_task_becomes_active_after_owner_revokes_it(harness: WarmHarness) -> None:
    harness.plan(b=warm(0))
    harness.settle("b")
    harness.plan(a=Tasks(READS | {COUNTS[1]}), b=Tasks(frozenset({COUNTS[0]})))
    response, _ = harness.say("b")
    assert (response.member_epoch, tasks(response.warmup_tasks)) == (harness.group.epoch, None), "it still warms up"
    assert harness.held("b") == (set(), set(), {COUNTS[0]})
    response, _ = harness.say("a")
    assert tasks(response.active_tasks) == {"0": [0, 1], "1": [1]}
    harness.say("b")
    assert harness.held("b") == (set(), set(), {COUNTS[0]}), "the owner has not revoked the task yet"
    harness.say("a")
    response, _ = harness.say("b")
    assert (tasks(response.active_tasks), tasks(response.warmup_tasks)) == ({"1": [0]}, {})
    assert harness.group.members["b"].state is StreamsMemberState.STABLE


def test_active_task_becomes_warm_up_only_after_revocation(harness: WarmHarness) -> None:
    harness.plan(a=Tasks(READS | {COUNTS[1]}, warmup=frozenset({COUNTS[0]})), c=Tasks(frozenset({COUNTS[0]})))
    harness.say("a")
    assert harness.group.members["a"].state is StreamsMemberState.UNREVOKED_TASKS
    assert harness.held("a")[2] == set(), "the member still runs the task"
    harness.say("a")
    assert harness.held("a") == ({*READS, COUNTS[1]}, set(), set())
    harness.say("c")
    harness.say("a")
    assert harness.held("a") == ({*READS, COUNTS[1]}, set(), {COUNTS[0]})
    assert harness.held("c") == ({COUNTS[0]}, set(), set())


@pytest.mark.parametrize(("before", "after"), [("warmup", "standby"), ("standby", "warmup")])
def test_standby_and_warm_up_tasks_change_role_at_once(harness: WarmHarness, before: str, after: str) -> None:
    one = frozenset({COUNTS[0]})
    harness.plan(b=Tasks(**{before: one}))
    harness.settle("b")
    harness.plan(b=Tasks(**{after: one}))
    response, records = harness.say("b")
    assert (response.member_epoch, records) == (harness.group.epoch, [CURRENT])
    assert tasks(getattr(response, f"{before}_tasks")) == {}
    assert tasks(getattr(response, f"{after}_tasks")) == {"1": [0]}
    assert harness.group.members["b"].state is StreamsMemberState.STABLE


def test_removed_warm_up_task_must_be_revoked_first(harness: WarmHarness) -> None:
    harness.plan(b=warm(0, 1))
    harness.settle("b")
    epoch = harness.group.epoch
    harness.plan(b=warm(1))
    response, _ = harness.say("b")
    assert (response.member_epoch, tasks(response.warmup_tasks)) == (epoch, {"1": [1]})
    member = harness.group.members["b"]
    assert (member.state, member.revoking.warmup) == (StreamsMemberState.UNREVOKED_TASKS, {COUNTS[0]})
    assert harness.say("b", warmup=[COUNTS[0]])[1] == [], "the member still has the task"
    response, _ = harness.say("b")
    assert (response.member_epoch, response.warmup_tasks) == (harness.group.epoch, None)
    assert harness.group.members["b"].state is StreamsMemberState.STABLE


def test_member_waits_for_copy_of_same_process(harness: WarmHarness) -> None:
    harness.plan(b=warm(0))
    harness.settle("b")
    harness.plan(b=Tasks(), c=warm(0))
    harness.say("c")
    assert (harness.group.members["c"].state, harness.held("c")[2]) == (StreamsMemberState.UNRELEASED_TASKS, set())
    harness.say("b")
    harness.say("c")
    assert harness.held("c")[2] == set(), "b must revoke the task and has not confirmed it"
    harness.say("b")
    harness.say("c")
    assert (harness.held("b"), harness.held("c")) == ((set(), set(), set()), (set(), set(), {COUNTS[0]}))


def test_member_is_removed_when_it_misses_revocation_of_warm_up_task(harness: WarmHarness) -> None:
    harness.plan(b=warm(0))
    harness.settle("b")
    harness.plan(b=Tasks(), c=warm(0))
    harness.say("b")
    harness.now += 30_000
    harness.shard.expire(harness.now)
    assert "b" not in harness.group.members
    assert not harness.group.holders.of_warmup(COUNTS[0])


def test_next_assignment_has_no_warm_up_tasks(harness: WarmHarness) -> None:
    """Like Kafka's assignors, which assign only active and standby tasks."""
    harness.plan(b=warm(0))
    harness.settle("b")
    harness.beat("d", 0, process_id="r")
    assert all(not harness.group.target_of(member_id).warmup for member_id in harness.group.members)
    response, _ = harness.say("b")
    assert (tasks(response.warmup_tasks), harness.group.members["b"].revoking.warmup) == ({}, {COUNTS[0]})


def test_member_with_previous_epoch_cannot_claim_other_warm_up_tasks(harness: WarmHarness) -> None:
    epoch = harness.group.members["b"].epoch
    harness.plan(b=warm(0))
    harness.settle("b")
    said = {"standby_tasks": [], "active_tasks": []}
    responses = [
        harness.beat("b", epoch, **said, warmup_tasks=[TaskIds("1", [index])])[0].error_code for index in (0, 1)
    ]
    assert responses == [ErrorCode.NONE, ErrorCode.FENCED_MEMBER_EPOCH]
