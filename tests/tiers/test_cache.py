"""The cache of remote segments, compared with Apache's RemoteLogMetadataCache and with a list of segments."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from odradek.protocol.offsets import NO_OFFSET
from odradek.protocol.uuids import uuid_to_text
from odradek.tiers import cache as cache_module
from odradek.tiers.cache import Applied, EpochReferences, RemoteLogMetadataCache
from odradek.tiers.events import encode_event
from odradek.tiers.segment_metadata import (
    COPY_SEGMENT_FINISHED,
    COPY_SEGMENT_STARTED,
    DELETE_SEGMENT_FINISHED,
    DELETE_SEGMENT_STARTED,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)

from tests.harness.examples import examples
from tests.tiers.harness.generated import EPOCHS, HISTORY_PARTITION, MOST_OFFSET, histories
from tests.tiers.harness.tier_oracle import TierOracle, text

Event = RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate
OFFSETS = range(MOST_OFFSET + 2)


def segment(number: int, start: int, end: int, *epochs: tuple[int, int]) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        HISTORY_PARTITION, bytes((number,)) * 16, start, end, 0, 1, 0, 100, epochs or ((0, start),)
    )


def update(of: RemoteLogSegmentMetadata, state: RemoteLogSegmentState) -> RemoteLogSegmentMetadataUpdate:
    return RemoteLogSegmentMetadataUpdate(of.partition, of.segment_id, 1, 0, state)


def cache_after(*events: Event) -> RemoteLogMetadataCache:
    cache = RemoteLogMetadataCache()
    for event in events:
        assert cache.apply(event) is Applied.APPLIED
    return cache


def copied(*segments: RemoteLogSegmentMetadata) -> list[Event]:
    return [event for one in segments for event in (one, update(one, COPY_SEGMENT_FINISHED))]


def shown(cache: RemoteLogMetadataCache) -> dict[str, Any]:
    """Returns the responses to all questions about the cache, as the JVM gives them."""

    def name(one: RemoteLogSegmentMetadata | None) -> str | None:
        return None if one is None else uuid_to_text(one.segment_id)

    return {
        "all": {name(one) for one in cache.segments()},
        "listed": {str(epoch): {name(one) for one in cache.segments_of(epoch)} for epoch in EPOCHS},
        "highest": {
            str(epoch): None if (found := cache.highest_offset(epoch)) == NO_OFFSET else found for epoch in EPOCHS
        },
        "found": {str(epoch): [name(cache.segment_for(epoch, offset)) for offset in OFFSETS] for epoch in EPOCHS},
        "next_with_aborted": {
            str(epoch): [name(cache.next_segment_with_aborted(epoch, offset)) for offset in OFFSETS] for epoch in EPOCHS
        },
    }


@settings(max_examples=examples(60), deadline=None, suppress_health_check=(HealthCheck.function_scoped_fixture,))
@given(history=histories())
def test_responses_after_each_event_are_those_of_apache(tier_oracle: TierOracle, history: list[Event]) -> None:
    responses = tier_oracle.ask(
        "history", events=[text(encode_event(one)) for one in history], epochs=EPOCHS, offsets=list(OFFSETS)
    )
    cache = RemoteLogMetadataCache()
    for event, theirs in zip(history, responses, strict=True):
        applied = cache.apply(event)
        if "rejected" in theirs:
            assert applied is not Applied.APPLIED
        ours = shown(cache)
        assert ours["all"] == set(theirs["all"])
        # Apache's cache has -1 as the highest offset of an epoch without a record at offset 0.
        assert ours["highest"] == {epoch: None if at == -1 else at for epoch, at in theirs["highest"].items()}
        for epoch in map(str, EPOCHS):
            # Apache's cache forgets a copy when a shorter one begins at its start; ours keeps it, to read and to delete it.
            assert ours["listed"][epoch] >= set(theirs["listed"][epoch])
            check_found(ours["found"][epoch], theirs["found"][epoch], cache, int(epoch))
            for mine, other in zip(ours["next_with_aborted"][epoch], theirs["next_with_aborted"][epoch], strict=True):
                assert mine == other or other is None


def check_found(ours: list[str | None], theirs: list[str | None], cache: RemoteLogMetadataCache, epoch: int) -> None:
    for offset, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        assert mine == other or other is None
        if mine is not None and other is None:
            found = cache.segment_for(epoch, offset)
            assert found is not None and found.state is COPY_SEGMENT_FINISHED and found.has(epoch, offset)


@settings(max_examples=examples(100), deadline=None)
@given(histories())
def test_every_offset_of_a_copied_segment_is_found_in_its_epoch(history: list[Event]) -> None:
    cache = RemoteLogMetadataCache()
    states: dict[bytes, RemoteLogSegmentState] = {}
    for event in history:
        if cache.apply(event) is Applied.APPLIED:
            states[event.segment_id] = event.state
    live = {one: state for one, state in states.items() if state is not DELETE_SEGMENT_FINISHED}
    assert {one.segment_id: one.state for one in cache.segments()} == live
    finished = [one for one in cache.segments() if one.state is COPY_SEGMENT_FINISHED]
    for epoch in EPOCHS:
        for offset in OFFSETS:
            found = cache.segment_for(epoch, offset)
            candidates = [one for one in finished if one.has(epoch, offset)]
            assert (found in candidates) if candidates else found is None


@settings(max_examples=examples(100), deadline=None)
@given(histories())
def test_next_segment_with_aborted_is_the_first_one_in_use_that_has_some(history: list[Event]) -> None:
    cache = RemoteLogMetadataCache()
    for event in history:
        cache.apply(event)
    for epoch in EPOCHS:
        in_use = [cache.segment_for(epoch, offset) for offset in OFFSETS]
        for offset in OFFSETS:
            having = (one for one in in_use[offset:] if one is not None and not one.txn_index_empty)
            assert cache.next_segment_with_aborted(epoch, offset) == next(having, None)


@settings(max_examples=examples(100), deadline=None)
@given(histories())
def test_restored_cache_gives_the_same_responses(history: list[Event]) -> None:
    cache = RemoteLogMetadataCache()
    for event in history:
        cache.apply(event)
    again = RemoteLogMetadataCache()
    again.restore(cache.segments(), cache.references())
    assert shown(again) == shown(cache)
    assert again.references() == cache.references()


def test_segment_is_found_from_its_copy_to_its_deletion() -> None:
    one = segment(1, 10, 19)
    cache = cache_after(one)
    assert cache.segment_for(0, 15) is None and cache.highest_offset(0) == NO_OFFSET
    cache.apply(update(one, COPY_SEGMENT_FINISHED))
    found = cache.segment_for(0, 15)
    assert found is not None and found.segment_id == one.segment_id
    assert cache.segment_for(0, 9) is None and cache.segment_for(0, 20) is None and cache.segment_for(1, 15) is None
    cache.apply(update(one, DELETE_SEGMENT_STARTED))
    assert cache.segment_for(0, 15) is None and len(cache) == 1
    cache.apply(update(one, DELETE_SEGMENT_FINISHED))
    assert len(cache) == 0 and cache.segments_of(0) == [] and cache.epochs() == []
    assert cache.highest_offset(0) == 19, "what was copied is not copied once more"


def test_segment_of_two_epochs_is_found_in_each_one_within_its_offsets() -> None:
    cache = cache_after(*copied(segment(1, 0, 99, (0, 0), (3, 60))))
    assert cache.segment_for(0, 59) is not None and cache.segment_for(0, 60) is None
    assert cache.segment_for(3, 60) is not None and cache.segment_for(3, 59) is None
    assert (cache.highest_offset(0), cache.highest_offset(3)) == (59, 99)
    assert cache.epochs() == [0, 3]


def test_later_copy_replaces_those_that_it_covers() -> None:
    short, wide = segment(1, 10, 90), segment(2, 5, 100)
    cache = cache_after(*copied(short, wide))
    found = cache.segment_for(0, 50)
    assert found is not None and found.segment_id == wide.segment_id
    assert {one.segment_id for one in cache.segments_of(0)} == {short.segment_id, wide.segment_id}


def test_shorter_copy_at_the_same_start_hides_no_record() -> None:
    cache = cache_after(*copied(segment(1, 0, 100), segment(2, 0, 50)))
    found = cache.segment_for(0, 75)
    assert found is not None and found.end_offset == 100


def test_aborted_transactions_of_a_long_copy_are_found_behind_a_shorter_one() -> None:
    """A read of committed records would show the aborted ones."""
    long, short = segment(1, 0, 100), segment(2, 0, 50)._replace(txn_index_empty=True)
    cache = cache_after(*copied(long, short))
    found = cache.next_segment_with_aborted(0, 0)
    assert found is not None and found.segment_id == long.segment_id


def test_search_for_aborted_transactions_looks_at_few_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fetch of committed records searches for them."""
    cache = RemoteLogMetadataCache()
    for number in range(2_000):
        one = segment(1, 10 * number, 10 * number + 9)._replace(segment_id=number.to_bytes(16))
        if number % 1_000 != 999:
            one = one._replace(txn_index_empty=True)
        for event in copied(one):
            cache.apply(event)
    looks = 0
    has_end = RemoteLogSegmentMetadata.epoch_end_offset

    def counted(self: RemoteLogSegmentMetadata, epoch: int) -> int:
        nonlocal looks
        looks += 1
        return has_end(self, epoch)

    monkeypatch.setattr(RemoteLogSegmentMetadata, "epoch_end_offset", counted)
    for offset, start in ((0, 9_990), (9_999, 9_990), (10_000, 19_990), (19_999, 19_990), (20_000, None)):
        found = cache.next_segment_with_aborted(0, offset)
        assert (found.start_offset if found is not None else None) == start
    assert looks < 20


