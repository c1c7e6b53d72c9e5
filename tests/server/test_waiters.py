"""Deadlines and wake-ups of what waits."""

from __future__ import annotations

import asyncio

from odradek.server.runtime.waiters import LONGEST_BUCKETED_WAIT_MS, Deadlines, Parked, Wakeups


class Waiting(Parked):
    def __init__(self) -> None:
        super().__init__()
        self.ended: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def expired(self) -> None:
        self.ended.set_result(asyncio.get_running_loop().time())


async def test_a_deadline_comes_never_early_and_never_much_too_late() -> None:
    loop = asyncio.get_running_loop()
    deadlines = Deadlines(loop)
    waits = [0, 1, 5, 7, 8, 9, 20, 50]
    began = loop.time()
    waiting = [Waiting() for _ in waits]
    for one, wait_ms in zip(waiting, waits, strict=True):
        deadlines.add(one, wait_ms)
    for one, wait_ms in zip(waiting, waits, strict=True):
        assert await asyncio.wait_for(one.ended, 10) - began >= wait_ms / 1000


async def test_removed_waiter_does_not_expire() -> None:
    deadlines = Deadlines(asyncio.get_running_loop())
    removed, kept, long = Waiting(), Waiting(), Waiting()
    deadlines.add(removed, 5)
    deadlines.add(kept, 5)
    deadlines.add(long, LONGEST_BUCKETED_WAIT_MS + 1)
    deadlines.remove(removed)
    deadlines.remove(long)
    deadlines.remove(long)
    await asyncio.wait_for(kept.ended, 10)
    assert not removed.ended.done()
    assert not long.ended.done()
    assert long.deadline is removed.deadline is None


async def test_wakeups_of_one_turn_complete_once_in_next_turn() -> None:
    wakeups = Wakeups(asyncio.get_running_loop())
    done: list[str] = []
    wakeups.add(lambda: done.append("a"))
    wakeups.add(lambda: (done.append("b"), wakeups.add(lambda: done.append("c"))))
    assert done == []
    await asyncio.sleep(0)
    assert done == ["a", "b"]
    await asyncio.sleep(0)
    assert done == ["a", "b", "c"]
