"""Figures of a row's turns, and the project's target for each."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from hdrh.histogram import HdrHistogram

from ..reporting.kinds import THROUGHPUT, Kind
from ..reporting.result import Result
from .rows import Row
from .worker import Outcome

CLIENT = "Java"
PERCENTILES = (50.0, 99.0, 99.9, 99.99)
#: Ahead of Apache Kafka everywhere, and the slowest thousandth begins at half of its latency at most.
_TARGETS = {99.9: 0.5}
#: Share of the rate that was received; less than all of it means that latencies are those of a growing queue.
HELD = Kind("received, share of the rate", "", 0.99, higher=True)
RECEIVED = Kind("received", "MB/s", 1.0, higher=True)
CPU = Kind("broker CPU", "us/record", 0.6, higher=False)
DRAINED = Kind("backlog drained", "MB/s", 1.0, higher=True)
PUBLISH = {share: Kind(f"publish p{share:g}", "ms", _TARGETS.get(share, 1.0), higher=False) for share in PERCENTILES}
END_TO_END = {
    share: Kind(f"end to end p{share:g}", "ms", _TARGETS.get(share, 1.0), higher=False) for share in PERCENTILES
}


def merged(histograms: Sequence[HdrHistogram]) -> HdrHistogram:
    """Returns a histogram of all records of several turns."""
    first = histograms[0]
    total = HdrHistogram(first.lowest_trackable_value, first.highest_trackable_value, first.significant_figures)
    for histogram in histograms:
        total.add(histogram)
    return total


def latencies(histograms: Sequence[HdrHistogram], kinds: dict[float, Kind]) -> dict[Kind, float]:
    """Returns milliseconds by kind."""
    total = merged(histograms)
    return {kind: total.get_value_at_percentile(share) / 1000 for share, kind in kinds.items()}


def figures(row: Row, outcomes: Sequence[Outcome]) -> dict[Kind, float]:
    """Returns a broker's figures: latencies of all its turns together, the median turn of everything else."""
    workload = row.workload

    def megabytes(records: float) -> float:
        return records * workload.message_size / 1e6

    received = statistics.median(one.received / one.seconds for one in outcomes)
    cpu_us = statistics.median(one.cpu_s * 1e6 / max(1, one.received) for one in outcomes)
    if workload.has_backlog:
        publish = latencies([one.publish for one in outcomes], PUBLISH)
        return {DRAINED: megabytes(received), CPU: cpu_us, **publish}
    if not workload.is_rated:
        sent = statistics.median(one.sent / one.seconds for one in outcomes)
        return {THROUGHPUT: megabytes(sent), RECEIVED: megabytes(received), CPU: cpu_us}
    return {
        HELD: min(1.0, received / (workload.producer_rate * workload.subscriptions_per_topic)),
        **latencies([one.publish for one in outcomes], PUBLISH),
        **latencies([one.end_to_end for one in outcomes], END_TO_END),
        CPU: cpu_us,
    }


def results(row: Row, apache: Sequence[Outcome], odradek: Sequence[Outcome]) -> list[Result]:
    theirs, ours = figures(row, apache), figures(row, odradek)
    return [Result(row.name, CLIENT, kind, theirs[kind], ours[kind], len(odradek)) for kind in ours]
