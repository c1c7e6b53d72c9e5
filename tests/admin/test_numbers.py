"""Offsets, sizes, rates, replicas and the quorum: what is counted, for generated clusters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.admin.offsets import offsets_of
from odradek.admin.places import sum_by_topic
from odradek.admin.quorum import QuorumMember, active_controller, quorum_replicas
from odradek.admin.rates import growth, median_of, per_second, percentiles, ratio_of, smoothed, throughput
from odradek.admin.replicas import PartitionState, ReplicaCounts
from odradek.admin.sizes import ReplicaSize, bytes_by_partition, bytes_of_replicas

PLACES = st.tuples(st.sampled_from(["orders", "sales"]), st.integers(0, 3))
COUNTS = st.dictionaries(PLACES, st.integers(0, 1 << 40))
FIGURES = st.floats(0, 1e9, allow_nan=False)


@given(COUNTS, COUNTS)
def test_offsets_are_counted_where_both_ends_of_the_log_are_known(
    starts: dict[tuple[str, int], int], ends: dict[tuple[str, int], int]
) -> None:
    found = offsets_of(starts, ends)
    assert found.keys() == starts.keys() & ends.keys()
    assert all(count == max(0, ends[place] - starts[place]) for place, count in found.items())
    assert sum(sum_by_topic(found).values()) == sum(found.values())


@given(st.lists(st.builds(ReplicaSize, PLACES, st.integers(1, 3), st.integers(0, 1 << 40), st.booleans())))
def test_size_of_a_partition_is_that_of_its_largest_finished_replica(replicas: list[ReplicaSize]) -> None:
    found = bytes_by_partition(replicas)
    for place, count in found.items():
        assert count == max(one.bytes for one in replicas if one.place == place and not one.is_future)
    assert found.keys() == {one.place for one in replicas if not one.is_future}
    assert bytes_of_replicas(replicas) == sum(one.bytes for one in replicas)


@given(COUNTS, COUNTS)
def test_growth_is_never_negative_and_needs_two_readings(
    before: dict[tuple[str, int], int], now: dict[tuple[str, int], int]
) -> None:
    found = growth(before, now)
    assert found.keys() == before.keys() & now.keys()
    assert all(count == max(0, now[place] - before[place]) for place, count in found.items())


@given(st.lists(FIGURES, min_size=1, max_size=9), st.lists(st.integers(0, 1 << 40), min_size=1, max_size=9))
def test_medians_have_no_more_digits_than_what_they_are_of(times: list[float], counts: list[int]) -> None:
    runs = [percentiles("ack_ms", [one]) for one in times]
    assert all(len(repr(float(one)).partition(".")[2]) <= 3 for one in median_of(runs).values() if one < 1e12)
    (found,) = median_of([{"records": one} for one in counts]).values()
    assert isinstance(found, int) and min(counts) <= found <= max(counts)


def test_median_of_two_runs_is_not_written_with_the_errors_of_binary_fractions() -> None:
    assert median_of([{"mb_per_s": 76.08}, {"mb_per_s": 76.09}]) == {"mb_per_s": 76.085}
    assert repr(median_of([{"mb_per_s": 76.08}, {"mb_per_s": 76.09}])["mb_per_s"]) == "76.085"


@given(st.integers(0, 1 << 30), st.floats(0.001, 1e4), FIGURES)
def test_figures_of_a_run_are_rounded(count: int, seconds: float, theirs: float) -> None:
    for one in [*throughput(count, 100, seconds).values(), per_second(count, seconds), ratio_of(count, theirs) or 0]:
        assert float(one) == round(float(one), 3)


@given(st.lists(st.integers(0, 1000), min_size=1), st.floats(0.1, 60))
def test_smoothed_rate_stays_between_those_it_is_of(counts: list[int], seconds: float) -> None:
    mean = None
    for count in counts:
        mean = smoothed(mean, count, seconds, 5.0)
    assert mean is not None and 0 <= mean <= max(counts) / seconds * 1.001


NODES = st.integers(1, 5)
PARTITIONS = st.lists(
    st.builds(
        PartitionState,
        st.integers(-1, 5),
        st.lists(NODES, unique=True, min_size=1),
        st.lists(NODES, unique=True),
    )
)


@given(PARTITIONS, PARTITIONS)
def test_counts_of_replicas_are_those_of_each_partition(one: list[PartitionState], other: list[PartitionState]) -> None:
    every = [*one, *other]
    found = ReplicaCounts().add(one).add(other)
    assert found.partitions == len(every)
    assert found.under_replicated == sum(len(part.isr) < len(part.replicas) for part in every)
    assert found.without_leader == sum(part.leader < 0 for part in every)
    for node in range(1, 6):
        assert found.leads[node] == sum(part.leader == node for part in every)
        assert found.holds[node] == sum(node in part.replicas for part in every)
        assert found.lacks[node] <= found.holds[node]


# ---- the quorum

MEMBERS = st.lists(
    st.builds(QuorumMember, NODES, st.integers(-1, 1000), st.integers(-1, 1000), st.just(""), st.booleans()),
    unique_by=lambda one: one.node,
)


@given(NODES, MEMBERS)
def test_lag_of_a_replica_is_what_it_lacks_of_the_leaders_log(leader: int, members: list[QuorumMember]) -> None:
    found = quorum_replicas(leader, 500, members)
    end = next((one.log_end_offset for one in members if one.node == leader and one.is_voter), 500)
    for one, member in zip(found, members, strict=True):
        known = member.log_end_offset >= 0
        assert one.lag == (max(0, end - member.log_end_offset) if known else None)
        assert (one.role == "leader") == (member.node == leader)
        assert one.ms_behind is None or one.ms_behind >= 0


@pytest.mark.parametrize(
    ("leader", "described", "expected"),
    [
        (3, 1, 3),  # brokers of a KRaft cluster name any broker
        (100, 1, 100),  # a controller that is no broker
        (-1, 1, None),  # an election
        (None, 2, 2),  # ZooKeeper
        (None, -1, None),
    ],
)
def test_active_controller_is_the_leader_of_the_quorum(
    leader: int | None, described: int, expected: int | None
) -> None:
    assert active_controller(leader, described, [1, 2, 3]) == expected
