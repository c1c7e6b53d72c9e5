"""Placement of replicas: spread over racks and brokers, fenced brokers last."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.protocol.errors import ErrorCode
from odradek.replication.controller.placement import UsableBroker, place
from odradek.replication.controller.result import ApiError
from odradek.replication.random_source import random_uuid

from tests.harness.examples import examples

BROKERS = st.lists(st.tuples(st.sampled_from([None, "a", "b", "c"]), st.booleans()), min_size=1, max_size=9)


def brokers_of(drawn: list[tuple[str | None, bool]]) -> list[UsableBroker]:
    return [UsableBroker(id, rack, fenced) for id, (rack, fenced) in enumerate(drawn)]


def placed(partitions: int, factor: int, brokers: list[UsableBroker], seed: int = 0) -> list[list[int]]:
    found = place(partitions, factor, brokers, random.Random(seed))
    assert not isinstance(found, ApiError), found
    return found


@settings(max_examples=examples(100), deadline=None)
@given(BROKERS, st.integers(1, 9), st.integers(1, 40), st.integers())
def test_replicas_are_distinct_and_leaders_unfenced(drawn, factor, partitions, seed) -> None:
    brokers = brokers_of(drawn)
    alive = {broker.id for broker in brokers if not broker.fenced}
    found = place(partitions, factor, brokers, random.Random(seed))
    if not alive or factor > len(brokers):
        assert isinstance(found, ApiError) and found.code == ErrorCode.INVALID_REPLICATION_FACTOR
        return
    assert not isinstance(found, ApiError)
    assert len(found) == partitions
    for replicas in found:
        assert len(set(replicas)) == len(replicas) == factor
        assert replicas[0] in alive


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(2, 4), st.integers(1, 3), st.integers())
def test_replicas_of_partition_are_on_different_racks_if_possible(racks, per_rack, seed) -> None:
    brokers = [UsableBroker(rack * 10 + i, f"r{rack}", False) for rack in range(racks) for i in range(per_rack)]
    for replicas in placed(30, racks, brokers, seed):
        assert len({broker // 10 for broker in replicas}) == racks


def test_leaders_and_replicas_are_even() -> None:
    brokers = [UsableBroker(id, None, False) for id in range(4)]
    found = placed(400, 2, brokers)
    assert set(Counter(replicas[0] for replicas in found).values()) == {100}
    assert max(Counter(broker for replicas in found for broker in replicas).values()) <= 210


def test_fenced_broker_is_used_only_with_too_few_others() -> None:
    brokers = [UsableBroker(1, None, False), UsableBroker(2, None, True), UsableBroker(3, None, False)]
    assert all(set(replicas) == {1, 3} for replicas in placed(20, 2, brokers))
    assert all(set(replicas) == {1, 2, 3} and replicas[2] == 2 for replicas in placed(20, 3, brokers))


def test_same_seed_repeats_placement_and_other_seed_differs() -> None:
    brokers = [UsableBroker(id, str(id % 3), False) for id in range(9)]
    assert placed(50, 3, brokers, 1) == placed(50, 3, brokers, 1) != placed(50, 3, brokers, 2)


@pytest.mark.parametrize("factor", [0, -3])
def test_non_positive_replication_factor_returns_error(factor: int) -> None:
    error = place(1, factor, [UsableBroker(1, None, False)], random.Random(0))
    assert isinstance(error, ApiError) and "must be positive" in str(error.message)


def test_random_uuids_are_version_4_and_start_without_dash() -> None:
    rng = random.Random(5)
    made = [random_uuid(rng) for _ in range(1000)]
    assert len(set(made)) == 1000
    assert all(uuid[6] >> 4 == 4 and uuid[8] >> 6 == 2 and uuid[0] >> 2 != 62 for uuid in made)


@pytest.mark.parametrize("fenced", [0, 2])
def test_replica_sets_change_after_as_many_partitions_as_unfenced_brokers(fenced: int) -> None:
    """Within a round each unfenced broker leads once, and followers follow its order; each round has an order of its own."""
    brokers = [UsableBroker(id, None, id >= 5) for id in range(5 + fenced)]
    found = placed(20, 3, brokers)
    rounds = [found[start : start + 5] for start in range(0, 20, 5)]
    for one in rounds:
        assert {replicas[0] for replicas in one} == set(range(5))
        following = {replicas[0]: replicas[1] for replicas in one}
        assert all(following[replicas[1]] == replicas[2] for replicas in one)
    assert len({tuple(map(tuple, sorted(one))) for one in rounds}) == 4
