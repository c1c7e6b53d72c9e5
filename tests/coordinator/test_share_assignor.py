"""The simple assignor: balances the number of members per partition."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from odradek.coordinator.groups.share.assignor import Assignment, ShareSubscriber, simple

from tests.harness.examples import examples

T, U = b"t" * 16, b"u" * 16


def assign(members: int, partitions: int, before: Assignment | None = None) -> Assignment:
    subscribers = {f"m{n}": ShareSubscriber(frozenset({T}), (before or {}).get(f"m{n}", {})) for n in range(members)}
    return simple(subscribers, {T: frozenset(range(partitions))})


def sharers(assignment: Assignment) -> Counter[int]:
    return Counter(index for of_member in assignment.values() for index in of_member.get(T, ()))


@pytest.mark.parametrize("members", range(1, 9))
@pytest.mark.parametrize("partitions", range(1, 9))
def test_every_partition_has_members_and_loads_are_balanced(members: int, partitions: int) -> None:
    assignment = assign(members, partitions)
    counts = sharers(assignment)
    assert set(counts) == set(range(partitions))
    assert max(counts.values()) == -(-members // partitions), "no partition has more members than its share"
    loads = [len(of_member.get(T, ())) for of_member in assignment.values()]
    assert min(loads) >= 1 and max(loads) - min(loads) <= 1


@pytest.mark.parametrize("seed", range(examples(20)))
def test_assignment_is_stable_without_changes(seed: int) -> None:
    rng = random.Random(seed)
    members, partitions = rng.randrange(1, 10), rng.randrange(1, 10)
    before = assign(members, partitions)
    assert assign(members, partitions, before) == before


def test_topic_is_assigned_only_to_its_subscribers() -> None:
    subscribers = {
        "a": ShareSubscriber(frozenset({T}), {}),
        "b": ShareSubscriber(frozenset({T, U}), {}),
        "c": ShareSubscriber(frozenset(), {}),
    }
    assignment = simple(subscribers, {T: frozenset({0, 1}), U: frozenset({0})})
    assert assignment == {"a": {T: frozenset({0})}, "b": {T: frozenset({1}), U: frozenset({0})}, "c": {}}


def test_uninitialized_partitions_are_not_assigned() -> None:
    assert simple({"a": ShareSubscriber(frozenset({T, U}), {})}, {T: frozenset({1})}) == {"a": {T: frozenset({1})}}
