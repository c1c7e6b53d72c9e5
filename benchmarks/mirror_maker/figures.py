"""The figures of the comparison, with the project's bound for each ratio Odradek / MirrorMaker 2."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """A kind of figure. `target`: the most that the ratio may be; None for none."""

    name: str
    unit: str
    target: float | None = None


CPU = Figure("CPU", "s/GB", 0.25)
CPU_S = Figure("CPU", "s")
SOURCE_CPU = Figure("source CPU", "s/GB")
LAG_P50 = Figure("lag p50", "ms")
LAG_P99 = Figure("lag p99", "ms", 0.2)
MEMORY = Figure("peak memory", "MB")
TIME = Figure("time", "s")
RATE = Figure("rate", "MB/s")
PRODUCER_P99_BEFORE = Figure("producer p99 before", "ms")
#: The rule of all tails beside other work (`benchmarks.tails`): at most half of Apache Kafka's.
PRODUCER_P99 = Figure("producer p99", "ms", 0.5)

#: (row, figure) -> target -> the value of each round
Figures = dict[tuple[str, Figure], dict[str, list[float]]]


def show(figures: Figures, names: Sequence[str]) -> None:
    """Prints the medians as a table, and as lines of Markdown. A target without a value has none in the row."""
    head = ("row", "figure", *names, "ratio", "target", "")
    table = Table(*head)
    lines = [head, ("---",) * len(head)]
    for (row, figure), values in figures.items():
        cells = _cells(row, figure, [statistics.median(values[name]) if values[name] else None for name in names])
        table.add_row(*cells)
        lines.append(cells)
    Console(width=140).print(table)
    print("\n".join(f"| {' | '.join(cells)} |" for cells in lines))


def _cells(row: str, figure: Figure, medians: Sequence[float | None]) -> tuple[str, ...]:
    ratio = None
    if len(medians) == 2 and medians[0] and medians[1] is not None:
        ratio = medians[1] / medians[0]
    shown, target, verdict = "", "", ""
    if ratio is not None:
        shown = f"{ratio:.2f}"
        if figure.target is not None:
            target, verdict = f"<= {figure.target}", "met" if ratio <= figure.target else "missed"
    values = ["-" if value is None else f"{value:.3g}" for value in medians]
    return row, f"{figure.name}, {figure.unit}", *values, shown, target, verdict
