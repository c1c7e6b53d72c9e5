"""The picture of the README: a dozen figures of one run, each with both brokers' values.

A bar is how many times better than Apache Kafka a figure is, on a logarithmic scale. One row misses its target, so that the
picture has that, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..brokers import APACHE_NAME, ODRADEK_NAME

if TYPE_CHECKING:
    from .result import Result

#: Words of the picture -> row, client and kind of the figure.
FIGURES = {
    "start, until it serves": ("start", "exec", "exec to first response"),
    "memory, idle": ("idle", "-", "resident memory"),
    "memory, peak under load": ("under load, peak", "-", "resident memory"),
    "produce 1 KiB, Java": ("produce 1 KiB acks=1 none", "Java", "throughput"),
    "produce 1 KiB, Java: broker CPU": ("produce 1 KiB acks=1 none", "Java", "broker CPU"),
    "produce 1 KiB, librdkafka": ("produce 1 KiB acks=1 none", "librdkafka", "throughput"),
    "produce 100 B, librdkafka": ("produce 100 B acks=1 none", "librdkafka", "throughput"),
    "consume 1 KiB, Java": ("consume 1 KiB from the start", "Java", "throughput"),
    "consume 1 KiB, librdkafka": ("consume 1 KiB from the start", "librdkafka", "throughput"),
    "end to end, p99": ("end to end, at the tail", "librdkafka", "latency p99"),
    "three brokers, acks=all, 1 KiB": ("cluster: produce 1 KiB acks=all, 3 replicas", "librdkafka", "throughput"),
    "three brokers, kill -9 of a leader": (
        "cluster: kill -9 of a partition's leader",
        "librdkafka",
        "no acknowledgement for",
    ),
}
_SIZE_INCHES = (8.6, 4.4)
_BETTER, _WORSE = "#0072b2", "#d55e00"


def draw(results: Sequence[Result], file: Path) -> None:
    """Draws the figures that were measured."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = {result.key: result for result in results}
    shown = {words: found[key] for words, key in FIGURES.items() if key in found}
    times = [one.ratio if one.kind.higher else 1 / one.ratio for one in shown.values()]
    figure, axes = plt.subplots(figsize=_SIZE_INCHES, layout="constrained")
    colours = [_BETTER if value >= 1 else _WORSE for value in times]
    axes.barh(range(len(times)), [value - 1 for value in times], left=1, color=colours, height=0.65)
    for place, (value, one) in enumerate(zip(times, shown.values(), strict=True)):
        axes.text(max(value, 1) * 1.05, place, _values(one), va="center", fontsize=8)
    axes.set_xscale("log")
    axes.set_xlim(0.8, max(times, default=1) * 3.5)
    ticks = [1, 2, 5, 10, 20]
    axes.set_xticks(ticks, [f"{tick}x" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(shown)), list(shown), fontsize=9)
    axes.invert_yaxis()
    axes.axvline(1, color="black", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(f"Times better than {APACHE_NAME}: one machine, the same clients", fontsize=10, loc="left")
    axes.set_xlabel(f"{ODRADEK_NAME}'s figure, and {APACHE_NAME}'s in brackets", fontsize=8)
    figure.savefig(file, dpi=120)
    plt.close(figure)


def _values(one: Result) -> str:
    return f"{_rounded(one.odradek)} {one.kind.unit} ({_rounded(one.apache)})"


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"
