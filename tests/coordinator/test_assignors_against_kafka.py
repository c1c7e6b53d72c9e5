"""Assignors beside Kafka's own classes, on random groups that change: the same partitions, to the same members.

Where all subscribe to the same topics, Kafka's `uniform` takes these in the order of a hash map, ours in that of their ids:
then members are given as many partitions as by Kafka, and keep as many of those that they have. So it is with `simple`, of
share groups.

`ODRADEK_GROUPS=10000` for a longer look.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from odradek.coordinator.consumer.assignors import ASSIGNORS, Assignment, Subscriber
from odradek.coordinator.share import assignor as share
from odradek.protocol.uuids import uuid_to_text

from compat_tests.java.fetch import SPECIFICATION, classpath, java
from compat_tests.java.tool import JVM_FLAGS

pytestmark = pytest.mark.usefixtures("java_tools")

GROUPS = int(os.environ.get("ODRADEK_GROUPS", "200"))
ROUNDS = 6
Members = dict[str, Subscriber]
Counts = dict[bytes, int]


class Assignors:
    """Assignors.java: Kafka's assignors, asked line by line."""

    def __init__(self) -> None:
        source = Path(__file__).resolve().parent / "java" / "Assignors.java"
        command = [java(), *JVM_FLAGS, "-cp", classpath(SPECIFICATION), str(source)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def assign(self, assignor: str, members: Members, counts: Counts) -> dict[str, dict[str, list[int]]]:
        assert self._process.stdin is not None and self._process.stdout is not None
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
        self._process.stdin.write(json.dumps(group) + "\n")
        made: dict[str, dict[str, list[int]]] = json.loads(self._process.stdout.readline())
        return made

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def as_json(partitions: Mapping[bytes, frozenset[int]]) -> dict[str, list[int]]:
    return {uuid_to_text(topic_id): sorted(indexes) for topic_id, indexes in partitions.items() if indexes}


@pytest.fixture(scope="module")
def kafkas(java_tools: None) -> Iterator[Assignors]:
    made = Assignors()
    yield made
    made.close()


def changed(chance: random.Random, members: Members, counts: Counts, made: Assignment, alike: bool) -> Members:
    """Members come and go and subscribe anew; what stays has what it was given."""
    topics = sorted(counts)
    everyone = frozenset(chance.sample(topics, chance.randint(1, len(topics))))
    after: Members = {}
    for number in range(chance.randint(1, 8)):
        member_id = f"m{chance.randrange(10)}" if chance.random() < 0.5 else f"m{number}"
        before = members.get(member_id)
        topic_ids = before.topic_ids if before is not None and chance.random() < 0.7 else None
        if topic_ids is None:
            topic_ids = frozenset(chance.sample(topics, chance.randint(1, len(topics))))
        current = made.get(member_id, {}) if before is not None else {}
        instance_id = f"i{(7 * number) % 10}" if number % 3 == 0 else None
        after[member_id] = Subscriber(instance_id, everyone if alike else topic_ids, current)
    return after


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("alike", [False, True], ids=["different subscriptions", "the same subscriptions"])
def test_members_are_given_what_kafka_gives_them_round_after_round(
    kafkas: Assignors, alike: bool, assignor: str
) -> None:
    for seed in range(GROUPS):
        chance = random.Random(seed)
        counts = {chance.randbytes(16): chance.randint(1, 12) for _ in range(chance.randint(1, 6))}
        members: Members = {}
        made: Assignment = {}
        for turn in range(ROUNDS):
            if turn:
                counts = {topic_id: count + (chance.random() < 0.2) for topic_id, count in counts.items()}
            members = changed(chance, members, counts, made, alike)
            made = ASSIGNORS[assignor](members, counts)
            ours = {member_id: as_json(topics) for member_id, topics in made.items()}
            theirs = kafkas.assign(assignor, members, counts)
            if assignor == "uniform" and len({one.topic_ids for one in members.values()}) == 1:
                assert kept_and_given(members, ours) == kept_and_given(members, theirs), f"seed {seed}, round {turn}"
            else:
                assert ours == theirs, f"seed {seed}, round {turn}: {members}"


@pytest.mark.parametrize("alike", [False, True], ids=["different subscriptions", "the same subscriptions"])
def test_members_of_a_new_share_group_are_given_as_much_as_by_kafka(kafkas: Assignors, alike: bool) -> None:
    """Later Kafka's may leave members with more than others, where its hash maps have it so."""
    for seed in range(GROUPS):
        chance = random.Random(seed)
        counts = {chance.randbytes(16): chance.randint(1, 12) for _ in range(chance.randint(1, 6))}
        members = changed(chance, {}, counts, {}, alike)
        sharers = {member_id: share.Subscriber(one.topic_ids, {}) for member_id, one in members.items()}
        made = share.simple(sharers, {topic_id: frozenset(range(count)) for topic_id, count in counts.items()})
        ours = {member_id: as_json(topics) for member_id, topics in made.items()}
        assert shares(ours) == shares(kafkas.assign("simple", members, counts)), f"seed {seed}"


def shares(made: Mapping[str, dict[str, list[int]]]) -> tuple[Counter[str], Counter[tuple[str, int]]]:
    """How many partitions each member has, and how many members each partition."""
    pairs = [(m, (t, index)) for m, topics in made.items() for t, indexes in topics.items() for index in indexes]
    return Counter(member_id for member_id, _ in pairs), Counter(place for _, place in pairs)


def kept_and_given(members: Members, made: Mapping[str, dict[str, list[int]]]) -> dict[str, tuple[int, int]]:
    told = {}
    for member_id, topics in made.items():
        current = as_json(members[member_id].current)
        kept = sum(index in current.get(topic_id, ()) for topic_id, indexes in topics.items() for index in indexes)
        told[member_id] = (kept, sum(map(len, topics.values())))
    return told
