"""Acquisition of share-partition records: how many a member gets, by its limit, the locks, deliveries and batches."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.coordinator.acquisition import Acquired, AcquireRequest, acquire
from odradek.coordinator.share_partition import (
    AckBatch,
    AckType,
    Limits,
    SharePartition,
)

from tests.harness.examples import examples

NOW = 1000


class Batch(NamedTuple):
    base_offset: int
    last_offset: int


class Harness:
    """A share partition whose persister accepts all writes."""

    def __init__(self, start: int = 0, **limits: int) -> None:
        self.partition = SharePartition(start, (), Limits(**limits))  # type: ignore[arg-type]

    def take(
        self, *batches: tuple[int, int], records: int = 500, strict: bool = False, size: int = 500, fetch: int = 0
    ) -> list[Acquired]:
        made = [Batch(*one) for one in batches or ((0, 4), (5, 9))]
        return acquire(self.partition, "m", AcquireRequest(records, size, strict), fetch, made, NOW)

    def ranges(self, *batches: tuple[int, int], **options: int | bool) -> list[tuple[int, int]]:
        return [(one.first, one.last) for one in self.take(*batches, **options)]  # type: ignore[arg-type]

    def acknowledge(self, kind: AckType, first: int, last: int) -> None:
        self.partition.acknowledge(1, "m", [AckBatch(first, last, [kind])], NOW)
        for write in self.partition.take().writes:
            self.partition.written(write.id, None)
        self.partition.take()

    def delivered(self, times: int, first: int = 0, last: int = 9) -> None:
        """Acquires the records and releases them, so many times."""
        for _ in range(times):
            self.take()
            self.acknowledge(AckType.RELEASE, first, last)


# ---- new records


@pytest.mark.parametrize(
    ("records", "strict", "expected"),
    [
        (1, False, [(0, 4)]),
        (5, False, [(0, 4)]),
        (6, False, [(0, 9)]),
        (1, True, [(0, 0)]),
        (5, True, [(0, 4)]),
        (6, True, [(0, 5)]),
        (10, True, [(0, 9)]),
        (11, True, [(0, 9)]),
        (0, False, []),
        (-1, True, []),
    ],
)
def test_new_records_are_whole_batches_unless_the_limit_is_strict(
    records: int, strict: bool, expected: list[tuple[int, int]]
) -> None:
    assert Harness().ranges(records=records, strict=strict) == expected


@pytest.mark.parametrize(
    ("locks", "records", "expected"),
    [(3, 500, [(0, 4)]), (5, 500, [(0, 4)]), (6, 500, [(0, 9)]), (10, 2, [(0, 4)])],
)
def test_locks_limit_the_records_in_flight(locks: int, records: int, expected: list[tuple[int, int]]) -> None:
    harness = Harness(record_locks=locks)
    assert harness.ranges(records=records) == expected
    in_flight = harness.partition.in_flight_count
    assert in_flight == sum(last - first + 1 for first, last in expected)
    assert harness.ranges((10, 14)) == ([(10, 14)] if in_flight < locks else [])


def test_records_in_flight_come_back_though_all_locks_are_taken() -> None:
    harness = Harness(record_locks=5)
    assert harness.ranges() == [(0, 4)]
    harness.acknowledge(AckType.RELEASE, 2, 2)
    assert harness.ranges() == [(2, 2)]
    assert harness.ranges() == []
    assert harness.ranges((5, 9), fetch=5) == []


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (1, [(0, 1), (2, 4), (5, 9)]),
        (2, [(0, 1), (2, 4), (5, 9)]),
        (3, [(0, 4), (5, 9)]),
        (5, [(0, 4), (5, 9)]),
        (9, [(0, 9)]),
    ],
)
def test_ranges_have_about_the_size_of_a_batch_and_end_where_batches_end(
    size: int, expected: list[tuple[int, int]]
) -> None:
    assert Harness().ranges((0, 1), (2, 4), (5, 9), size=size) == expected


def test_offsets_that_the_log_lacks_are_archived() -> None:
    harness = Harness()
    assert harness.ranges((3, 4), (7, 9)) == [(3, 9)]
    assert harness.ranges((20, 22), fetch=10) == [(20, 22)]
    assert harness.partition.in_flight_count == 10
    harness.acknowledge(AckType.RELEASE, 3, 9)
    assert harness.ranges((5, 9), fetch=0) == [(5, 9)], "compaction has removed 3 and 4"
    harness.acknowledge(AckType.ACCEPT, 5, 9)
    harness.acknowledge(AckType.ACCEPT, 20, 22)
    assert harness.partition.start_offset == 23


@pytest.mark.parametrize(("start", "expected"), [(0, [(0, 9)]), (3, [(3, 9)]), (9, [(9, 9)]), (10, [])])
def test_records_below_the_start_are_not_acquired(start: int, expected: list[tuple[int, int]]) -> None:
    assert Harness(start).ranges() == expected


# ---- failing records


@pytest.mark.parametrize(
    ("limit", "deliveries", "count"),
    [(5, 1, 10), (5, 2, 10), (5, 3, 5), (8, 3, 10), (8, 4, 5), (100, 49, 10), (100, 50, 5)],
)
@pytest.mark.parametrize("records", [1, 3, 5, 500])
def test_records_that_failed_often_come_in_smaller_numbers(
    limit: int, deliveries: int, count: int, records: int
) -> None:
    harness = Harness(delivery_count=limit)
    harness.delivered(deliveries)
    (one,) = harness.take(records=records, strict=True)
    assert (one.first, one.last - one.first + 1, one.delivery_count) == (0, min(count, records), deliveries + 1)


@pytest.mark.parametrize("records", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("is_parted", [True, False])
def test_strict_limit_holds_for_failing_records_to_the_last_one(records: int, is_parted: bool) -> None:
    harness = Harness(delivery_count=5)
    harness.delivered(2)
    harness.take()
    if is_parted:
        harness.acknowledge(AckType.RELEASE, 0, 0)
        harness.acknowledge(AckType.RELEASE, 1, 1)
        harness.acknowledge(AckType.RELEASE, 2, 9)
    else:
        harness.acknowledge(AckType.RELEASE, 0, 9)
    found = harness.take(records=records, strict=True)
    assert sum(one.last - one.first + 1 for one in found) == min(records, 5)
    assert found[0].first == 0 and {one.delivery_count for one in found} == {4}


def test_failing_records_are_delivered_without_others() -> None:
    harness = Harness(delivery_count=4)
    harness.take((0, 4))
    harness.take((5, 9), fetch=5)
    harness.acknowledge(AckType.RELEASE, 5, 9)
    harness.take((5, 9), fetch=5)
    harness.acknowledge(AckType.RELEASE, 5, 9)
    harness.acknowledge(AckType.RELEASE, 0, 4)
    assert harness.ranges() == [(0, 4)], "those that have not failed"
    assert harness.ranges() == [(5, 6)], "half of five"
    assert harness.ranges((7, 9), (10, 12), fetch=7) == [(7, 8)]


def test_record_with_fewer_failures_does_not_set_the_number_for_its_range() -> None:
    harness = Harness(delivery_count=5)
    harness.take()
    for _ in range(2):
        harness.acknowledge(AckType.RELEASE, 5, 9)
        harness.take()
    harness.acknowledge(AckType.RELEASE, 0, 9)
    found = [(one.first, one.last, one.delivery_count) for one in harness.take()]
    assert found == [(0, 4, 2), (5, 9, 4)], "half of ten, by the first failing record"


def test_first_failing_record_sets_the_number_for_its_range() -> None:
    harness = Harness(delivery_count=9)
    harness.delivered(4)
    harness.take()
    harness.acknowledge(AckType.RELEASE, 3, 9)
    assert harness.ranges() + harness.ranges() == [(3, 7), (8, 9)]
    harness.acknowledge(AckType.RELEASE, 0, 9)
    assert harness.ranges() == [(0, 2), (3, 4)], "half of ten, though 3 to 9 failed once more"


def test_last_delivery_is_of_one_record() -> None:
    harness = Harness(delivery_count=3)
    harness.delivered(2)
    for offset in range(10):
        (one,) = harness.take()
        assert (one.first, one.last, one.delivery_count) == (offset, offset, 3)
    harness.acknowledge(AckType.RELEASE, 0, 9)
    assert harness.take() == [] and harness.partition.start_offset == 10, "their deliveries are used up"


# ---- all records come


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=6),
    st.integers(1, 6),
    st.booleans(),
    st.integers(1, 8),
    st.integers(3, 9),
)
def test_every_record_is_delivered_once_while_none_fails(
    sizes: list[int], records: int, strict: bool, size: int, locks: int
) -> None:
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    batches = [(end - size, end - 1) for end, size in zip(ends, sizes)]
    harness = Harness(record_locks=locks)
    got: list[int] = []
    for _ in range(200):
        if len(got) == ends[-1]:
            break
        at = harness.partition.start_offset
        found = harness.take(
            *(one for one in batches if one[1] >= at), records=records, strict=strict, size=size, fetch=at
        )
        assert found, "some are left, and none is in flight"
        offsets = [offset for one in found for offset in range(one.first, one.last + 1)]
        assert not strict or len(offsets) <= min(records, locks)
        got += offsets
        for one in found:
            harness.acknowledge(AckType.ACCEPT, one.first, one.last)
    assert got == list(range(ends[-1])) and harness.partition.start_offset == ends[-1]
