"""The page of small charts beside the table: panels for produce, consume, latency, memory and start, and the cluster.

A mark is one figure: how many times better than Apache Kafka, on a logarithmic scale, whether more or less is better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..brokers import APACHE_NAME

if TYPE_CHECKING:
    from .result import Result

#: Kind of figure -> mark and colour, distinguishable by colour-blind readers.
MARKS = {
    "throughput": ("o", "#0072b2"),
    "rate": ("o", "#0072b2"),
    "broker CPU": ("s", "#d55e00"),
    "latency p50": ("^", "#009e73"),
    "latency p99": ("v", "#cc79a7"),
    "resident memory": ("D", "#56b4e9"),
}
OTHER = ("P", "#000000")
_LATENCY = ("latency p50", "latency p99")
#: Panels whose axis ends below this have labels between powers of ten.
_MINOR_LABELS_BELOW = 10
_SIZE_INCHES = (13.0, 11.0)


def panels(results: Sequence[Result]) -> list[tuple[str, list[Result]]]:
    """Returns title and figures of each panel; each figure is in one panel."""
    tests: list[tuple[str, Callable[[Result], bool]]] = [
        ("cluster of three", lambda one: one.row.startswith("cluster:")),
        ("memory and start", lambda one: one.kind.name in ("resident memory", "exec to first response")),
        ("produce", lambda one: one.row.startswith("produce") and one.kind.name not in _LATENCY),
        ("consume, share groups", lambda one: one.row.startswith(("consume", "share group"))),
        ("latency, transactions, groups", lambda one: True),
    ]
    made: list[tuple[str, list[Result]]] = [(title, []) for title, _ in tests]
    for one in results:
        place = next(number for number, (_, belongs) in enumerate(tests) if belongs(one))
        made[place][1].append(one)
    order = (2, 1, 3, 4, 0)
    return [made[number] for number in order if made[number][1]]


def draw(results: Sequence[Result], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = panels(results)
    rows = [len({(one.row, one.client) for one in figures}) for _, figures in found]
    figure = plt.figure(figsize=_SIZE_INCHES, layout="constrained")
    left, right = figure.subfigures(1, 2)
    halves = (slice(0, 2), slice(2, None))
    for half, part in zip((left, right), halves, strict=True):
        axes = half.subplots(len(found[part]), 1, height_ratios=[2 + height for height in rows[part]], squeeze=False)
        for one, (title, figures) in zip(axes[:, 0], found[part], strict=True):
            _panel(one, title, figures)
    _legend(figure, results)
    figure.savefig(file, dpi=100)
    plt.close(figure)


def _panel(axes: Any, title: str, figures: list[Result]) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    labels = list(dict.fromkeys((one.row.removeprefix("cluster: "), one.client) for one in figures))
    for one in figures:
        better = one.ratio if one.kind.higher else 1 / one.ratio
        mark, colour = MARKS.get(one.kind.name, OTHER)
        filled = colour if one.holds else "none"
        place = labels.index((one.row.removeprefix("cluster: "), one.client))
        axes.plot(better, place, marker=mark, color=colour, markerfacecolor=filled, linestyle="", markersize=6)
    axes.set_xscale("log")
    times = FuncFormatter(lambda value, _: f"{value:g}x")
    axes.xaxis.set_major_formatter(times)
    axes.xaxis.set_minor_formatter(times if axes.get_xlim()[1] < _MINOR_LABELS_BELOW else NullFormatter())
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(
        range(len(labels)), [row if client == "-" else f"{row}, {client}" for row, client in labels], fontsize=7
    )
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.grid(axis="x", linewidth=0.3)
    axes.set_title(title, fontsize=10, loc="left")
    axes.tick_params(axis="x", which="both", labelsize=7)


def _legend(figure: Any, results: Sequence[Result]) -> None:
    from matplotlib.lines import Line2D

    there = {one.kind.name for one in results}
    reported = [
        Line2D([], [], marker=mark, color=colour, linestyle="", label=name)
        for name, (mark, colour) in {**MARKS, "other times": OTHER}.items()
        if name in there or name == "other times"
    ]
    title = f"times better than {APACHE_NAME}; a hollow mark misses its target"
    figure.legend(handles=reported, loc="outside lower center", ncols=5, fontsize=8, title=title, title_fontsize=8)