def test_cache_without_a_leader_keeps_no_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "_MOST_CHANGED", 3)
    cache = cache_after(*copied(*(segment(number, number, number) for number in range(10))))
    assert cache.take_changed() is None and cache.take_changed() == set()
    first, *others = [segment(number, number, number) for number in range(10, 14)]
    cache.apply(first)
    assert cache.take_changed() == {first.segment_id}
    for one in others:
        cache.apply(one)
    assert cache.take_changed() == {one.segment_id for one in others}
    for one in (first, *others):
        cache.apply(update(one, COPY_SEGMENT_FINISHED))
    assert cache.take_changed() is None


@pytest.mark.parametrize(
    ("before", "event", "expected"),
    [
        ([], COPY_SEGMENT_FINISHED, Applied.UNKNOWN_SEGMENT),
        ([COPY_SEGMENT_STARTED], DELETE_SEGMENT_FINISHED, Applied.INVALID_TRANSITION),
        ([COPY_SEGMENT_STARTED, DELETE_SEGMENT_STARTED], COPY_SEGMENT_FINISHED, Applied.INVALID_TRANSITION),
        ([COPY_SEGMENT_STARTED, COPY_SEGMENT_FINISHED], COPY_SEGMENT_STARTED, Applied.INVALID_TRANSITION),
        ([COPY_SEGMENT_STARTED, DELETE_SEGMENT_STARTED, DELETE_SEGMENT_FINISHED], DELETE_SEGMENT_FINISHED,
         Applied.UNKNOWN_SEGMENT),
    ],
)  # fmt: skip
def test_event_after_the_wrong_state_changes_nothing(
    before: list[RemoteLogSegmentState], event: RemoteLogSegmentState, expected: Applied
) -> None:
    one = segment(1, 0, 9)
    as_event = {COPY_SEGMENT_STARTED: one} | {state: update(one, state) for state in list(RemoteLogSegmentState)[1:]}
    cache = cache_after(*(as_event[state] for state in before))
    was = cache.segments()
    assert cache.apply(as_event[event]) is expected
    assert cache.segments() == was


def test_repeated_start_with_other_epochs_leaves_nothing_of_the_first() -> None:
    cache = cache_after(segment(1, 0, 9, (0, 0)), segment(1, 0, 9, (2, 0)))
    assert cache.segments_of(0) == [] and len(cache.segments_of(2)) == 1


@pytest.mark.parametrize("state", [COPY_SEGMENT_STARTED, DELETE_SEGMENT_STARTED])
def test_restored_reference_to_a_segment_that_is_not_copied_is_rejected(state: RemoteLogSegmentState) -> None:
    one = segment(1, 0, 9)._replace(state=state)
    with pytest.raises(ValueError, match="epoch 0 refers"):
        RemoteLogMetadataCache().restore([one], [EpochReferences(0, 9, ((0, one.segment_id),))])
