"""The read model: an immutable picture of the cluster that all viewers share, the series behind the charts, and the rates of
topics whose pages are open.
"""

from __future__ import annotations

import threading
import time
from array import array
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple


class TopicRow(NamedTuple):
    """`records_per_s` is None until the topic's ends were read twice."""

    name: str
    partitions: int
    replicas: int
    under_replicated: int
    without_leader: int
    internal: bool
    records_per_s: float | None


class BrokerRow(NamedTuple):
    """`silent`: the last poll got no response from it, and the controller has not fenced it yet."""

    broker: int
    host: str
    port: int
    rack: str | None
    fenced: bool
    leads: int
    replicas: int
    out_of_sync: int
    silent: bool = False


class GroupRow(NamedTuple):
    """`lag` is None for groups whose offsets were not read yet, or cannot be. It is without `unknown` partitions, which have
    no leader that responds.
    """

    group: str
    kind: str
    state: str
    lag: int | None
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class Quorum:
    leader: int = -1
    epoch: int = -1
    voters: int = 0
    observers: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`topics` and `groups` are sorted by name. `error` is why the last poll failed; the rest is older then."""

    at: float = 0.0
    cluster_id: str = ""
    controller: int = -1
    brokers: tuple[BrokerRow, ...] = ()
    quorum: Quorum = field(default_factory=Quorum)
    topics: tuple[TopicRow, ...] = ()
    groups: tuple[GroupRow, ...] = ()
    partitions: int = 0
    under_replicated: int = 0
    without_leader: int = 0
    records_per_s: float | None = None
    lag: int | None = None
    error: str = ""

    @property
    def is_filled(self) -> bool:
        return self.at > 0

    def topic(self, name: str) -> TopicRow | None:
        index = bisect_left(self.topics, name, key=lambda row: row.name)
        return self.topics[index] if index < len(self.topics) and self.topics[index].name == name else None


#: Points of a chart: five minutes at two seconds each, and six hours at one minute each.
MOST_POINTS, MOST_MINUTES = 150, 360
_MINUTE_S = 60.0
#: Series of lag that are kept; the least recently changed goes first.
MOST_SERIES = 500


class Series:
    """The newest values of one figure with their times, and before these the mean of each minute."""

    __slots__ = ("_minute", "_old_times", "_old_values", "_times", "_values")

    def __init__(self) -> None:
        self._times, self._values = array("d"), array("d")
        self._old_times, self._old_values = array("d"), array("d")
        #: Begin, sum and count of the minute that is being added up.
        self._minute = (0.0, 0.0, 0)

    def add(self, at: float, value: float) -> None:
        self._times.append(at)
        self._values.append(value)
        if len(self._times) > MOST_POINTS:
            self._note_old(self._times.pop(0), self._values.pop(0))

    def _note_old(self, at: float, value: float) -> None:
        begun, total, count = self._minute
        if count and at - begun >= _MINUTE_S:
            self._old_times.append(begun)
            self._old_values.append(total / count)
            if len(self._old_times) > MOST_MINUTES:
                self._old_times.pop(0)
                self._old_values.pop(0)
            count = 0
        self._minute = (begun, total + value, count + 1) if count else (at, value, 1)

    @property
    def values(self) -> array[float]:
        """Without the means."""
        return self._values[:]

    @property
    def points(self) -> tuple[array[float], array[float]]:
        """Times in seconds since 1970, and values."""
        return self._old_times + self._times, self._old_values + self._values


class History:
    """Series by name, at most MOST_SERIES."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._series: dict[str, Series] = {}

    def add(self, name: str, value: float) -> None:
        series = self._series.pop(name, None) or Series()
        series.add(self._clock(), value)
        self._series[name] = series
        while len(self._series) > MOST_SERIES:
            self._series.pop(next(iter(self._series)))

    def values(self, name: str) -> array[float]:
        found = self._series.get(name)
        return found.values if found is not None else array("d")

    def points(self, name: str) -> tuple[array[float], array[float]]:
        found = self._series.get(name)
        return found.points if found is not None else (array("d"), array("d"))


# ---- rates of partitions, from the ends and sizes of two of their readings

#: Pages of topics whose last reading is kept; the least recently read goes first.
_MOST_PAGES = 200
#: Viewers of the same page share a reading of this age; an older one than the other gives no rate.
_LEAST_S, _MOST_S = 2.0, 60.0


@dataclass(frozen=True, slots=True)
class Rates:
    """By partition, for those that were read twice. `is_new`: it is not a reading that viewers share."""

    records_per_s: dict[int, float] = field(default_factory=dict)
    bytes_per_s: float | None = None
    is_new: bool = True


@dataclass(frozen=True, slots=True)
class _Reading:
    at: float
    ends: dict[int, int]
    sizes: dict[int, int]
    rates: Rates


class TopicRates:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._readings: dict[tuple[str, int], _Reading] = {}
        self._lock = threading.Lock()

    def note(self, topic: str, first: int, ends: dict[int, int], sizes: dict[int, int]) -> Rates:
        """Notes a reading of the page of partitions from `first` on. Returns the rates since the one before."""
        now = self._clock()
        with self._lock:
            before = self._readings.pop((topic, first), None)
            if before is not None and now - before.at < _LEAST_S:
                self._readings[topic, first] = before
                return Rates(before.rates.records_per_s, before.rates.bytes_per_s, False)
            rates = _rates_between(before, now, ends, sizes) if before is not None else Rates()
            self._readings[topic, first] = _Reading(now, ends, sizes, rates)
            while len(self._readings) > _MOST_PAGES:
                self._readings.pop(next(iter(self._readings)))
        return rates


def _rates_between(before: _Reading, now: float, ends: dict[int, int], sizes: dict[int, int]) -> Rates:
    seconds = now - before.at
    if seconds > _MOST_S:
        return Rates()
    records = {index: max(0, end - before.ends[index]) / seconds for index, end in ends.items() if index in before.ends}
    both = [index for index in sizes if index in before.sizes]
    grown = sum(max(0, sizes[index] - before.sizes[index]) for index in both)  # retention makes a partition smaller
    return Rates(records, grown / seconds if both else None)
