"""Lag and totals as Apache Kafka's tools have them, for generated groups and logs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.admin.lag import GroupProgress, Log, by_topic, lag_of, lags_of, places_read, total_of
from odradek.admin.markers import MOST_LOOKS, MOST_MARKERS, Gap, gaps_of, may_be_markers, records_end_in
from odradek.protocol.records.batch import BatchHeader, read_header
from odradek.protocol.records.end_markers import encode_end_transaction
from odradek.protocol.records.record import Record, encode_batch

OFFSETS = st.integers(0, 1 << 40)
PLACES = st.tuples(st.sampled_from(["orders", "sales"]), st.integers(0, 5))
POSITIONS = st.builds(GroupProgress, st.none() | OFFSETS, st.none() | OFFSETS, st.integers(0, 100))
LOGS = st.builds(Log, st.none() | OFFSETS, st.none() | OFFSETS, st.none() | OFFSETS, is_deleted=st.booleans())
GROUPS = st.dictionaries(PLACES, POSITIONS, max_size=12)


@given(OFFSETS, OFFSETS)
def test_lag_is_the_end_less_the_commit(committed: int, end: int) -> None:
    found = lag_of(("orders", 0), GroupProgress(committed), Log(end))
    assert (found.committed, found.end, found.lag) == (committed, end, max(0, end - committed))


@given(LOGS)
def test_partition_without_a_commit_has_no_lag(log: Log) -> None:
    found = lag_of(("orders", 0), GroupProgress(None), log)
    assert (found.committed, found.lag, found.is_uncommitted, found.is_unknown) == (None, None, True, False)


@given(OFFSETS, OFFSETS)
def test_partition_without_a_commit_counts_from_the_start_where_it_is_wanted(start: int, length: int) -> None:
    found = lag_of(("orders", 0), GroupProgress(None), Log(start + length, start), from_start=True)
    assert (found.lag, found.is_uncommitted, found.is_unknown) == (length, True, False)


@given(GROUPS, st.dictionaries(PLACES, LOGS), st.booleans())
def test_total_is_the_sum_of_the_numbers_in_the_rows(
    positions: dict[tuple[str, int], GroupProgress], logs: dict[tuple[str, int], Log], from_start: bool
) -> None:
    rows = lags_of(positions, logs, from_start=from_start)
    total = total_of(rows)
    known = [row.lag for row in rows if row.lag is not None]
    assert [(row.topic, row.partition) for row in rows] == sorted(positions)
    assert total.partitions == len(rows) and total.lag == (sum(known) if known else None)
    assert total.uncommitted == sum(one.offset is None for one in positions.values())
    assert total.unknown == sum(row.is_unknown for row in rows)
    assert all(row.lag is None for row in rows if row.is_unknown)
    if not from_start:
        assert all(row.lag is None for row in rows if row.committed is None)
    sums = by_topic(rows)
    assert sum(one or 0 for one in sums.values()) == (total.lag or 0) and set(sums) == {topic for topic, _ in positions}


@given(OFFSETS, st.booleans())
def test_lag_without_a_leader_is_unknown_and_that_of_a_deleted_topic_is_not(offset: int, is_deleted: bool) -> None:
    found = lag_of(("orders", 0), GroupProgress(offset), Log(None, is_deleted=is_deleted))
    assert (found.lag, found.is_unknown) == (None, not is_deleted)


@given(OFFSETS, st.integers(0, 1 << 20), st.integers(0, 100))
def test_share_group_has_the_lag_that_its_coordinator_counts(start: int, length: int, delivered: int) -> None:
    log = Log(start + length)
    assert lag_of(("orders", 0), GroupProgress(start, counted=7), log).lag == 7
    assert lag_of(("orders", 0), GroupProgress(start, delivered=delivered), log).lag == max(0, length - delivered)


@given(st.sets(PLACES), st.sets(st.sampled_from(["orders", "sales"])), st.integers(0, 6))
def test_subscribers_read_all_partitions_of_their_topics_and_of_those_with_a_commit(
    committed: set[tuple[str, int]], topics: set[str], count: int
) -> None:
    found = places_read(committed, topics, {"orders": range(count), "sales": range(count)})
    assert not found & committed
    read = topics | {topic for topic, _ in committed}
    assert found | committed >= {(topic, index) for topic in read for index in range(count)}
    assert {topic for topic, _ in found} <= read


# ---- markers


@st.composite
def logs_of_batches(draw: st.DrawFn) -> list[tuple[BatchHeader, bytes]]:
    """The batches of a log in order: records, markers, and gaps that compaction left."""
    made, offset = [], 0
    for is_marker, count, gap in draw(st.lists(st.tuples(st.booleans(), st.integers(1, 5), st.integers(0, 3)))):
        offset += gap
        if is_marker:
            data = encode_end_transaction(
                True, base_offset=offset, timestamp=0, producer_id=7, producer_epoch=0, coordinator_epoch=0
            )
        else:
            data = encode_batch([Record(offset + number, 0, None, b"x", []) for number in range(count)])
        header = read_header(data)
        made.append((header, bytes(data)))
        offset = header.next_offset
    return made


@given(logs_of_batches(), st.data())
def test_lag_is_none_exactly_where_no_record_follows(
    batches: list[tuple[BatchHeader, bytes]], data: st.DataObject
) -> None:
    end = batches[-1][0].next_offset if batches else 0
    committed = data.draw(st.integers(0, end))
    left = [(header, content) for header, content in batches if header.last_offset >= committed]
    found = records_end_in(b"".join(content for _, content in left), Gap(committed, end))
    has_records = any(not header.is_control for header, _ in left)
    assert lag_of(("orders", 0), GroupProgress(committed), Log(end, records_end=found)).lag == (
        end - committed if has_records else 0
    )
    if left:  # a response may end anywhere
        cut = b"".join(content for _, content in left)[: -data.draw(st.integers(1, 40))]
        assert records_end_in(cut, Gap(committed, end)) is None


@pytest.mark.parametrize(("gap", "expected"), [(0, False), (1, True), (MOST_MARKERS, True), (MOST_MARKERS + 1, False)])
def test_only_few_offsets_are_looked_at(gap: int, expected: bool) -> None:
    assert may_be_markers(100, 100 + gap) is expected
    groups = [
        {("orders", 0): GroupProgress(100)},
        {("orders", 0): GroupProgress(99), ("orders", 1): GroupProgress(None)},
    ]
    wanted = {("orders", 0): Gap(100 if gap == MOST_MARKERS else 99, 100 + gap)} if expected else {}
    assert gaps_of(groups, {("orders", 0): 100 + gap, ("orders", 1): 5}) == (
        wanted or ({("orders", 0): Gap(99, 100)} if not gap else {})
    )


def test_number_of_partitions_that_are_looked_at_is_bounded() -> None:
    many = {("orders", index): GroupProgress(0) for index in range(MOST_LOOKS + 50)}
    assert len(gaps_of([many], dict.fromkeys(many, 1))) == MOST_LOOKS
