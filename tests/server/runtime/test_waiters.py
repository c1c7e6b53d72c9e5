"""Deadlines and wake-ups of waiters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from odradek.server.partitions.parked_requests import LONGEST_BUCKETED_WAIT_MS, Deadlines, Parked, Wakeups


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


async def test_answered_waiters_leave_nothing_and_all_deadlines_share_one_timer() -> None:
    loop = asyncio.get_running_loop()
    set_for: list[float] = []

    class Counting:
        time = staticmethod(loop.time)

        def call_at(self, when: float, function: Callable[..., None], *args: object) -> asyncio.TimerHandle:
            set_for.append(when)
            return loop.call_at(when, function, *args)

    deadlines = Deadlines(Counting())  # type: ignore[arg-type]
    for _ in range(100):
        answered = Waiting()
        deadlines.add(answered, LONGEST_BUCKETED_WAIT_MS)
        await asyncio.sleep(0)
        deadlines.remove(answered)
    assert not deadlines._buckets
    assert len(set_for) == 1


async def test_earlier_deadline_after_later_one_expires_first_and_both_expire() -> None:
    deadlines = Deadlines(asyncio.get_running_loop())
    later, earlier = Waiting(), Waiting()
    deadlines.add(later, 60)
    deadlines.add(earlier, 5)
    assert await asyncio.wait_for(earlier.ended, 10) < await asyncio.wait_for(later.ended, 10)


async def test_waiter_removed_by_one_that_expires_before_it_does_not_expire() -> None:
    deadlines = Deadlines(asyncio.get_running_loop())

    class Removing(Waiting):
        def expired(self) -> None:
            deadlines.remove(removed)
            deadlines.add(again, 5)
            super().expired()

    removing, removed, again = Removing(), Waiting(), Waiting()
    for one in (removing, removed):
        deadlines.add(one, 5)
    await asyncio.wait_for(removing.ended, 10)
    await asyncio.wait_for(again.ended, 10)
    assert not removed.ended.done()


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
