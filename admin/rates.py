"""Rates: what two readings of a cluster differ by, a second; and what several runs of a measurement have in common.

Ends of partitions and sizes may fall: a topic is created anew, retention deletes segments. Then nothing is counted.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TypeVar

K = TypeVar("K")
#: Digits after the point: of a rate that people read, and of a measurement.
RATE_DIGITS, MEASURE_DIGITS = 1, 3
#: A smoothed rate below it is shown as 0.
_LEAST_RATE = 0.05


def growth(before: Mapping[K, int], now: Mapping[K, int]) -> dict[K, int]:
    """The growth of each number; without those that were not read before."""
    return {key: max(0, number - before[key]) for key, number in now.items() if key in before}


def per_second(count: float, seconds: float) -> float:
    """The rate with RATE_DIGITS."""
    return round(count / seconds, RATE_DIGITS)


def smoothed(before: float | None, count: int, seconds: float, half_life_s: float) -> float:
    """A mean in which a reading has half its weight after `half_life_s`. `before` is None for the first one."""
    rate = count / seconds
    if before is None:
        return rate
    kept = 0.5 ** (seconds / half_life_s)
    mean = kept * before + (1 - kept) * rate
    return mean if mean >= _LEAST_RATE else 0.0


def median_of(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of each figure over all runs, with MEASURE_DIGITS: that of two runs is a mean, which may have more."""
    return {key: _median([one[key] for one in runs]) for key in runs[0]}


def _median(numbers: list[float]) -> float:
    found = statistics.median(numbers)
    are_whole = all(isinstance(one, int) for one in numbers)
    return round(found) if are_whole else round(found, MEASURE_DIGITS)


def ratio_of(ours: float, theirs: float) -> float | None:
    return round(ours / theirs, MEASURE_DIGITS) if theirs else None


def throughput(records: int, record_bytes: float, seconds: float) -> dict[str, float]:
    seconds = max(seconds, 1e-9)
    return {
        "records": records,
        "seconds": round(seconds, MEASURE_DIGITS),
        "records_per_s": round(records / seconds),
        "mb_per_s": round(records * record_bytes / seconds / 1e6, 2),
    }


def percentiles(name: str, times: Sequence[float]) -> dict[str, float]:
    """Median, 99th percentile and maximum of times that are there."""
    ordered = sorted(times)

    def at(part: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(part * len(ordered)))], MEASURE_DIGITS)

    return {f"{name}_p50": at(0.5), f"{name}_p99": at(0.99), f"{name}_max": at(1.0)}
