"""Retention over both parts of a log, and the responses of ListOffsets."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.tiers.cache import RemoteLogMetadataCache
from odradek.tiers.folder_store import FolderStore
from odradek.tiers.leader_tasks import delete_segment
from odradek.tiers.lineage import highest_remote_offset
from odradek.tiers.listed_offsets import earliest_pending_upload, latest_tiered, segments_for_timestamp
from odradek.tiers.retention import Retention, RetentionPlan, only_local_bytes, plan_local_retention
from odradek.tiers.segment_metadata import (
    COPY_SEGMENT_FINISHED,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
)

from tests.harness.examples import examples
from tests.tiers.harness.leaders_plan import leaders_plan
from tests.tiers.harness.tiered_log import NOW_MS, PARTITION, TieredLog, timestamp_at

FOREVER = Retention(-1, -1)
#: Ten segments of ten offsets and 100 bytes, the newest record of each 1,000 ms after the one before; two epochs.
EPOCHS = [(0, 0), (1, 45)]


def segment(
    number: int, start: int, end: int, epochs: tuple[tuple[int, int], ...], at_ms: int
) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(PARTITION, bytes((number + 1,)) * 16, start, end, at_ms, 1, 0, 100, epochs)


def add(cache: RemoteLogMetadataCache, one: RemoteLogSegmentMetadata, *, copied: bool = True) -> None:
    cache.apply(one)
    if copied:
        cache.apply(RemoteLogSegmentMetadataUpdate(PARTITION, one.segment_id, 1, 0, COPY_SEGMENT_FINISHED))


@pytest.fixture
def cache() -> RemoteLogMetadataCache:
    made = RemoteLogMetadataCache()
    for number in range(10):
        start = number * 10
        epochs = ((0, start),) if start < 40 else ((0, 40), (1, 45)) if start == 40 else ((1, start),)
        add(made, segment(number, start, start + 9, epochs, number * 1_000))
    return made


def plan(cache: RemoteLogMetadataCache, retention: Retention, **changed: object) -> RetentionPlan:
    ends = {"log_start_offset": 0, "log_end_offset": 120, "only_local_bytes": 0, "now_ms": 20_000, "epochs": EPOCHS}
    ends |= changed
    return leaders_plan(cache, retention=retention, **ends)  # type: ignore[arg-type]


def starts(found: RetentionPlan) -> list[int]:
    return [one.start_offset for one in found.deletions]


def test_without_limits_nothing_goes(cache: RemoteLogMetadataCache) -> None:
    assert plan(cache, FOREVER) == (0, [])


@pytest.mark.parametrize(("age_ms", "expected"), [(20_000, []), (19_999, [0]), (15_500, [0, 10, 20, 30, 40]), (0, 10)])
def test_segments_go_whose_newest_record_is_too_old(
    cache: RemoteLogMetadataCache, age_ms: int, expected: list[int] | int
) -> None:
    found = plan(cache, Retention(age_ms, -1))
    wanted = list(range(0, 100, 10)) if isinstance(expected, int) else expected
    assert starts(found) == wanted
    assert found.log_start_offset == (wanted[-1] + 10 if wanted else 0)


@pytest.mark.parametrize(
    ("most_bytes", "local_bytes", "expected"),
    [(1_000, 0, []), (999, 0, []), (900, 0, [0]), (900, 99, [0]), (900, 100, [0, 10]), (750, 0, [0, 10]),
     (0, 500, list(range(0, 100, 10)))],
)  # fmt: skip
def test_segments_go_that_are_too_much_with_the_local_ones(
    cache: RemoteLogMetadataCache, most_bytes: int, local_bytes: int, expected: list[int]
) -> None:
    assert starts(plan(cache, Retention(-1, most_bytes), only_local_bytes=local_bytes)) == expected


def test_segments_below_the_log_start_go_and_count_towards_the_size(cache: RemoteLogMetadataCache) -> None:
    found = plan(cache, FOREVER, log_start_offset=35)
    assert starts(found) == [0, 10, 20] and found.log_start_offset == 35
    found = plan(cache, Retention(-1, 700), log_start_offset=35)
    assert starts(found) == [0, 10, 20], "the size is right without these"
    found = plan(cache, Retention(-1, 600), log_start_offset=35)
    assert starts(found) == [0, 10, 20, 30] and found.log_start_offset == 40


def test_segment_of_another_history_stays_until_its_epoch_is_before_the_log(cache: RemoteLogMetadataCache) -> None:
    add(cache, segment(20, 50, 59, ((0, 50),), 0))
    found = plan(cache, Retention(0, -1))
    assert 20 + 1 not in {one.segment_id[0] for one in found.deletions}
    found = plan(cache, FOREVER, epochs=[(1, 45)], log_start_offset=45)
    assert {one.segment_id[0] for one in found.deletions} == {1, 2, 3, 4, 21}
    assert found.log_start_offset == 45


def test_segment_that_is_being_copied_stays(cache: RemoteLogMetadataCache) -> None:
    add(cache, segment(30, 100, 109, ((1, 100),), 0), copied=False)
    found = plan(cache, Retention(0, -1), copying=[bytes((10,)) * 16])
    assert starts(found) == list(range(0, 90, 10))


def test_log_without_epochs_deletes_nothing(cache: RemoteLogMetadataCache) -> None:
    assert plan(cache, Retention(0, 0), epochs=[], log_start_offset=7) == (7, [])


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(0, 100)), min_size=1, max_size=12),
    st.integers(-1, 100), st.integers(-1, 1_500), st.integers(0, 100), st.integers(0, 300),
)  # fmt: skip
def test_retention_deletes_a_beginning_and_no_record_too_much(
    sizes: list[tuple[int, int]], age_ms: int, most_bytes: int, log_start: int, local_bytes: int
) -> None:
    cache, offset = RemoteLogMetadataCache(), 0
    for number, (length, at_ms) in enumerate(sizes):
        add(cache, segment(number, offset, offset + length - 1, ((0, offset),), at_ms))
        offset += length
    log_start = min(log_start, offset)
    ends = {"log_start_offset": log_start, "log_end_offset": offset + 1, "epochs": [(0, 0)], "now_ms": 100}
    found = plan(cache, Retention(age_ms, most_bytes), only_local_bytes=local_bytes, **ends)
    gone = {one.segment_id for one in found.deletions}
    kept = [one for one in cache.segments() if one.segment_id not in gone]
    assert all(one.end_offset < found.log_start_offset for one in found.deletions)
    assert all(one.end_offset >= found.log_start_offset for one in kept)
    assert found.log_start_offset >= log_start
    for one in found.deletions:
        left = sum(other.size_bytes for other in cache.segments() if other.start_offset > one.start_offset)
        is_old = age_ms >= 0 and one.max_timestamp_ms < 100 - age_ms
        is_too_much = most_bytes >= 0 and left + local_bytes >= most_bytes
        assert one.end_offset < log_start or is_old or is_too_much
    if kept and most_bytes >= 0:
        assert sum(one.size_bytes for one in kept[1:]) + local_bytes < max(most_bytes, 1) or local_bytes >= most_bytes


# ---- a real log


@pytest.fixture
def tiered(tmp_path: Path) -> TieredLog:
    made = TieredLog(tmp_path / "orders-0", FolderStore({"dir": str(tmp_path / "tier")}))
    made.fill(200)
    return made


def highest(tiered: TieredLog) -> int:
    return highest_remote_offset(tiered.cache, tiered.log.epochs.entries(), tiered.log.log_end_offset).offset


def deletable(tiered: TieredLog, local: Retention, **changed: int) -> int:
    log = tiered.log
    ends = {"log_start_offset": 0, "now_ms": NOW_MS + 1_000_000, "high_watermark": log.log_end_offset} | changed
    return plan_local_retention(log, highest(tiered), local, **ends).deletable


@settings(max_examples=examples(60), deadline=None)
@given(
    copied=st.booleans(), is_timeless=st.booleans(), age_ms=st.integers(0, 10_000), local_ms=st.integers(-1, 10_000),
    local_bytes=st.integers(-1, 3_000), committed=st.booleans(),
)  # fmt: skip
def test_active_segment_is_rolled_exactly_when_all_others_go_and_it_is_beyond_local_retention(
    copied: bool, is_timeless: bool, age_ms: int, local_ms: int, local_bytes: int, committed: bool
) -> None:
    with TemporaryDirectory() as folder:
        tiered = TieredLog(Path(folder) / "orders-0", FolderStore({"dir": f"{folder}/tier"}))
        tiered.fill(60)
        if copied:
            tiered.copy_all()
        log = tiered.log
        active = log.active
        if is_timeless:
            for one in log.segments:
                one.max_timestamp = -1
                seconds = timestamp_at(log.log_end_offset - 1) / 1000
                os.utime(one.path, (seconds, seconds))
        now_ms = active.newest_ms() + age_ms
        found = plan_local_retention(
            log, highest(tiered), Retention(local_ms, local_bytes), log_start_offset=0, now_ms=now_ms,
            high_watermark=log.log_end_offset - (not committed),
        )  # fmt: skip
        is_last = found.deletable == len(log.segments) - 1
        is_beyond = 0 <= local_ms < age_ms or local_bytes == 0
        assert found.rolls_active == (is_last and committed and is_beyond)
        assert not is_last or copied


def test_rolled_active_segment_is_copied_and_then_deleted(tiered: TieredLog) -> None:
    tiered.copy_all()
    log = tiered.log
    end = log.log_end_offset
    log.roll(NOW_MS)
    assert len(tiered.copy_all()) == 1 and highest(tiered) == end - 1
    count = deletable(tiered, Retention(0, -1))
    assert count == len(log.segments) - 1
    log.remove_first(count, NOW_MS)
    assert log.local_log_start_offset == end
    assert deletable(tiered, Retention(0, -1)) == 0, "an empty segment is not rolled again"


def test_local_segment_that_is_not_copied_stays(tiered: TieredLog) -> None:
    assert deletable(tiered, Retention(0, 0)) == 0
    assert only_local_bytes(tiered.log, highest(tiered)) == tiered.log.size
    tiered.copy_all()
    closed = len(tiered.log.segments) - 1
    assert deletable(tiered, Retention(0, -1)) == deletable(tiered, Retention(-1, 0)) == closed
    assert deletable(tiered, FOREVER) == 0
    assert only_local_bytes(tiered.log, highest(tiered)) == tiered.log.active.size


def test_local_segments_go_by_their_own_limits(tiered: TieredLog) -> None:
    tiered.copy_all()
    log = tiered.log
    third = log.segments[2]
    kept = sum(one.size for one in log.segments[3:])
    assert deletable(tiered, Retention(-1, kept)) == 3
    assert deletable(tiered, Retention(-1, kept + 1)) == 2
    age_ms = NOW_MS + 1_000_000 - third.largest_timestamp()
    assert deletable(tiered, Retention(age_ms, -1)) == 2
    assert deletable(tiered, Retention(age_ms - 1, -1)) == 3
    assert deletable(tiered, Retention(0, 0), high_watermark=log.segments[2].base_offset) == 2


def test_local_segment_below_the_log_start_goes_without_a_copy(tiered: TieredLog) -> None:
    assert deletable(tiered, FOREVER, log_start_offset=tiered.log.segments[2].base_offset) == 2


def test_log_is_read_to_its_new_start_after_remote_retention(tiered: TieredLog) -> None:
    copied = tiered.copy_all()
    epochs = tiered.log.epochs.entries()
    found = leaders_plan(
        tiered.cache, epochs, Retention(-1, tiered.log.size - copied[0].size_bytes), log_start_offset=0,
        log_end_offset=tiered.log.log_end_offset, only_local_bytes=only_local_bytes(tiered.log, highest(tiered)),
        now_ms=NOW_MS,
    )  # fmt: skip
    assert [one.segment_id for one in found.deletions] == [copied[0].segment_id]
    assert found.log_start_offset == copied[1].start_offset
    for one in found.deletions:
        delete_segment(one, tiered.store, tiered.publish, lambda: NOW_MS, 1)
    assert tiered.cache.segment_for(0, 0) is None and tiered.plans() == [], "what retention deleted is not copied again"


# ---- ListOffsets


def test_special_offsets_have_the_epoch_of_their_record() -> None:
    assert latest_tiered(EPOCHS, -1) == (-1, -1) and latest_tiered(EPOCHS, 44) == (44, 0)
    assert earliest_pending_upload(EPOCHS, 44, 0, 40) == (45, 1)
    assert earliest_pending_upload(EPOCHS, 44, 70, 70) == (70, 1), "records below the log start are not uploaded"
    assert earliest_pending_upload(EPOCHS, -1, 10, 10) == (10, 0), "nothing is uploaded"
    assert earliest_pending_upload(EPOCHS, -1, 10, 40) == (-1, -1), "the metadata is not read yet"


def test_segments_for_a_time_are_those_that_may_have_it(cache: RemoteLogMetadataCache) -> None:
    def found(timestamp: int, start: int = 0, local: int = 100) -> list[int]:
        segments = segments_for_timestamp(
            cache, EPOCHS, timestamp, log_start_offset=start, log_end_offset=120, local_log_start_offset=local
        )
        return [one.start_offset for one in segments]

    assert found(0) == list(range(0, 100, 10))
    assert found(6_500) == [70, 80, 90]
    assert found(6_500, local=75) == [70], "the local log has the others"
    assert found(0, start=85) == [80, 90]
    assert found(9_001) == []


def test_record_by_time_is_in_the_first_segment_of_its_time(tiered: TieredLog) -> None:
    tiered.copy_all()
    log = tiered.log
    for offset in range(0, log.active.base_offset, 9):
        found = next(
            segments_for_timestamp(
                tiered.cache,
                log.epochs.entries(),
                timestamp_at(offset),
                log_start_offset=0,
                log_end_offset=log.log_end_offset,
                local_log_start_offset=log.active.base_offset,
            )
        )
        assert found.start_offset <= offset <= found.end_offset
