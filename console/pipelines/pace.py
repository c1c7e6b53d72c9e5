"""The pace of a pipeline, by readings of its positions and of the ends of the logs: its rate, and how fresh it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ...admin.places import Place
from .pipeline import Pipeline, Reading

#: The rate is that of this time.
_RATE_S = 60.0
#: Samples of a pipeline. With more of them every other one of the older half goes, so a few reach back for long.
_MOST_SAMPLES = 32


class _Sample(NamedTuple):
    moment: float
    read: int
    ends: Mapping[Place, int]


class Pace:
    """Samples of one pipeline."""

    def __init__(self) -> None:
        self._samples: list[_Sample] = []

    def add(self, now: float, readings: Iterable[Reading]) -> tuple[float | None, float | None]:
        """Returns the offsets per second, and the seconds since all records of that time are read.

        None where the samples do not reach back so far. A pipeline is as fresh as the newest sample whose ends it has
        passed by now.
        """
        known = [one for one in readings if one.position is not None]
        positions = {(one.topic, one.partition): one.position for one in known if one.position is not None}
        ends = {(one.topic, one.partition): one.end for one in known if one.end is not None}
        read = sum(positions.values())
        self._samples.append(_Sample(now, read, ends))
        if len(self._samples) > _MOST_SAMPLES:
            half = _MOST_SAMPLES // 2
            self._samples = self._samples[:half:2] + self._samples[half:]
        return self._rate(now, read), self._fresh_s(now, positions)

    def _rate(self, now: float, read: int) -> float | None:
        first = next((one for one in self._samples if now - one.moment <= _RATE_S), None)
        if first is None or first.moment >= now:
            return None
        return max(0, read - first.read) / (now - first.moment)

    def _fresh_s(self, now: float, positions: Mapping[Place, int]) -> float | None:
        for sample in reversed(self._samples):
            if sample.ends and all(positions.get(place, -1) >= end for place, end in sample.ends.items()):
                return now - sample.moment
        return None


class Paces:
    """Those of all pipelines. Pipelines that are gone are forgotten."""

    def __init__(self) -> None:
        self._by_name: dict[str, Pace] = {}

    def paced(self, pipelines: Iterable[Pipeline], now: float) -> list[Pipeline]:
        """The pipelines of a kind with their rates and freshness."""
        found = []
        for one in pipelines:
            rate, fresh_s = self._by_name.setdefault(one.series, Pace()).add(now, one.readings)
            found.append(one.with_pace(rate, fresh_s))
        return found

    def keep(self, names: set[str]) -> None:
        self._by_name = {name: pace for name, pace in self._by_name.items() if name in names}
