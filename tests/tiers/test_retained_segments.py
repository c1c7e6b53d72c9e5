"""The order of retention that follows a cache's changes, against the rules on the whole cache, over random histories."""

from __future__ import annotations

import random
from typing import Any

import pytest
from odradek.tiers import cache as cache_module
from odradek.tiers import retained_segments
from odradek.tiers.cache import RemoteLogMetadataCache
from odradek.tiers.retained_segments import RetainedSegments
from odradek.tiers.retention import Retention
from odradek.tiers.segment_metadata import (
    COPY_SEGMENT_FINISHED,
    COPY_SEGMENT_STARTED,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)

from tests.harness.examples import examples
from tests.tiers.harness.tiered_log import PARTITION
from tests.tiers.harness.whole_cache import plan_retention

SEEDS, STEPS = examples(60), 60
STATES = tuple(RemoteLogSegmentState)


class History:
    """Leaders of several histories copy and delete segments; the log's start, end and epochs move."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.cache = RemoteLogMetadataCache()
        self.retained = RetainedSegments(self.cache)
        self.epochs: list[tuple[int, int]] = [(0, 0)]
        self.start, self.end = 0, 10
        self.ids: list[bytes] = []

    def step(self) -> None:
        rng = self.rng
        match rng.randrange(8):
            case 0 | 1 | 2:
                self._add()
            case 3 | 4:
                for _ in range(rng.randrange(4)):
                    self._advance_one()
            case 5:
                self.end += rng.randrange(30)
            case 6:
                self.start = min(self.end, self.start + rng.randrange(20))
                while len(self.epochs) > 1 and self.epochs[1][1] <= self.start:
                    del self.epochs[0]
                self.epochs[0] = (self.epochs[0][0], max(self.epochs[0][1], self.start))
            case _:
                if rng.random() < 0.4:
                    self.epochs.append((self.epochs[-1][0] + rng.randrange(1, 3), self.end))

    def _add(self) -> None:
        rng = self.rng
        first = rng.randrange(max(1, self.end + 10))
        last = first + rng.randrange(12)
        own = [(epoch, max(first, start)) for epoch, start in self.epochs if start <= last]
        own = [one for number, one in enumerate(own) if number + 1 == len(own) or own[number + 1][1] > first] or [
            (0, first)
        ]
        if rng.random() < 0.2:
            own = [(max(0, epoch - rng.randrange(3)), start) for epoch, start in own][-1:]
        epochs = tuple((epoch, first if number == 0 else start) for number, (epoch, start) in enumerate(own))
        segment_id = rng.randbytes(16)
        self.ids.append(segment_id)
        self.cache.apply(
            RemoteLogSegmentMetadata(
                PARTITION, segment_id, first, last, rng.randrange(1000), 1, 0, rng.randrange(1, 100), epochs,
                txn_index_empty=rng.random() < 0.5,
            )
        )  # fmt: skip
        if rng.random() < 0.8:
            self.cache.apply(RemoteLogSegmentMetadataUpdate(PARTITION, segment_id, 1, 0, COPY_SEGMENT_FINISHED))

    def _advance_one(self) -> None:
        if self.ids:
            state = self.rng.choice(STATES)
            self.cache.apply(RemoteLogSegmentMetadataUpdate(PARTITION, self.rng.choice(self.ids), 1, 0, state))

    def check(self) -> None:
        rng = self.rng
        retention = Retention(rng.choice([-1, 0, 300, 700]), rng.choice([-1, 0, 50, 400]))
        copying = {one for one in self.ids if rng.random() < 0.05}
        arguments: dict[str, Any] = {
            "log_start_offset": self.start, "only_local_bytes": rng.randrange(100), "now_ms": 1000, "copying": copying,
        }  # fmt: skip
        for _ in self.retained.update_in_steps(list(self.epochs), self.end):
            if rng.random() < 0.3:
                self._advance_one()
        found = self.retained.plan(retention, **arguments)
        expected = plan_retention(self.cache, list(self.epochs), retention, log_end_offset=self.end, **arguments)
        assert found.log_start_offset == expected.log_start_offset
        assert sorted(found.deletions) == sorted(expected.deletions)
        copied = [one for one in self.cache.segments() if one.state is COPY_SEGMENT_FINISHED]
        assert self.cache.copied_bytes == sum(one.size_bytes for one in copied)
        assert sorted(self.cache.unfinished()) == sorted(set(self.cache.segments()) - set(copied))


@pytest.mark.parametrize("at_a_time", [1, 3, 500])
def test_plan_is_that_of_the_whole_cache_after_any_history(at_a_time: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained_segments, "SEGMENTS_AT_A_TIME", at_a_time)
    monkeypatch.setattr(cache_module, "_MOST_CHANGED", 4 * at_a_time)
    for seed in range(SEEDS):
        history = History(seed)
        for _ in range(STEPS):
            history.step()
            if history.rng.random() < 0.4:
                history.check()


def test_pass_without_changes_looks_at_no_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(1)
    for _ in range(STEPS):
        history.step()
    history.check()
    list(history.retained.update_in_steps(list(history.epochs), 10_000))
    looked_at: list[bytes] = []
    monkeypatch.setattr(history.retained, "_take", lambda segment_id, end: looked_at.append(segment_id))
    history.epochs[0] = (history.epochs[0][0], history.epochs[0][1] + 1)  # the start of the log has moved
    list(history.retained.update_in_steps(list(history.epochs), 10_001))
    assert looked_at == []
    history._add()
    list(history.retained.update_in_steps(list(history.epochs), 10_001))
    assert looked_at == [history.ids[-1]]


def test_plan_has_a_bounded_number_of_deletions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained_segments, "MOST_DELETIONS", 3)
    cache = RemoteLogMetadataCache()
    for number in range(10):
        segment_id = bytes([number + 1]) * 16
        cache.apply(RemoteLogSegmentMetadata(PARTITION, segment_id, number, number, 0, 1, 0, 1, ((0, number),)))
        cache.apply(RemoteLogSegmentMetadataUpdate(PARTITION, segment_id, 1, 0, COPY_SEGMENT_FINISHED))
    retained = RetainedSegments(cache)
    list(retained.update_in_steps([(0, 0)], 10))
    plan = retained.plan(Retention(0, -1), log_start_offset=0, only_local_bytes=0, now_ms=10)
    assert [one.start_offset for one in plan.deletions] == [0, 1, 2] and plan.log_start_offset == 3
    assert COPY_SEGMENT_STARTED not in {one.state for one in plan.deletions}
