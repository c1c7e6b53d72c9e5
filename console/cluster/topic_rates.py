"""Rates of the partitions of topics whose pages are open, from the ends and sizes of two of their readings."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ...admin.rates import growth

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
    records = {index: count / seconds for index, count in growth(before.ends, ends).items()}
    grown = growth(before.sizes, sizes)
    return Rates(records, sum(grown.values()) / seconds if grown else None)
