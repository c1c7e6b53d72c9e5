"""The order in which waiting share fetches are woken, and wakes that must not get lost."""

from __future__ import annotations

from random import Random

import pytest
from odradek.server.share.waiting_fetches import WaitingFetches

from tests.harness.examples import examples


class Partition:
    """Records to acquire, the fetches that wait for them, and the woken fetches whose turn comes."""

    def __init__(self) -> None:
        self.records = 0
        self.waiting = WaitingFetches(lambda: self.records)
        self.due: list[Fetch] = []
        self.attempts = 0

    def append(self, count: int) -> None:
        self.records += count
        self.waiting.changed()

    def run_due(self) -> list[Fetch]:
        """Lets all woken fetches look, and those that they wake. Returns those that took records, in order."""
        served = []
        while self.due:
            fetch = self.due.pop(0)
            if fetch.look():
                served.append(fetch)
        return served


class Fetch:
    """A fetch that takes `wanted` records when at least `least` are there; a closed one takes none and leaves."""

    def __init__(self, partition: Partition, wanted: int = 1, least: int = 1) -> None:
        self.partition = partition
        self.wanted_records = wanted
        self.least = least
        self.closed = self.is_over = self.is_woken = False

    def on_state_changed(self) -> None:
        if not self.is_woken:
            self.is_woken = True
            self.partition.due.append(self)

    @property
    def can_take(self) -> bool:
        return not self.closed and self.partition.records >= self.least

    def look(self) -> bool:
        """Returns whether the fetch took records."""
        self.is_woken = False
        if self.is_over:
            return False
        partition, seen = self.partition, self.partition.waiting.change
        partition.attempts += 1
        takes = self.can_take
        if takes:
            partition.records -= min(partition.records, self.wanted_records)
        if takes or self.closed:
            self.leave()
        else:
            partition.waiting.wait(self, seen)
        return takes

    def leave(self) -> None:
        self.is_over = True
        self.partition.waiting.remove(self)


@pytest.fixture
def partition() -> Partition:
    return Partition()


def waiting(partition: Partition, *fetches: Fetch) -> list[Fetch]:
    for fetch in fetches:
        assert not fetch.look()
    partition.attempts = 0
    return list(fetches)


def test_record_wakes_one_fetch_in_order_of_arrival(partition: Partition) -> None:
    fetches = waiting(partition, *(Fetch(partition) for _ in range(100)))
    for fetch in fetches:
        partition.append(1)
        assert partition.run_due() == [fetch]
    assert partition.attempts == 100


def test_records_wake_as_many_fetches_as_want_them(partition: Partition) -> None:
    fetches = waiting(partition, *(Fetch(partition, wanted) for wanted in (2, 500, 1, 1)))
    partition.append(3)
    assert partition.due == fetches[:2]
    assert partition.run_due() == fetches[:2] and partition.attempts == 2


def test_records_that_a_fetch_leaves_wake_the_next(partition: Partition) -> None:
    fetches = waiting(partition, *(Fetch(partition, 500) for _ in range(3)))
    partition.append(2)
    fetches[0].wanted_records = 1  # its bytes are limited, too
    assert partition.run_due() == fetches[:2]


@pytest.mark.parametrize("closed", [True, False])
def test_woken_fetch_that_takes_nothing_wakes_the_next(partition: Partition, closed: bool) -> None:
    first, second = waiting(partition, Fetch(partition, least=10), Fetch(partition))
    first.closed = closed
    partition.append(1)
    assert partition.due == [first]
    assert partition.run_due() == [second]


def test_woken_fetch_that_ends_before_its_turn_wakes_the_next(partition: Partition) -> None:
    first, second = waiting(partition, Fetch(partition), Fetch(partition))
    partition.append(1)
    first.leave()
    assert partition.run_due() == [second]


def test_fetch_that_came_too_late_keeps_its_place(partition: Partition) -> None:
    first, second = waiting(partition, Fetch(partition), Fetch(partition))
    partition.append(1)
    assert Fetch(partition).look()
    assert partition.run_due() == []
    partition.append(1)
    assert partition.run_due() == [first] and not second.is_over


def test_change_during_an_attempt_wakes_the_fetch(partition: Partition) -> None:
    seen = partition.waiting.change
    partition.append(1)
    has_seen = waiting(partition, Fetch(partition, least=10))
    partition.waiting.wait(fetch := Fetch(partition), seen)
    assert partition.run_due() == [fetch] and not has_seen[0].is_over


def test_error_wakes_every_fetch(partition: Partition) -> None:
    fetches = waiting(partition, *(Fetch(partition) for _ in range(3)))
    partition.waiting.wake_all()
    assert partition.due == fetches


def test_fetches_that_cannot_take_look_once_for_each_change(partition: Partition) -> None:
    waiting(partition, *(Fetch(partition, least=1000) for _ in range(50)))
    for number in range(1, 4):
        partition.append(50)
        assert partition.run_due() == []
        assert partition.attempts == number * 50


@pytest.mark.parametrize("seed", range(examples(100)))
def test_no_fetch_waits_for_records_that_it_could_take(seed: int) -> None:
    random, partition = Random(seed), Partition()
    fetches: list[Fetch] = []
    for _ in range(200):
        action = random.randrange(5)
        if action < 2:
            wanted, least = random.choice((1, 3, 500)), random.choice((1, 1, 1, 5))
            fetches.append(Fetch(partition, wanted, least))
            fetches[-1].look()
        elif action == 2:
            partition.append(random.randrange(8))
        elif action == 3 and fetches and random.randrange(2):
            random.choice(fetches).leave()
        elif action == 3 and fetches:
            random.choice(fetches).closed = True
        elif partition.due:
            partition.due.pop(0).look()
        if not random.randrange(4):
            partition.run_due()
            stuck = [one for one in fetches if not one.is_over and one.can_take]
            assert not stuck, (seed, partition.records, stuck)
        fetches = [one for one in fetches if not one.is_over]
