"""Random changing groups for assignors, by a seed: the same groups for each test that uses them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

from odradek.coordinator.groups.consumer.assignors import ASSIGNORS, Assignment, Subscriber
from odradek.protocol.uuids import uuid_to_text

ROUNDS = 6
Members = dict[str, Subscriber]
Counts = dict[bytes, int]


def rounds(assignor: str, seed: int, *, alike: bool) -> Iterator[tuple[Members, Counts, Assignment]]:
    """Yields the members and the partitions of a group, and its assignment, after each of its changes."""
    rng = random.Random(seed)
    counts = {rng.randbytes(16): rng.randint(1, 12) for _ in range(rng.randint(1, 6))}
    members: Members = {}
    made: Assignment = {}
    for turn in range(ROUNDS):
        if turn:
            counts = {topic_id: count + (rng.random() < 0.2) for topic_id, count in counts.items()}
        members = changed(rng, members, counts, made, alike)
        made = ASSIGNORS[assignor](members, counts)
        yield members, counts, made


def changed(rng: random.Random, members: Members, counts: Counts, made: Assignment, alike: bool) -> Members:
    """Returns changed members: some join, leave or change subscriptions. The others have their last assignment."""
    topics = sorted(counts)
    everyone = frozenset(rng.sample(topics, rng.randint(1, len(topics))))
    after: Members = {}
    for number in range(rng.randint(1, 8)):
        member_id = f"m{rng.randrange(10)}" if rng.random() < 0.5 else f"m{number}"
        before = members.get(member_id)
        topic_ids = before.topic_ids if before is not None and rng.random() < 0.7 else None
        if topic_ids is None:
            topic_ids = frozenset(rng.sample(topics, rng.randint(1, len(topics))))
        current = made.get(member_id, {}) if before is not None else {}
        instance_id = f"i{(7 * number) % 10}" if number % 3 == 0 else None
        after[member_id] = Subscriber(instance_id, everyone if alike else topic_ids, current)
    return after


def as_json(partitions: Mapping[bytes, frozenset[int]]) -> dict[str, list[int]]:
    return {uuid_to_text(topic_id): sorted(indexes) for topic_id, indexes in partitions.items() if indexes}
