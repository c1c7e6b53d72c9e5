"""Assignors compared with Kafka's classes, on random changing groups: the same partitions for the same members.

With equal subscriptions Kafka's `uniform` takes topics in the order of a hash map, Odradek's in the order of their ids. Then
the tests compare how many partitions members get, and how many they keep. The same holds for `simple` of share groups.
`sticky` of streams groups is compared task by task. Among members that are equally suitable for a task, and only then,
our assignor gets Kafka's choice.

`ODRADEK_GROUPS=10000` runs more groups.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from odradek.coordinator.groups.consumer.assignors import ASSIGNORS
from odradek.coordinator.groups.share import assignor as share
from odradek.coordinator.groups.streams.assignor import Candidate, Choice, sticky
from odradek.coordinator.groups.streams.configured import ConfiguredSubtopology
from odradek.coordinator.groups.streams.tasks import TaskId, Tasks
from odradek.protocol.uuids import uuid_to_text

from compat_tests.java.fetch import SPECIFICATION
from compat_tests.java.program import java_command
from tests.coordinator.harness.random_groups import ROUNDS, Counts, Members, as_json, changed, rounds

pytestmark = pytest.mark.usefixtures("java_tools")

GROUPS = int(os.environ.get("ODRADEK_GROUPS", "200"))
Streams = dict[str, Candidate]
Subtopologies = dict[str, ConfiguredSubtopology]


class Assignors:
    """The process of Assignors.java: Kafka's assignors, one request per line."""

    def __init__(self) -> None:
        source = Path(__file__).resolve().parent / "java" / "Assignors.java"
        command = java_command(source, version=SPECIFICATION)
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def _ask(self, group: dict[str, Any]) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(group) + "\n")
        return json.loads(self._process.stdout.readline())

    def assign(self, assignor: str, members: Members, counts: Counts) -> dict[str, dict[str, list[int]]]:
        group = {
            "assignor": assignor,
            "counts": {uuid_to_text(topic_id): count for topic_id, count in counts.items()},
            "members": {
                member_id: {
                    "instance": one.instance_id,
                    "topics": [uuid_to_text(topic_id) for topic_id in one.topic_ids],
                    "current": as_json(one.current),
                }
                for member_id, one in members.items()
            },
        }
        made: dict[str, dict[str, list[int]]] = self._ask(group)
        return made

    def assign_tasks(self, members: Streams, subtopologies: Subtopologies, replicas: int) -> dict[str, Tasks]:
        group = {
            "assignor": "sticky",
            "replicas": replicas,
            "subtopologies": {
                name: {"tasks": one.task_count, "stateful": one.is_stateful} for name, one in subtopologies.items()
            },
            "members": {
                member_id: {
                    "process": one.process_id,
                    "active": sorted(one.has.active),
                    "standby": sorted(one.has.standby),
                    "warmup": sorted(one.has.warmup),
                    "offsets": [(*task, offset) for task, offset in sorted(one.offsets.items())],
                }
                for member_id, one in members.items()
            },
        }
        made = self._ask(group)
        return {member_id: Tasks(tasks(roles["active"]), tasks(roles["standby"])) for member_id, roles in made.items()}

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def kafkas(java_tools: None) -> Iterator[Assignors]:
    made = Assignors()
    yield made
    made.close()


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("alike", [False, True], ids=["different subscriptions", "the same subscriptions"])
def test_members_get_same_partitions_as_from_kafka_in_every_round(
    kafkas: Assignors, alike: bool, assignor: str
) -> None:
    for seed in range(GROUPS):
        for turn, (members, counts, made) in enumerate(rounds(assignor, seed, alike=alike)):
            ours = {member_id: as_json(topics) for member_id, topics in made.items()}
            theirs = kafkas.assign(assignor, members, counts)
            if assignor == "uniform" and len({one.topic_ids for one in members.values()}) == 1:
                assert kept_and_given(members, ours) == kept_and_given(members, theirs), f"seed {seed}, round {turn}"
            else:
                assert ours == theirs, f"seed {seed}, round {turn}: {members}"


@pytest.mark.parametrize("alike", [False, True], ids=["different subscriptions", "the same subscriptions"])
def test_new_share_group_has_same_loads_as_with_kafka(kafkas: Assignors, alike: bool) -> None:
    """Compares only new groups: later Kafka's result may be unbalanced, depending on its hash maps."""
    for seed in range(GROUPS):
        rng = random.Random(seed)
        counts = {rng.randbytes(16): rng.randint(1, 12) for _ in range(rng.randint(1, 6))}
        members = changed(rng, {}, counts, {}, alike)
        sharers = {member_id: share.ShareSubscriber(one.topic_ids, {}) for member_id, one in members.items()}
        made = share.simple(sharers, {topic_id: frozenset(range(count)) for topic_id, count in counts.items()})
        ours = {member_id: as_json(topics) for member_id, topics in made.items()}
        assert shares(ours) == shares(kafkas.assign("simple", members, counts)), f"seed {seed}"


def shares(made: Mapping[str, dict[str, list[int]]]) -> tuple[Counter[str], Counter[tuple[str, int]]]:
    """Returns the number of partitions per member, and of members per partition."""
    pairs = [(m, (t, index)) for m, topics in made.items() for t, indexes in topics.items() for index in indexes]
    return Counter(member_id for member_id, _ in pairs), Counter(place for _, place in pairs)


