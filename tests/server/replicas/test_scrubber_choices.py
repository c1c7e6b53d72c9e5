"""Segments that the scrubber verifies: those of a round, and those that were read."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from odradek.server.replicas.scrubber import Scrubber

from tests.server.harness.hosted import NOW_MS, Hosted, batch
from tests.server.harness.nodes import node_of
from tests.server.harness.noted_cleaner import NotedCleaner
from tests.server.harness.noted_partitions import NotedPartitions
from tests.server.harness.set_clock import SetClock

#: The offsets of each segment.
COUNT = 10


class Chosen(Scrubber):
    """A scrubber that notes the segments instead of reading them, of which the second is verified."""

    def __init__(self, hosted: Hosted, bytes_per_second: int = 1000) -> None:
        self.hosted = hosted
        self.verified: list[int] = []
        node = node_of({"odradek.scrub.bytes.per.second": str(bytes_per_second)}, clock=SetClock(7))
        super().__init__(node, NotedPartitions([hosted]), NotedCleaner(), lambda hosted: None)

    async def _verify(self, hosted: Any, segment: Any, bytes_per_second: int) -> None:
        self.verified.append(segment.base_offset)


def hosted_of(path: Path, segments: int, *, has_active_records: bool = True) -> Hosted:
    """Returns a partition with so many segments; the last is active."""
    hosted = Hosted(path)
    for number in range(segments):
        if number:
            hosted.log.roll(NOW_MS)
        if number < segments - 1 or has_active_records:
            hosted.log.append(batch(COUNT, offset=number * COUNT), None, NOW_MS)
    return hosted


def four_segments(path: Path) -> Hosted:
    """Returns a partition with four segments, of which the second is verified."""
    hosted = hosted_of(path, 4)
    hosted.log.segments[1].is_verified = True
    return hosted


async def test_segment_that_is_read_is_verified_once_when_it_is_closed(tmp_path: Path) -> None:
    scrubber = Chosen(four_segments(tmp_path))
    for offset in (0, 10, 20, 30, 0, 20):
        scrubber.verify_soon(scrubber.hosted, offset)
    async with asyncio.timeout(20):
        while scrubber._soon_task is not None:  # noqa: ASYNC110 - the task ends in a turn of the loop
            await asyncio.sleep(0)
    assert scrubber.verified == [0, 20]


async def test_scrubber_without_a_rate_verifies_nothing_that_is_read(tmp_path: Path) -> None:
    scrubber = Chosen(four_segments(tmp_path), bytes_per_second=0)
    scrubber.verify_soon(scrubber.hosted, 0)
    await asyncio.sleep(0)
    assert scrubber.verified == []


@pytest.mark.parametrize(("has_active_records", "expected"), [(True, [0, 10, 20]), (False, [0, 10])])
async def test_round_verifies_every_segment_but_an_empty_active_one(
    has_active_records: bool, expected: list[int], tmp_path: Path
) -> None:
    """An empty file of a closed segment may be damage."""
    hosted = hosted_of(tmp_path, 3, has_active_records=has_active_records)
    hosted.log.segments[1].shrink(0)
    scrubber = Chosen(hosted)
    await scrubber.round()
    assert scrubber.verified == expected
    assert scrubber._counters.scrub_rounds == 1
