"""Partitions that wait for room on the disk: they are made in turns, and their coordinators begin."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest
from odradek.server.partitions import pending_partitions
from odradek.server.partitions.pending_partitions import PendingPartitions
from odradek.server.runtime.log_lines import RepeatedLines
from odradek.storage.files.failures import LogDirectoryFailure

from tests.server.harness.images import cache_of, image_with, topic_records
from tests.server.harness.set_clock import SetClock

NODE = 1


class Disk:
    """A disk on which `room` partitions can be made; `replicas` of each topic of the image."""

    def __init__(self, room: int, **replicas: list[int]) -> None:
        self.room, self.made, self.begun = room, [], 0
        records = [record for name, ids in replicas.items() for record in topic_records(name, tuple(ids))]
        self.pending = PendingPartitions(NODE, SetClock(), cache_of(image_with(*records)), RepeatedLines())
        self.pending.make = self.make
        self.pending.on_made.append(self.begin)

    def make(self, image: Any, topic: str, topic_id: bytes, index: int, registration: Any) -> None:
        if self.room:
            self.room -= 1
            self.made.append(topic)
            self.pending.made(topic, index)
        else:
            self.wait_for(topic)

    def wait_for(self, topic: str) -> None:
        self.pending.add((topic, 0), LogDirectoryFailure("d", "creating", OSError(errno.ENOSPC, "full")), None, None)

    def begin(self, image: Any) -> None:
        self.begun += 1


@pytest.fixture(autouse=True)
def short_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_partitions, "RETRY_S", 0.002)
    monkeypatch.setattr(pending_partitions, "MOST_IN_A_TURN", 2)


async def until(holds: Any) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - the tries are timers
            await asyncio.sleep(0.001)


async def test_all_are_made_in_turns_and_their_coordinators_begin() -> None:
    disk = Disk(9, a=[1], b=[1], c=[1])
    for topic in "abc":
        disk.wait_for(topic)
    assert "a" not in disk.made and ("a", 0) in disk.pending
    await until(lambda: not len(disk.pending))
    assert (disk.made, disk.begun) == (["a", "b", "c"], 2)


async def test_partition_without_room_waits_behind_the_others() -> None:
    disk = Disk(1, a=[1], b=[1])
    for topic in "ab":
        disk.wait_for(topic)
    await until(lambda: disk.begun)
    assert disk.made == ["a"]
    assert ("b", 0) in disk.pending
    disk.room = 1
    await until(lambda: not len(disk.pending))
    assert (disk.made, disk.begun) == (["a", "b"], 2)


async def test_partition_that_is_deleted_or_moved_away_is_made_no_more() -> None:
    disk = Disk(9, moved=[2, 3])
    for topic in ("deleted", "moved"):
        disk.wait_for(topic)
    await until(lambda: not len(disk.pending))
    assert (disk.made, disk.begun) == ([], 0)


async def test_nothing_is_made_while_another_image_is_applied() -> None:
    disk = Disk(9, a=[1])
    disk.wait_for("a")
    tries: list[float] = []
    plan = disk.pending._plan
    disk.pending._plan = lambda delay_s: (tries.append(delay_s), plan(delay_s))  # type: ignore[method-assign]
    with disk.pending.paused():
        await until(lambda: len(tries) > 2)
        assert disk.made == []
    await until(lambda: disk.made == ["a"])


async def test_turn_without_a_partition_to_make_is_followed_by_the_next_at_once() -> None:
    disk = Disk(9, a=[1])
    for topic in ("deleted", "gone", "a"):
        disk.wait_for(topic)
    delays: list[float] = []
    plan = disk.pending._plan
    disk.pending._plan = lambda delay_s: (delays.append(delay_s), plan(delay_s))  # type: ignore[method-assign]
    await until(lambda: not len(disk.pending))
    assert (disk.made, disk.begun, delays) == (["a"], 1, [0])
