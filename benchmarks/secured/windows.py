"""Measures two sides in turn, in short windows: A B B A. Other load on the machine then affects both.

The figure is the CPU time of a broker's process for one unit of work. The minimum of its windows is the least disturbed
one, and the median shows how far the others are from it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..data_path import cpu_s

#: Does work for a number of seconds. Returns the number of units done.
Work = Callable[[float], int]


@dataclass(frozen=True)
class Side:
    """A process and the work that is done for it."""

    pid: int
    work: Work


@dataclass
class Figures:
    """The windows of one side: microseconds of CPU for one unit, and units per second."""

    cpu_us: list[float] = field(default_factory=list)
    rate: list[float] = field(default_factory=list)

    @property
    def least_us(self) -> float:
        return min(self.cpu_us)

    @property
    def median_us(self) -> float:
        return statistics.median(self.cpu_us)

    @property
    def median_rate(self) -> float:
        return statistics.median(self.rate)


def in_turn(sides: Mapping[str, Side], windows: int, seconds: float) -> dict[str, Figures]:
    """Returns the figures of each side after `windows` windows each. The first window of each side is not counted."""
    figures = {name: Figures() for name in sides}
    for number in range(windows + 1):
        order = list(sides) if number % 2 else list(reversed(sides))
        for name in order:
            side = sides[name]
            used, began = cpu_s(side.pid), time.monotonic()
            count = side.work(seconds)
            took = time.monotonic() - began
            if number:
                figures[name].cpu_us.append((cpu_s(side.pid) - used) / count * 1e6)
                figures[name].rate.append(count / took)
    return figures
