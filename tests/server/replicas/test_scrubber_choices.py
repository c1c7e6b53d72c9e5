"""Segments that the scrubber verifies: those of a round, and those that were read."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from odradek.server.replicas.scrubber import Scrubber
from odradek.server.runtime.clock import Clock

from tests.server.harness.nodes import node_of


class Chosen(Scrubber):
    """A scrubber that notes the segments instead of reading them."""

    def __init__(self, segments: list[Any], bytes_per_second: int = 1000) -> None:
        log = SimpleNamespace(segments=segments, active=segments[-1])
        log.segment_of = lambda offset: next(one for one in segments if one.base_offset == offset)
        self.hosted: Any = SimpleNamespace(log=log, open_log=lambda: log)
        self.verified: list[int] = []
        node = node_of({"odradek.scrub.bytes.per.second": str(bytes_per_second)}, clock=Clock(lambda: 0.007))
        parts: Any = ([self.hosted], None, None)
        super().__init__(node, *parts)

    async def _verify(self, hosted: Any, segment: Any, bytes_per_second: int) -> None:
        self.verified.append(segment.base_offset)


def segment(base_offset: int, size: int = 100, *, is_verified: bool = False) -> Any:
    return SimpleNamespace(base_offset=base_offset, size=size, is_verified=is_verified)


def segments() -> list[Any]:
    return [segment(0), segment(10, is_verified=True), segment(20), segment(30)]


async def test_segment_that_is_read_is_verified_once_when_it_is_closed() -> None:
    scrubber = Chosen(segments())
    for offset in (0, 10, 20, 30, 0, 20):
        scrubber.verify_soon(scrubber.hosted, offset)
    async with asyncio.timeout(20):
        while scrubber._soon_task is not None:  # noqa: ASYNC110 - the task ends in a turn of the loop
            await asyncio.sleep(0)
    assert scrubber.verified == [0, 20]


async def test_scrubber_without_a_rate_verifies_nothing_that_is_read() -> None:
    scrubber = Chosen(segments(), bytes_per_second=0)
    scrubber.verify_soon(scrubber.hosted, 0)
    await asyncio.sleep(0)
    assert scrubber.verified == []


@pytest.mark.parametrize(("active_size", "expected"), [(100, [0, 10, 20]), (0, [0, 10])])
async def test_round_verifies_every_segment_but_an_empty_active_one(active_size: int, expected: list[int]) -> None:
    """An empty file of a closed segment may be damage."""
    scrubber = Chosen([segment(0), segment(10, 0), segment(20, active_size)])
    await scrubber.round()
    assert scrubber.verified == expected
    assert scrubber._counters.scrub_rounds == 1