def kept_and_given(members: Members, made: Mapping[str, dict[str, list[int]]]) -> dict[str, tuple[int, int]]:
    reported = {}
    for member_id, topics in made.items():
        current = as_json(members[member_id].current)
        kept = sum(index in current.get(topic_id, ()) for topic_id, indexes in topics.items() for index in indexes)
        reported[member_id] = (kept, sum(map(len, topics.values())))
    return reported


def tasks(pairs: Iterable[Sequence[Any]]) -> frozenset[TaskId]:
    return frozenset(TaskId(subtopology_id, partition) for subtopology_id, partition in pairs)


class StreamsGroup:
    """An application whose processes, threads and tasks change in every round."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._processes = [rng.randbytes(4).hex() for _ in range(rng.randint(1, 5))]
        self._is_stateful = rng.choice((0.0, 0.5, 1.0))
        self.members: Streams = {}
        self.subtopologies = {str(number): self._subtopology() for number in range(rng.randint(1, 4))}
        #: The state directories of ended processes: a new thread there reports their tasks.
        self._left: dict[str, set[TaskId]] = {}

    def _subtopology(self) -> ConfiguredSubtopology:
        return ConfiguredSubtopology(self._rng.randint(1, 8), self._rng.random() < self._is_stateful, ())

    def go_on(self, made: Mapping[str, Tasks]) -> None:
        rng, before = self._rng, self.members
        for name, one in list(self.subtopologies.items()):
            if rng.random() < 0.2:
                self.subtopologies[name] = grown(one)
        if rng.random() < 0.2:
            self.subtopologies[str(rng.randrange(6))] = self._subtopology()
        if len(self.subtopologies) > 1 and rng.random() < 0.1:
            del self.subtopologies[rng.choice(sorted(self.subtopologies))]
        self.members = {}
        for member_id, one in before.items():
            if rng.random() < 0.8:
                self.members[member_id] = self._stays(one, made.get(member_id, Tasks()))
            else:
                self._left.setdefault(one.process_id, set()).update(one.has.active | one.has.standby)  # type: ignore[attr-defined]
        for _ in range(rng.choice((0, 0, 1, 2)) or not self.members):
            process_id = rng.choice(self._processes)
            offsets = {task: rng.randint(0, 5) for task in sorted(self._left.pop(process_id, ()))}
            self.members[rng.randbytes(4).hex()] = Candidate(process_id, Tasks(), offsets)

    def _stays(self, one: Candidate, given: Tasks) -> Candidate:
        """Returns a remaining member, mostly with its assignment. It may also have warm-up tasks."""
        rng = self._rng
        has = given if rng.random() < 0.8 else Tasks(self._some(given.active), self._some(given.standby))
        all_tasks = {TaskId(name, i) for name, sub in self.subtopologies.items() for i in range(sub.task_count)}
        warmup = self._some(all_tasks - given.active - given.standby) if rng.random() < 0.2 else frozenset()
        reported = self._some(has.active | has.standby | one.offsets.keys()) if rng.random() < 0.6 else frozenset()
        offsets = {task: rng.randint(0, 5) for task in sorted(reported)}
        return Candidate(one.process_id, Tasks(has.active, has.standby, warmup), offsets)

    def _some(self, of: Iterable[TaskId]) -> frozenset[TaskId]:
        return frozenset(task for task in sorted(of) if self._rng.random() < 0.6)


def grown(one: ConfiguredSubtopology) -> ConfiguredSubtopology:
    return ConfiguredSubtopology(one.task_count + 1, one.is_stateful, one.inputs)


def as_in(made: Mapping[str, Tasks]) -> Choice:
    """Returns a choice among equals that follows `made`: the active owner there, else the owner of a copy."""

    def choose(task: TaskId, equals: Sequence[str]) -> str:
        active = (member_id for member_id in equals if task in made[member_id].active)
        copies = (member_id for member_id in equals if task in made[member_id].standby)
        return next(active, None) or next(copies, None) or equals[0]

    return choose


@pytest.mark.parametrize("replicas", [0, 1, 2])
def test_streams_members_get_same_tasks_as_from_kafka_in_every_round(kafkas: Assignors, replicas: int) -> None:
    for seed in range(GROUPS):
        group = StreamsGroup(random.Random(seed))
        made: dict[str, Tasks] = {}
        for turn in range(ROUNDS):
            group.go_on(made)
            made = kafkas.assign_tasks(group.members, group.subtopologies, replicas)
            ours = sticky(group.members, group.subtopologies, replicas, as_in(made))
            assert ours == made, f"seed {seed}, round {turn}: {group.members}, {group.subtopologies}"


def test_new_streams_group_is_balanced_like_with_kafka(kafkas: Assignors) -> None:
    """Compares without Kafka's choices: the last task went to a process that had no more tasks than the others."""
    for seed in range(GROUPS):
        group = StreamsGroup(random.Random(seed))
        for _ in range(3):
            group.go_on({})
        members = {member_id: Candidate(one.process_id, Tasks(), {}) for member_id, one in group.members.items()}
        for made in (sticky(members, group.subtopologies, 0), kafkas.assign_tasks(members, group.subtopologies, 0)):
            counts: dict[str, list[int]] = {}
            for member_id, one in members.items():
                counts.setdefault(one.process_id, []).append(len(made[member_id].active))
            least = min(sum(threads) / len(threads) for threads in counts.values())
            assert all((sum(threads) - 1) / len(threads) <= least for threads in counts.values()), f"seed {seed}"
            assert all(max(threads) - min(threads) <= 1 for threads in counts.values()), f"seed {seed}"
