"""Leader epochs of a log against those of remote segments, compared with Apache's RemoteLogManager."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odradek.protocol.offsets import NO_OFFSET
from odradek.storage.log.epochs import epoch_of
from odradek.tiers.cache import RemoteLogMetadataCache
from odradek.tiers.events import encode_event
from odradek.tiers.lineage import (
    NO_EPOCH,
    common_end,
    epochs_in_range,
    extended_epochs,
    highest_remote_offset,
    is_within,
    remote_start_offset,
    without_empty,
)
from odradek.tiers.segment_metadata import (
    COPY_SEGMENT_FINISHED,
    COPY_SEGMENT_STARTED,
    DELETE_SEGMENT_STARTED,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)

from tests.harness.examples import examples
from tests.tiers.harness.generated import MOST_OFFSET, small_segments
from tests.tiers.harness.tier_oracle import TierOracle, text
from tests.tiers.harness.tiered_log import PARTITION


@st.composite
def log_epochs(draw: st.DrawFn) -> list[tuple[int, int]]:
    numbers = sorted(draw(st.sets(st.integers(0, 4), min_size=1, max_size=4)))
    starts = sorted(draw(st.lists(st.integers(0, MOST_OFFSET), min_size=len(numbers), max_size=len(numbers))))
    return list(zip(numbers, starts, strict=True))


@settings(max_examples=examples(150), deadline=None, suppress_health_check=(HealthCheck.function_scoped_fixture,))
@given(segment=small_segments(1), epochs=log_epochs(), end=st.integers(1, MOST_OFFSET + 2), same=st.booleans())
def test_segment_is_within_the_lineage_where_apache_finds_it_so(
    tier_oracle: TierOracle, segment: RemoteLogSegmentMetadata, epochs: list[tuple[int, int]], end: int, same: bool
) -> None:
    if same:  # mostly, random epochs are of another history
        own = epochs_in_range(epochs, segment.start_offset, segment.end_offset + 1)
        segment = segment._replace(epochs=own or segment.epochs)
    theirs = tier_oracle.ask("within", segment=text(encode_event(segment)), log_end_offset=end, epochs=epochs)
    assert is_within(segment, end, epochs) == theirs


def test_segment_of_the_log_itself_is_within_its_lineage() -> None:
    epochs = [(0, 0), (2, 50), (5, 120)]
    segment = RemoteLogSegmentMetadata(PARTITION, b"1" * 16, 40, 129, 0, 1, 0, 1, epochs_in_range(epochs, 40, 130))
    assert is_within(segment, 130, epochs)
    assert not is_within(segment, 129, epochs), "it ends behind the log"
    assert not is_within(segment, 130, [(0, 0), (2, 51), (5, 120)]), "the epoch began at another offset"
    assert not is_within(segment, 130, [(0, 0), (2, 50), (6, 120)]), "another leader wrote its end"
    assert is_within(segment, 130, [(2, 70), (5, 120)]), "the log start has moved into it"
    assert not is_within(segment, 130, [])


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 100, ((0, 0), (2, 50), (3, 80))),
        (10, 50, ((0, 10),)),
        (50, 51, ((2, 50),)),
        (60, 81, ((2, 60), (3, 80))),
        (90, 91, ((3, 90),)),
        (90, 80, ((2, 90),)),
    ],
)
def test_epochs_in_a_range_begin_with_its_start(start: int, end: int, expected: tuple[tuple[int, int], ...]) -> None:
    assert epochs_in_range([(0, 0), (2, 50), (3, 80)], start, end) == expected


def test_epochs_of_records_are_found() -> None:
    epochs = [(1, 10), (2, 50), (3, 50), (4, 80)]
    assert [epoch_of(epochs, offset) for offset in (9, 10, 49, 50, 80)] == [NO_EPOCH, 1, 1, 3, 4]
    assert without_empty(epochs) == [(1, 10), (3, 50), (4, 80)]
    assert without_empty([]) == []


def cache_of(*segments: tuple[int, int, int, RemoteLogSegmentState]) -> RemoteLogMetadataCache:
    """Returns a cache with segments of (epoch, start, end, state)."""
    cache = RemoteLogMetadataCache()
    for number, (epoch, start, end, state) in enumerate(segments):
        one = RemoteLogSegmentMetadata(PARTITION, bytes((number + 1,)) * 16, start, end, 0, 1, 0, 1, ((epoch, start),))
        cache.apply(one)
        for step in (COPY_SEGMENT_FINISHED, DELETE_SEGMENT_STARTED):
            if step <= state:
                cache.apply(RemoteLogSegmentMetadataUpdate(PARTITION, one.segment_id, 1, 0, step))
    return cache


FINISHED, STARTED = COPY_SEGMENT_FINISHED, RemoteLogSegmentState.COPY_SEGMENT_STARTED


def test_highest_remote_offset_is_of_the_latest_epoch_with_a_copy() -> None:
    epochs = [(0, 0), (1, 100), (2, 200)]
    cache = cache_of((0, 0, 99, FINISHED), (1, 100, 149, FINISHED), (2, 200, 210, STARTED))
    assert highest_remote_offset(cache, epochs, 300) == (149, 1)
    assert highest_remote_offset(cache, [(0, 0), (1, 100), (2, 120)], 300) == (119, 1), "its end was cut"
    assert highest_remote_offset(cache, [(0, 0), (1, 100)], 130) == (129, 1), "the log was cut"
    assert highest_remote_offset(cache, [(0, 0), (4, 50)], 300) == (49, 0)
    assert highest_remote_offset(cache, [(3, 0)], 300) == (NO_OFFSET, NO_EPOCH)
    assert highest_remote_offset(cache, [], 0) == (NO_OFFSET, NO_EPOCH)


def test_log_of_a_new_leader_starts_with_the_first_segment_that_can_be_read() -> None:
    cache = cache_of((0, 0, 99, DELETE_SEGMENT_STARTED), (0, 100, 149, FINISHED), (1, 150, 200, FINISHED))
    assert remote_start_offset(cache, [(0, 0), (1, 150)]) == 100
    assert remote_start_offset(cache, [(1, 150)]) == 150
    assert remote_start_offset(cache, [(7, 0)]) is None


def copied(number: int, start: int, end: int, *epochs: tuple[int, int]) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        PARTITION, bytes([number]) * 16, start, end, 0, 1, 0, 1, epochs, state=COPY_SEGMENT_FINISHED
    )


def test_epochs_of_the_remote_part_are_those_of_its_segments() -> None:
    segments = [copied(1, 0, 9, (0, 0)), copied(2, 10, 19, (0, 10), (2, 15)), copied(3, 20, 29, (2, 20), (3, 25))]
    assert extended_epochs(segments, [(3, 30), (4, 35)], 30) == [(0, 0), (2, 15), (3, 25), (4, 35)]
    assert extended_epochs(segments, [], 30) == [(0, 0), (2, 15), (3, 25)]
    assert extended_epochs(segments, [(2, 22), (3, 25)], 30) == [(0, 0), (2, 15), (3, 25)]


def test_epochs_before_a_hole_or_of_a_segment_that_is_not_copied_are_not_taken() -> None:
    last = copied(3, 20, 29, (2, 20))
    begun = copied(2, 10, 19, (1, 10))._replace(state=COPY_SEGMENT_STARTED)
    assert extended_epochs([copied(1, 0, 8, (0, 0)), begun, last], [(4, 30)], 30) == [(2, 20), (4, 30)]


def test_epochs_of_another_history_are_not_taken() -> None:
    newer, older = copied(1, 0, 29, (7, 0)), copied(2, 0, 29, (1, 0), (3, 10))
    assert extended_epochs([newer, older], [(5, 30)], 30) == [(1, 0), (3, 10), (5, 30)]


@settings(max_examples=examples(200), deadline=None)
@given(segment=small_segments(1), epochs=log_epochs(), data=st.data())
def test_common_end_is_the_first_offset_whose_epoch_differs(
    segment: RemoteLogSegmentMetadata, epochs: list[tuple[int, int]], data: st.DataObject
) -> None:
    offset = data.draw(st.integers(segment.start_offset, segment.end_offset))
    expected = offset
    while (
        expected <= segment.end_offset
        and epoch_of(segment.epochs, expected) != NO_EPOCH
        and epoch_of(segment.epochs, expected) == epoch_of(epochs, expected)
    ):
        expected += 1
    assert common_end(segment, epochs, offset) == expected
