"""Compares the codecs with others, for the ten messages that a broker handles most: `python -m benchmarks.codecs`.

Every way reads and writes the same bytes; each is timed in turn, in many short rounds, and its best round counts, so that
a machine busy with other things changes the ratios little. `--write FOLDER` keeps the tables as codecs.md and codecs.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from odradek.protocol.codec import encode
from rich.console import Console
from rich.progress import track
from rich.table import Table

from .codecs_of_others import WAYS
from .codecs_samples import Sample, samples

#: The targets: lowered code takes at most this many times the other's time.
TARGETS = {"by hand": 1.3, "kafka-python": 1.0, "construct compile()": 1 / 5}
#: Time of one way in one round. Short, so that the ways alternate often.
ROUND_SECONDS = 0.004

#: "decode" or "encode" -> message -> way -> microseconds
Figures = dict[str, dict[str, dict[str, float]]]


def main() -> int:
    options = arguments()
    figures: Figures = {"decode": {}, "encode": {}}
    for sample in track(samples(), "measuring", disable=not Console().is_terminal):
        measure(sample, options.rounds, figures)
    console = Console(width=options.width)
    for direction, by_message in figures.items():
        console.print(shown(direction, by_message))
    missed = misses(figures)
    console.print("\n".join(missed) if missed else "Every target is reached.")
    if options.write:
        write(figures, missed, options.write)
    return 1 if missed and options.strict else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The codecs beside those of others.")
    parser.add_argument("--rounds", type=int, default=40, help="how often each way has its turn (40)")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="where to keep codecs.md and codecs.json")
    parser.add_argument("--strict", action="store_true", help="end with 1 where a target is missed")
    parser.add_argument("--width", type=int, default=None, help="columns of the table")
    return parser.parse_args()


def measure(sample: Sample, rounds: int, figures: Figures) -> None:
    data = encode(sample.message, sample.version)
    ways = {name: way(sample, data) for name, way in WAYS.items()}
    for name, way in ways.items():
        assert way.encode() == data, f"{name} writes {sample.name} in another way"
    for direction, by_message in figures.items():
        functions = {name: getattr(way, direction) for name, way in ways.items()}
        by_message[f"{sample.name} v{sample.version}"] = best_of(functions, rounds)


def best_of(functions: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Returns the microseconds of CPU for one call of each function, the best of all rounds."""
    calls = {name: calls_per_round(function) for name, function in functions.items()}
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(rounds):
        for name, function in functions.items():
            best[name] = min(best[name], seconds(function, calls[name]) / calls[name] * 1e6)
    return best


def calls_per_round(function: Callable[[], Any]) -> int:
    once = max(seconds(function, 20) / 20, 1e-8)
    return max(5, int(ROUND_SECONDS / once))


def seconds(function: Callable[[], Any], calls: int) -> float:
    started = time.process_time()
    for _ in range(calls):
        function()
    return time.process_time() - started


def shown(direction: str, by_message: dict[str, dict[str, float]]) -> Table:
    table = Table(title=f"{direction}: microseconds of CPU for one message (times what lowered takes)")
    table.add_column("message")
    for name in WAYS:
        table.add_column(name, justify="right")
    for message, figures in by_message.items():
        table.add_row(message, *(cell(figures, name) for name in WAYS))
    return table


def cell(figures: dict[str, float], name: str) -> str:
    if name == "lowered":
        return f"{figures[name]:.2f}"
    return f"{figures[name]:.2f} ({figures[name] / figures['lowered']:.1f})"


def misses(figures: Figures) -> list[str]:
    """Returns a sentence for each missed target."""
    return [
        f"{direction} {message}: lowered takes {by_way['lowered'] / by_way[name]:.2f} times {name}, {most:.2f} is the target"
        for direction, by_message in figures.items()
        for message, by_way in by_message.items()
        for name, most in TARGETS.items()
        if by_way["lowered"] > most * by_way[name]
    ]


def summary(figures: Figures, missed: list[str]) -> list[str]:
    """Returns five lines: the codec of this project beside four others, and the number of missed targets."""
    lines = []
    for name in ("by hand", "kafka-python", "kio (Rust)", "construct"):
        times = [
            by_way[name] / by_way["lowered"] for of in figures.values() for by_way in of.values() if name in by_way
        ]
        middle = f"{statistics.median(times):.1f} times the CPU of lowered" if times else "not measured"
        lines.append(f"- {name}: {middle} (median of {len(times)} figures).")
    return [*lines, f"- {len(missed)} targets are missed; lowered is the codec that the broker uses."]


def write(figures: Figures, missed: list[str], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "codecs.json").write_text(json.dumps({"microseconds": figures, "missed": missed}, indent=1) + "\n")
    lines = ["# Codecs", "", *summary(figures, missed), "", *(__doc__ or "").split("\n\n")[1].splitlines(), ""]
    for direction, by_message in figures.items():
        lines += [
            f"## {direction}",
            "",
            "Microseconds of CPU for one message; in brackets, times what lowered takes.",
            "",
        ]
        lines += [f"| message | {' | '.join(WAYS)} |", f"|---|{'---:|' * len(WAYS)}"]
        for message, by_way in by_message.items():
            lines.append(f"| {message} | {' | '.join(cell(by_way, name) for name in WAYS)} |")
        lines.append("")
    lines += missed or ["Every target is reached."]
    (folder / "codecs.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
