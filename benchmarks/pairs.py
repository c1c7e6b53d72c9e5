"""Compares Odradek with another state of itself: `python -m benchmarks.pairs --before CHECKOUT [--only TEXT] [--rounds N]`.

CHECKOUT is a folder with another state of the repository and an environment of its own, which `make run` makes there. Both
brokers are up, and each row of `against_kafka` drives one and then the other with the same foreign program. A ratio is that
of the broker's CPU in two such runs, now / before: the machine's speed drifts less between them than between medians. Starts
come first: the CPU until a first response, and the memory then. Rows whose median ratio is over 1.03 are listed at the end;
with one, the status is 1.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from compat_tests.broker_process import BrokerProcess

from . import brokers, rows
from .against_kafka import forget
from .reporting.kinds import Row

BEFORE, NOW = "before", "now"
STARTS = 11
#: The largest median ratio of a row that counts as unchanged.
MOST_RATIO = 1.03

#: (row, client, figure) -> the figures before and now, a pair for each round
Pairs = dict[tuple[str, str, str], list[tuple[float, float]]]


def main() -> int:
    options = arguments()
    pairs: Pairs = defaultdict(list)
    try:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            both = {BEFORE: brokers.odradek(Path(folder, BEFORE)), NOW: brokers.odradek(Path(folder, NOW))}
            # Without the working directory on the path: it has the compiled kernel of this checkout.
            both[BEFORE].python = (str(options.before / ".venv/bin/python"), "-P")
            both[NOW].python = (sys.executable, "-P")
            measure_starts(both, pairs)
            measure_rows(both, options, pairs)
    finally:
        show(pairs)
    larger = [" ".join(row) for row, found in pairs.items() if median_ratio(found) > MOST_RATIO]
    print(f"over {MOST_RATIO}: {', '.join(larger) or 'no row'}")
    return 1 if larger else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", required=True, help="the other state")
    parser.add_argument("--scale", type=float, default=0.5, help="how much of each load, as a factor (default: 0.5)")
    parser.add_argument("--rounds", type=int, default=3, help="pairs of each row (default: 3)")
    parser.add_argument("--only", nargs="+", default=[""], help="rows whose name or client holds one of these texts")
    return parser.parse_args()


def measure_starts(both: dict[str, brokers.MeasuredOdradek], pairs: Pairs) -> None:
    """The first start of each, which makes its files and compiles its modules, does not count."""
    for number in track(range(STARTS + 1), "starts"):
        found = {name: _cost_of_start(broker) for name, broker in both.items()}
        if number:
            for figure, before, now in zip(("CPU, s", "memory, MB"), *found.values(), strict=True):
                pairs["start", "-", figure].append((before, now))


def _cost_of_start(broker: BrokerProcess) -> tuple[float, float]:
    with broker:
        return brokers.Cost.of(broker.pid).cpu_s, brokers.memory_mb(broker.pid)


def measure_rows(both: dict[str, brokers.MeasuredOdradek], options: argparse.Namespace, pairs: Pairs) -> None:
    chosen = [
        row for row in rows.all_rows(options.scale) if any(text in f"{row.name} {row.client}" for text in options.only)
    ]
    for (_, _, figure), starts in pairs.items():
        print(f"start, {figure}: {median_ratio(starts):.3f}", flush=True)
    with both[BEFORE], both[NOW]:
        for row, number in track(list(_rounds(chosen, options.rounds + 1)), "rows"):
            found = {name: _cpu_s(row, broker, f"{name}-{chosen.index(row)}-{number}") for name, broker in both.items()}
            if number:  # the first one warms both
                pairs[row.name, row.client, "CPU, s"].append((found[BEFORE], found[NOW]))
            if number == options.rounds:  # an interrupted run has the rows that it measured
                ratio = median_ratio(pairs[row.name, row.client, "CPU, s"])
                print(f"{row.name}, {row.client}: {ratio:.3f}", flush=True)


def _rounds(chosen: list[Row], count: int) -> Iterator[tuple[Row, int]]:
    return ((row, number) for row in chosen for number in range(count))


def _cpu_s(row: Row, broker: BrokerProcess, topic: str) -> float:
    """Runs the load; returns the broker's CPU seconds."""
    if row.feeds is not None:
        row.feeds(broker.bootstrap, topic)
    before = brokers.Cost.of(broker.pid).cpu_s
    row.run(broker.bootstrap, topic)
    cpu_s = brokers.Cost.of(broker.pid).cpu_s - before
    forget(broker, topic)
    return cpu_s


def ratios_of(found: list[tuple[float, float]]) -> list[float]:
    """Returns now / before of each pair. Ticks of the clock are 10 ms: a cost of nothing has no ratio."""
    return [after / earlier for earlier, after in found if earlier]


def median_ratio(found: list[tuple[float, float]]) -> float:
    return statistics.median(ratios_of(found) or [1.0])


def show(pairs: Pairs) -> None:
    table = Table("row", "client", "figure", BEFORE, NOW, "ratio", "least", "most", title="Odradek, now / before")
    for (row, client, kind), found in pairs.items():
        before, now = (statistics.median(side) for side in zip(*found, strict=True))
        ratios = ratios_of(found)
        figures = (before, now, statistics.median(ratios), min(ratios), max(ratios)) if ratios else (before, now)
        table.add_row(row, client, kind, *(f"{figure:.3g}" for figure in figures))
    Console(width=140).print(table)


if __name__ == "__main__":
    sys.exit(main())
