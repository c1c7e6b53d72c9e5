"""The interval of turns, in simulated time: a record is in its table `freshness_s` after its acknowledgement."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import cycle, pairwise
from types import MappingProxyType
from typing import Any

import pytest
from odradek.admin.topics import Topic
from odradek.archive import ArchiveOptions, Archiver, archiver
from odradek.archive.topic_archive import Archived

FRESHNESS_S = 10.0
#: Longest time between the begins of turns.
INTERVAL_S = 4.0
TURNS = 80
#: Turns at the begin, while the archiver has not seen the longest one.
FIRST = 20


class Clock:
    """`time` of the archiver."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.001)


class Turns:
    """The turns of all topics: (begin, end of the commit) by topic. A turn takes the next one of `seconds`."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, seconds: dict[str, Iterator[float]], merge_s: float = 0.0
    ) -> None:
        self.clock = Clock()
        self._seconds = seconds
        self._merge_s = merge_s
        self.found: dict[str, list[tuple[float, float]]] = {topic: [] for topic in seconds}
        monkeypatch.setattr(archiver, "time", self.clock)
        monkeypatch.setattr(archiver, "Cluster", lambda client: _Cluster())
        made = Archiver({}, list(seconds), lambda topic: _Closed(), ArchiveOptions(), open_archive=self._open)  # type: ignore[arg-type, return-value]
        self._stop: Callable[[], None] = made.stop
        made.run()

    def _open(self, topic: str, *_: Any) -> Any:
        return _Archive(self, topic)

    def turn(self, topic: str) -> None:
        began = self.clock.now
        self.clock.now += next(self._seconds[topic])
        self.found[topic].append((began, self.clock.now))
        if len(self.found[topic]) == TURNS:
            self._stop()

    def merge(self) -> None:
        self.clock.now += self._merge_s

    def longest_delay(self, topic: str) -> float:
        """The delay of a record that is acknowledged when a turn has just planned."""
        turns = self.found[topic][FIRST:]
        return max(end - before for (before, _), (_, end) in pairwise(turns))


class _Closed:
    def close(self) -> None: ...


class _Cluster(_Closed):
    def described(self, names: list[str]) -> list[Topic]:
        return [Topic(name, None, False, []) for name in names]

    def cluster_id(self) -> str:
        return ""


class _Archive(_Closed):
    table = "orders"
    offsets: Mapping[int, int] = MappingProxyType({})

    def __init__(self, turns: Turns, topic: str) -> None:
        self._turns = turns
        self.archived = Archived(topic, is_caught_up=True)

    def advance(self, cluster: Any) -> None:
        self._turns.turn(self.archived.topic)
        self.archived.committed_at = self._turns.clock.now
        self._turns.merge()


@pytest.mark.parametrize(
    "seconds",
    [[0.2], [4.5], [1.0, 1.0, 1.0, 1.0, 6.5], [3.0] * 19 + [6.5]],
    ids=["short", "long", "each fifth is long", "each twentieth is long"],
)
def test_records_are_in_the_table_in_time_where_turns_take_long(
    monkeypatch: pytest.MonkeyPatch, seconds: list[float]
) -> None:
    turns = Turns(monkeypatch, {"orders": cycle(seconds)})
    assert turns.longest_delay("orders") <= FRESHNESS_S + 0.1


def test_short_turns_begin_at_intervals_of_a_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(monkeypatch, {"orders": cycle([0.2])}).found["orders"]
    begins = [began for began, _ in turns]
    assert all(later - before >= INTERVAL_S for before, later in pairwise(begins))


def test_turns_of_other_topics_are_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(monkeypatch, {"orders": cycle([1.0]), "payments": cycle([1.0, 1.0, 5.5]), "refunds": cycle([0.5])})
    assert all(turns.longest_delay(topic) <= FRESHNESS_S + 0.1 for topic in turns.found)


def test_long_turns_make_the_pause_shorter_for_some_turns_only(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(monkeypatch, {"orders": iter([9.0, 8.0] + [1.0] * TURNS)}).found["orders"]
    pauses = [later - end for (_, end), (later, _) in pairwise(turns)]
    assert pauses[1] < 0.1 and pauses[FIRST + 2] >= INTERVAL_S - 1.1


def test_merges_after_a_commit_do_not_make_the_pause_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(monkeypatch, {"orders": cycle([0.5])}, merge_s=3.0)
    assert turns.longest_delay("orders") <= INTERVAL_S + 0.6
    assert all(later - before >= INTERVAL_S for (before, _), (later, _) in pairwise(turns.found["orders"]))
