"""Copies of closed segments: which are due, the effects, and a crash before each effect."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.tiers.cache import Applied
from odradek.tiers.checked_reads import remote_range
from odradek.tiers.folder_store import FolderStore
from odradek.tiers.leader_tasks import (
    CopyDiscarded,
    CopyLag,
    NotCopyable,
    copy_segment,
    delete_segment,
    due_segments,
    plan_collection,
)
from odradek.tiers.lineage import highest_remote_offset
from odradek.tiers.segment_metadata import (
    COPY_SEGMENT_FINISHED,
    COPY_SEGMENT_STARTED,
    DELETE_SEGMENT_STARTED,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
)
from odradek.tiers.store import RemoteStorageError, SegmentParts

from tests.harness.patches import patch_for_this_thread
from tests.tiers.harness.tiered_log import NOW_MS, TieredLog

GRACE_MS = 600_000
LONG_AFTER_MS = NOW_MS + GRACE_MS


@pytest.fixture
def tiered(tmp_path: Path) -> TieredLog:
    made = TieredLog(tmp_path / "orders-0", FolderStore({"dir": str(tmp_path / "tier")}))
    made.fill(150)
    return made


def states(tiered: TieredLog) -> list[tuple[int, int, str]]:
    found = [(one.start_offset, one.end_offset, one.state.name) for one in tiered.cache.segments()]
    return sorted(found)


# ---- plans


def test_closed_segments_are_copied_in_order_and_once(tiered: TieredLog) -> None:
    bases = [segment.base_offset for segment in tiered.log.segments]
    copied = tiered.copy_all()
    assert [(one.start_offset, one.end_offset) for one in copied] == [
        (base, following - 1) for base, following in itertools.pairwise(bases)
    ]
    assert all(one.state is COPY_SEGMENT_FINISHED for one in copied)
    assert tiered.plans() == [], "all of them are copied"
    epochs = tiered.log.epochs.entries()
    assert highest_remote_offset(tiered.cache, epochs, tiered.log.log_end_offset).offset == bases[-1] - 1
    tiered.fill(200)
    assert tiered.plans()[0].segment.start_offset == bases[-1]


def test_copy_has_the_bytes_epochs_and_times_of_its_segment(tiered: TieredLog) -> None:
    entries = tiered.log.epochs.entries()
    for segment in tiered.copy_all():
        local = tiered.log.segment_of(segment.start_offset)
        assert remote_range(tiered.store, segment, 0, 1 << 20) == Path(local.path).read_bytes()
        assert segment.max_timestamp_ms == local.newest_ms() and segment.size_bytes == local.size
        for offset in range(segment.start_offset, segment.end_offset + 1):
            epoch = max(epoch for epoch, start in entries if start <= offset)
            assert segment.has(epoch, offset)
        aborted = tiered.log.aborted_transactions(segment.start_offset, segment.end_offset + 1)
        has_marker = any(segment.start_offset <= one.last_offset <= segment.end_offset for one in aborted)
        assert segment.txn_index_empty != has_marker


def test_segment_that_ends_above_the_last_stable_offset_is_not_copied(tiered: TieredLog) -> None:
    bases = [segment.base_offset for segment in tiered.log.segments]
    assert [plan.segment.start_offset for plan in tiered.plans(up_to=bases[2])] == bases[:2]
    assert [plan.segment.start_offset for plan in tiered.plans(up_to=bases[2] - 1)] == bases[:1]
    assert tiered.plans(up_to=0) == []


def test_copies_begin_with_the_segment_of_the_log_start(tiered: TieredLog) -> None:
    bases = [segment.base_offset for segment in tiered.log.segments]
    tiered.log.advance_log_start_offset(bases[2] + 1)
    assert tiered.plans()[0].segment.start_offset == bases[2]


@pytest.mark.parametrize(
    ("lag", "count"),
    [
        (CopyLag(0, -1), 5),
        (CopyLag(-1, 0), 5),
        (CopyLag(10_000, 0), 5),
        (CopyLag(-1, -1), 0),
        (CopyLag(4_000, -1), 2),
        (CopyLag(4_001, -1), 1),
        (CopyLag(-1, 5_000), 3),
        (CopyLag(-1, 5_001), 2),
        (CopyLag(4_001, 5_000), 3),
    ],
)
def test_segment_waits_for_the_lag_in_time_or_bytes(lag: CopyLag, count: int) -> None:
    """Six segments of 2,000 bytes, but 1,000 in the last. The newest records are 5, 4, 3, 2, 1 and 0 seconds old."""
    segments: list[Any] = [_Segment(number * 10, 2_000, NOW_MS - 5_000 + number * 1_000) for number in range(6)]
    segments[-1].size = 1_000
    log: Any = SimpleNamespace(segments=segments)
    assert len(due_segments(log, 0, 1_000, NOW_MS, lag)) == count


class _Segment:
    def __init__(self, base_offset: int, size: int, newest: int) -> None:
        self.base_offset, self.size, self.newest = base_offset, size, newest

    def newest_ms(self) -> int:
        return self.newest


def test_segment_with_a_timestamp_of_the_future_does_not_wait() -> None:
    segments: list[Any] = [_Segment(0, 100, NOW_MS + 1), _Segment(10, 100, NOW_MS)]
    log: Any = SimpleNamespace(segments=segments)
    assert len(due_segments(log, 0, 10, NOW_MS, CopyLag(1_000, -1))) == 1


def test_damaged_segment_and_those_after_it_are_not_copied(tiered: TieredLog) -> None:
    tiered.log.segments[2].holes = [(0, 10)]
    assert len(tiered.plans()) == 2
    tiered.copy_all()
    with pytest.raises(NotCopyable, match="is damaged"):
        tiered.plans()


def test_segment_without_a_producer_snapshot_is_named(tiered: TieredLog) -> None:
    Path(tiered.plans()[0].parts.producer_snapshot).unlink()
    with pytest.raises(NotCopyable, match=r"has no \d{20}.snapshot"):
        tiered.plans()


# ---- effects


def test_failed_copy_is_resumed_under_the_same_id(tiered: TieredLog) -> None:
    plan = tiered.plans()[0]
    missing = plan._replace(parts=plan.parts._replace(log=plan.parts.log.with_name("gone")))
    with pytest.raises(RemoteStorageError) as raised:
        tiered.copy(missing)
    assert raised.value.retriable
    again = tiered.plans()[0]
    assert again.is_resumed and again.segment == plan.segment
    assert plan_collection(tiered.cache, tiered.plans(), (), LONG_AFTER_MS, GRACE_MS) == []
    tiered.copy(again)
    assert [one.state for one in tiered.cache.segments()] == [COPY_SEGMENT_FINISHED]


def test_copy_that_cannot_succeed_is_deleted(tiered: TieredLog) -> None:
    plan = tiered.plans()[0]
    longer = plan._replace(segment=plan.segment._replace(size_bytes=plan.segment.size_bytes + 1))
    with pytest.raises(RemoteStorageError):
        tiered.copy(longer)
    assert list(tiered.store.objects()) == [] and tiered.cache.segments() == []


def test_custom_metadata_over_the_limit_is_deleted(tiered: TieredLog) -> None:
    with pytest.raises(RemoteStorageError, match="49 bytes of custom metadata"):
        copy_segment(tiered.plans()[0], tiered.store, tiered.publish, lambda: NOW_MS, lambda: True, 48)
    assert list(tiered.store.objects()) == [] and tiered.cache.segments() == []


def test_copy_that_another_leader_has_deleted_leaves_no_object(tiered: TieredLog) -> None:
    plan = tiered.plans()[0]

    class Deposed(FolderStore):
        """The next leader collects the copy while this one uploads."""

        def copy_log_segment_data(self, segment: RemoteLogSegmentMetadata, parts: SegmentParts) -> bytes | None:
            delete_segment(segment, tiered.store, tiered.publish, lambda: NOW_MS, 2)
            return super().copy_log_segment_data(segment, parts)

    root = Path(plan.parts.log).parents[1] / "tier"
    with pytest.raises(CopyDiscarded):
        copy_segment(plan, Deposed({"dir": str(root)}), tiered.publish, lambda: NOW_MS, lambda: True)
    assert list(tiered.store.objects()) == [] and tiered.cache.segments() == []


@pytest.mark.parametrize("log, error", [("", CopyDiscarded), ("gone", RemoteStorageError)])
def test_upload_that_ends_after_the_change_of_leaders_leaves_no_object(
    tiered: TieredLog, log: str, error: type[Exception]
) -> None:
    plan = tiered.plans()[0]
    if log:
        plan = plan._replace(parts=plan.parts._replace(log=plan.parts.log.with_name(log)))
    with pytest.raises(error):
        tiered.copy(plan, leads=False)
    assert list(tiered.store.objects()) == []
    assert [one.state for one in tiered.cache.segments()] == [COPY_SEGMENT_STARTED]


def test_resumed_copy_is_kept_after_the_change_of_leaders(tiered: TieredLog) -> None:
    tiered.publish(tiered.plans()[0].segment)
    plan = tiered.plans()[0]
    assert plan.is_resumed
    gone = plan._replace(parts=plan.parts._replace(log=plan.parts.log.with_name("gone")))
    with pytest.raises(RemoteStorageError):
        tiered.copy(gone, leads=False)
    assert {one.segment_id for one in tiered.store.objects()} == {plan.segment.segment_id}
    copied = tiered.copy(plan, leads=False)
    assert tiered.cache.segments() == [copied] and copied.state is COPY_SEGMENT_FINISHED


def test_upload_that_has_not_ended_is_not_resumed(tiered: TieredLog) -> None:
    plan = tiered.plans()[0]
    tiered.publish(plan.segment)
    assert tiered.plans()[0].is_resumed
    again = tiered.plans(copying={plan.segment.segment_id})[0]
    assert not again.is_resumed and again.segment.segment_id != plan.segment.segment_id


def test_copy_of_another_broker_is_collected_when_it_is_old(tiered: TieredLog) -> None:
    other = tiered.plans(broker_id=2)[0].segment
    tiered.publish(other)
    own = tiered.plans()
    assert not own[0].is_resumed
    assert plan_collection(tiered.cache, own, (), NOW_MS + GRACE_MS - 1, GRACE_MS) == []
    assert plan_collection(tiered.cache, own, (), NOW_MS - 5_000, GRACE_MS) == [], "another broker's clock is ahead"
    assert plan_collection(tiered.cache, own, (), NOW_MS - GRACE_MS, GRACE_MS) == [other]
    assert plan_collection(tiered.cache, own, (), LONG_AFTER_MS, GRACE_MS) == [other]
    assert plan_collection(tiered.cache, own, [other.segment_id], LONG_AFTER_MS, GRACE_MS) == []
    delete_segment(other, tiered.store, tiered.publish, lambda: NOW_MS, 1)
    assert tiered.cache.segments() == []


def test_deletion_that_failed_is_done_by_the_next_pass(tiered: TieredLog) -> None:
    segment = tiered.copy_all()[0]

    class Failing:
        def delete_log_segment_data(self, segment: RemoteLogSegmentMetadata) -> None:
            raise RemoteStorageError("no")

    store: Any = Failing()
    with pytest.raises(RemoteStorageError):
        delete_segment(segment, store, tiered.publish, lambda: NOW_MS, 1)
    (left,) = plan_collection(tiered.cache, (), (), NOW_MS, GRACE_MS)
    assert left.segment_id == segment.segment_id and left.state is DELETE_SEGMENT_STARTED
    delete_segment(left, tiered.store, tiered.publish, lambda: NOW_MS, 1)
    assert segment.segment_id not in {one.segment_id for one in tiered.store.objects()}


# ---- crashes


class Crash(BaseException):
    """A crash of the process: no code catches it, and nothing more is written."""


class CrashingSystem:
    """Counts changes of files and events, and crashes before number `at`; of a write, half is done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tiered: TieredLog, at: int) -> None:
        self.at, self.changes = at, 0
        self._pwrite, self._open, self._publish = os.pwrite, os.open, tiered.publish
        for name in ("replace", "unlink", "mkdir", "fsync"):
            patch_for_this_thread(monkeypatch, os, name, self._counted(getattr(os, name)))
        patch_for_this_thread(monkeypatch, os, "pwrite", self._write)
        patch_for_this_thread(monkeypatch, os, "open", self._open_file)
        monkeypatch.setattr(tiered, "publish", self._append)

    def _count(self) -> None:
        self.changes += 1
        if self.changes > self.at:
            raise Crash

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self._count()
            return function(*arguments, **options)

        return call

    def _write(self, fd: int, buffer: Any, position: int) -> int:
        if self.changes == self.at:
            self._pwrite(fd, memoryview(buffer).cast("B")[: len(buffer) // 2], position)
        self._count()
        return self._pwrite(fd, buffer, position)

    def _open_file(self, path: Any, flags: int, *mode: Any, **options: Any) -> int:
        if flags & (os.O_CREAT | os.O_TRUNC):
            self._count()
        return self._open(path, flags, *mode, **options)

    def _append(self, event: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate) -> Applied:
        self._count()
        applied = self._publish(event)
        self._count()  # written, but the response is lost
        return applied


def copy_two_and_delete_the_first(tiered: TieredLog) -> None:
    first, second = tiered.plans()[:2]
    copied = tiered.copy(first)
    tiered.copy(second)
    delete_segment(copied, tiered.store, tiered.publish, lambda: NOW_MS, 1)


def collect_and_copy(tiered: TieredLog, now_ms: int) -> None:
    """One pass of a leader."""
    plans = tiered.plans(now_ms=now_ms)
    for segment in plan_collection(tiered.cache, plans, (), now_ms, GRACE_MS):
        delete_segment(segment, tiered.store, tiered.publish, lambda: now_ms, 1)
    for plan in plans:
        tiered.copy(plan, now_ms=now_ms)


def check_whole(tiered: TieredLog, folder: Path) -> None:
    """The store has exactly the objects of copied segments, which follow one another to the last closed one."""
    copied = [one for one in tiered.cache.segments() if one.state is COPY_SEGMENT_FINISHED]
    assert len(copied) == len(tiered.cache.segments()), states(tiered)
    assert {one.segment_id for one in tiered.store.objects()} == {one.segment_id for one in copied}
    assert list((folder / "odradek-uploads").iterdir()) == []
    next_offset = -1
    for segment in sorted(copied, key=lambda one: one.start_offset):
        assert next_offset in (-1, segment.start_offset), f"a hole, or a copy twice: {states(tiered)}"
        next_offset = segment.end_offset + 1
        local = tiered.log.segment_of(segment.start_offset)
        assert remote_range(tiered.store, segment, 0, 1 << 20) == Path(local.path).read_bytes()
    assert next_offset == tiered.log.active.base_offset


@pytest.mark.slow
@pytest.mark.parametrize("is_same_broker", [True, False])
def test_after_a_crash_before_any_effect_no_hole_and_no_orphan_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_same_broker: bool
) -> None:
    source = TieredLog(tmp_path / "orders-0", FolderStore({"dir": str(tmp_path / "none")}))
    source.fill(90)
    number, crashed = 0, True
    while crashed:
        folder = tmp_path / f"tier-{number}"
        tiered = TieredLog(tmp_path / "orders-0", FolderStore({"dir": str(folder)}))
        with monkeypatch.context() as patch:
            CrashingSystem(patch, tiered, number)
            try:
                copy_two_and_delete_the_first(tiered)
                crashed = False
            except Crash:
                pass
        again = TieredLog(tmp_path / "orders-0", FolderStore({"dir": str(folder)}), tiered.events)
        if not is_same_broker:
            monkeypatch.setattr("tests.tiers.harness.tiered_log.BROKER", 2)
        collect_and_copy(again, LONG_AFTER_MS)
        collect_and_copy(again, LONG_AFTER_MS)
        check_whole(again, folder)
        monkeypatch.setattr("tests.tiers.harness.tiered_log.BROKER", 1)
        number += 1
    assert number > 60, "each change had its crash"
