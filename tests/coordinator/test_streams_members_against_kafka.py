"""Reconciliation of streams group members compared with Kafka's classes: each heartbeat writes the same record.

Targets with active, standby and warm-up tasks change at random. Some members share a process, revoke tasks late, or leave.
The targets are random because Kafka 4.4 assigns no warm-up tasks, and does not change an assignor's target.

`ODRADEK_GROUPS=10000` runs more groups.
"""

from __future__ import annotations

import base64
import json
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from odradek.coordinator.groups.streams.group import StreamsGroup
from odradek.coordinator.groups.streams.member import StreamsMember, StreamsMemberState, member_from_record
from odradek.coordinator.groups.streams.reconciliation import StreamsTarget, reconcile
from odradek.coordinator.groups.streams.tasks import TaskId, Tasks
from odradek.coordinator.groups.streams.writing import (
    remove_member,
    write_current,
    write_member,
    write_target,
    write_target_epoch,
)
from odradek.coordinator.groups_config import GroupsConfig
from odradek.protocol.codec import decode
from odradek.protocol.internal.streams_group_records import (
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
)

from compat_tests.java.fetch import SPECIFICATION
from compat_tests.java.program import java_command
from tests.coordinator.harness.kinds import encode_record, new_shard

pytestmark = pytest.mark.usefixtures("java_tools")

GROUPS = int(os.environ.get("ODRADEK_GROUPS", "120"))
STEPS = 60
PROCESSES = {"m0": "p0", "m1": "p0", "m2": "p1", "m3": "p2", "m4": "p1"}
TASKS = [TaskId(subtopology_id, index) for subtopology_id in ("0", "1") for index in range(3)]


class Group:
    """An Odradek group, and its history, which Kafka also runs."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.state = new_shard(GroupsConfig()).state
        self.group = StreamsGroup("g")
        self.state.put(self.group)
        self.history: list[dict[str, Any]] = []
        self.members: list[StreamsMember] = []

    def execute(self) -> None:
        self.plan()
        for _ in range(STEPS):
            what = self.rng.random()
            if what < 0.1:
                self.plan()
            elif what < 0.13 and self.group.members:
                self.go(self.rng.choice(sorted(self.group.members)))
            else:
                self.beat(self.rng.choice(sorted(PROCESSES)))

    def plan(self) -> None:
        """Writes targets, keeping some old ones: a task has one active owner, and copies in some other processes."""
        targets: dict[str, list[set[TaskId]]] = {member_id: [set(), set(), set()] for member_id in PROCESSES}
        for task in TASKS:
            places = self.rng.sample(sorted(PROCESSES), len(PROCESSES))
            used: set[str] = set()
            for member_id in places[: self.rng.randint(1, len(places))]:
                process_id = PROCESSES[member_id]
                if process_id not in used:
                    targets[member_id][0 if not used else self.rng.choice((1, 2))].add(task)
                    used.add(process_id)
        epoch = self.group.target_epoch + 1
        for member_id, roles in targets.items():
            if self.rng.random() < 0.8 or epoch == 2:
                tasks = Tasks(*map(frozenset, roles))
                self.history.append(
                    {"what": "target", "member": member_id, "epoch": epoch, "tasks": self.reported(tasks)}
                )
                write_target(self.state, "g", member_id, tasks)
        write_target_epoch(self.state, "g", epoch, 1)

    def reported(self, tasks: Tasks) -> str:
        """Returns the value of a target record, in base 64."""
        self.state.records.clear()
        write_target(self.state, "nobody", "m", tasks)
        (record,) = self.state.records
        self.state.records.clear()
        value = encode_record(record)[1]
        assert value is not None
        return base64.b64encode(value).decode()

    def go(self, member_id: str) -> None:
        self.history.append({"what": "gone", "member": member_id})
        remove_member(self.state, "g", member_id)

    def beat(self, member_id: str) -> None:
        if member_id not in self.group.members:
            metadata = StreamsGroupMemberMetadataValue(
                instance_id=None,
                rack_id=None,
                rebalance_timeout_ms=1,
                topology_epoch=0,
                process_id=PROCESSES[member_id],
            )
            write_member(self.state, "g", member_id, metadata)
        member = self.group.members[member_id]
        owned = self.owned(member)
        self.history.append(
            {
                "what": "heartbeat",
                "member": member_id,
                "process": PROCESSES[member_id],
                "owned": None if owned is None else self.reported(owned),
            }
        )
        target = StreamsTarget(self.group.target_epoch, self.group.target_of(member_id))
        after = reconcile(member, target, self.group.holders, owned)
        if after != member:
            write_current(self.state, "g", after)
        assert self.group.members[member_id] == after, "it is replayed as something else"
        self.members.append(after)

    def owned(self, member: StreamsMember) -> Tasks | None:
        """Returns the owned tasks: not reported, all revoked ones given back, or some of them."""
        if self.rng.random() < 0.3:
            return None
        keeps = self.rng.choice((0.0, 0.0, 0.5, 1.0))
        roles = []
        for role in ("active", "standby", "warmup"):
            late = [task for task in getattr(member.revoking, role) if self.rng.random() < keeps]
            roles.append(frozenset((*getattr(member.assigned, role), *late)))
        return Tasks(*roles)


class Kafkas:
    """The process of StreamsMembers.java: Kafka's members, one history per line."""

    def __init__(self) -> None:
        source = Path(__file__).resolve().parent / "java" / "StreamsMembers.java"
        command = java_command(source, version=SPECIFICATION)
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def execute(self, history: list[dict[str, Any]]) -> list[str]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(history) + "\n")
        written: list[str] = json.loads(self._process.stdout.readline())
        return written

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def kafkas(java_tools: None) -> Iterator[Kafkas]:
    made = Kafkas()
    yield made
    made.close()


def test_members_with_warm_up_tasks_get_to_their_targets_as_kafkas_do(kafkas: Kafkas) -> None:
    seen: set[tuple[StreamsMemberState, bool, bool]] = set()
    for seed in range(GROUPS):
        group = Group(seed)
        group.execute()
        *theirs, targets = kafkas.execute(group.history)
        assert targets == "as it is", "Kafka makes warm-up tasks of targets now, and so should we"
        assert len(theirs) == len(group.members)
        for number, (ours, value) in enumerate(zip(group.members, theirs, strict=True)):
            reported, _ = decode(StreamsGroupCurrentMemberAssignmentValue, 0, base64.b64decode(value), 0)
            kafka = member_from_record(ours.member_id, ours.metadata, reported)
            assert ours == kafka, f"seed {seed}, heartbeat {number}"
            seen.add((ours.state, bool(ours.assigned.warmup), bool(ours.revoking.warmup)))
    assert {
        (state, True)
        for state in (
            StreamsMemberState.STABLE,
            StreamsMemberState.UNREVOKED_TASKS,
            StreamsMemberState.UNRELEASED_TASKS,
        )
    } <= {(state, has) for state, has, _ in seen}
    assert (StreamsMemberState.UNREVOKED_TASKS, True, True) in seen
