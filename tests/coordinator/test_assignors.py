"""Assignors on random changing groups, without Kafka: what must hold, and the results that Kafka's classes gave."""

from __future__ import annotations

import hashlib
import json
from collections import Counter

import pytest
from odradek.coordinator.groups.consumer.assignment import ASSIGNORS

from tests.coordinator.harness.random_groups import as_json, rounds

GROUPS = 60
#: The results of these groups. test_assignors_against_kafka.py compares the same groups with Kafka's classes, those of
#: `uniform` with equal subscriptions by their counts. After a change, run that test: it shows the first group that differs.
DIGESTS = {
    ("uniform", False): "4511ed625e88ef51",
    ("uniform", True): "a1deded0a47e1385",
    ("range", False): "26afa0a47d4099f7",
    ("range", True): "8120b676398f6de8",
}


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("alike", [False, True], ids=["different subscriptions", "the same subscriptions"])
def test_assignments_are_those_that_kafka_confirmed(alike: bool, assignor: str) -> None:
    digest = hashlib.sha256()
    for seed in range(GROUPS):
        for _, _, made in rounds(assignor, seed, alike=alike):
            shown = {member_id: as_json(topics) for member_id, topics in made.items()}
            digest.update(json.dumps(shown, sort_keys=True).encode())
    assert digest.hexdigest()[:16] == DIGESTS[assignor, alike]


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("alike", [False, True], ids=["different subscriptions", "the same subscriptions"])
def test_each_partition_has_one_owner_that_subscribes(alike: bool, assignor: str) -> None:
    for seed in range(GROUPS):
        for members, counts, made in rounds(assignor, seed, alike=alike):
            subscribed = {topic_id for one in members.values() for topic_id in one.topic_ids}
            owners = Counter((t, i) for topics in made.values() for t, indexes in topics.items() for i in indexes)
            assert owners == Counter({(t, i): 1 for t in subscribed for i in range(counts[t])})
            assert all(set(topics) <= members[member_id].topic_ids for member_id, topics in made.items())


def test_uniform_evens_out_what_subscriptions_permit() -> None:
    """No partition has an owner with two partitions more than another member that could have it."""
    for seed in range(GROUPS):
        for members, _, made in rounds("uniform", seed, alike=False):
            load = {member_id: sum(map(len, topics.values())) for member_id, topics in made.items()}
            for member_id, topics in made.items():
                for topic_id in (topic_id for topic_id, indexes in topics.items() if indexes):
                    others = [load[other] for other, one in members.items() if topic_id in one.topic_ids]
                    assert load[member_id] - min(others) <= 1, (
                        f"seed {seed}: {member_id} has {load[member_id]} of {load}"
                    )
