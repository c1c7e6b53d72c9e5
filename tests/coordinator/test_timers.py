"""Timers: each due timer is returned once, in order, and a later deadline costs no queue entry."""

from __future__ import annotations

import random

from odradek.coordinator.timers import NEVER, Timer, Timers


def drain(timers: Timers, now: int) -> list[str]:
    found = []
    while (timer := timers.due(now)) is not None:
        found.append(timer.event[0])
    return found


def test_due_timers_are_returned_once_and_in_order() -> None:
    timers = Timers()
    for name, deadline in (("b", 20), ("a", 10), ("c", 30)):
        timers.set(Timer((name,)), deadline)
    assert timers.next_deadline() == 10
    assert drain(timers, 9) == []
    assert drain(timers, 20) == ["a", "b"]
    assert timers.next_deadline() == 30
    assert drain(timers, 100) == ["c"]
    assert timers.next_deadline() is None


def test_postponed_timer_is_not_due_at_old_deadline() -> None:
    timers, timer = Timers(), Timer(("a",))
    timers.set(timer, 10)
    timers.set(timer, 50)
    assert drain(timers, 10) == []
    assert timers.next_deadline() == 50
    assert drain(timers, 50) == ["a"]


def test_advanced_timer_is_due_only_at_new_deadline() -> None:
    timers, timer = Timers(), Timer(("a",))
    timers.set(timer, 50)
    timers.set(timer, 10)
    assert drain(timers, 10) == ["a"]
    assert drain(timers, 100) == []


def test_cancelled_timer_is_never_due_and_can_be_set_again() -> None:
    timers, timer = Timers(), Timer(("a",))
    timers.set(timer, 10)
    timer.cancel()
    assert timers.next_deadline() is None
    assert drain(timers, 100) == []
    timers.set(timer, 120)
    assert drain(timers, 120) == ["a"]


def test_entries_of_cancelled_and_advanced_timers_leave_the_queue_when_their_time_has_come() -> None:
    timers, cancelled, advanced = Timers(), Timer(("cancelled",)), Timer(("advanced",))
    timers.set(cancelled, 10)
    timers.set(advanced, 50)
    timers.set(advanced, 5)
    cancelled.cancel()
    assert drain(timers, 20) == ["advanced"]
    assert len(timers._queue) == 1, "the later entry of the advanced timer"
    assert drain(timers, 50) == []
    assert not timers._queue


def test_postponing_deadlines_does_not_grow_queue() -> None:
    timers, timer = Timers(), Timer(("a",))
    for deadline in range(10_000):
        timers.set(timer, deadline)
    assert len(timers._queue) == 1


def test_timers_are_due_correctly_after_random_changes() -> None:
    for seed in range(50):
        rng, timers = random.Random(seed), Timers()
        all_timers = [Timer((str(i),)) for i in range(8)]
        now = 0
        for _ in range(300):
            timer = rng.choice(all_timers)
            if rng.random() < 0.2:
                timer.cancel()
            elif rng.random() < 0.7:
                timers.set(timer, now + rng.randrange(1, 40))
            else:
                expected = {t.event[0] for t in all_timers if t.deadline_ms <= now}
                assert set(drain(timers, now)) == expected
                deadlines = [t.deadline_ms for t in all_timers if t.deadline_ms != NEVER]
                earliest = timers.next_deadline()
                assert earliest is None if not deadlines else earliest is not None and earliest <= min(deadlines)
                now += rng.randrange(20)
