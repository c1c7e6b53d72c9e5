"""The table and the charts of a comparison: for the terminal, and for docs/specialists/benchmarks.md."""

from __future__ import annotations

import json
import os
import platform
import statistics
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ..brokers import APACHE_NAME, ODRADEK_NAME
from . import chart, headlines
from .kinds import Kind
from .result import Result

HEAD = ("row", "client", "figure", APACHE_NAME, ODRADEK_NAME, "ratio", "target", "")


def show(results: list[Result], console: Console) -> None:
    table = Table(*HEAD, title=f"{ODRADEK_NAME} / {APACHE_NAME}")
    for result in results:
        table.add_row(*result.cells(), style=None if result.holds else "yellow")
    console.print(table)


def write(measured: list[Result], folder: Path) -> None:
    """Writes benchmarks.md, benchmarks.json, benchmarks.png and the picture of the README.

    A text in benchmarks-notes.md goes below the table. Earlier rows in benchmarks.json that were not measured now (`--only`)
    are kept.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results = with_earlier(measured, folder / "benchmarks.json")
    (folder / "benchmarks.md").write_text(markdown(results, folder / "benchmarks-notes.md"))
    (folder / "benchmarks.json").write_text(as_json(results))
    chart.draw(results, folder / "benchmarks.png")
    headlines.draw(results, folder / "beside-kafka.png")


def as_json(results: list[Result]) -> str:
    plain = [{**result.__dict__, "kind": result.kind.__dict__, "ratio": result.ratio} for result in results]
    return json.dumps(plain, indent=1) + "\n"


def with_earlier(measured: list[Result], file: Path) -> list[Result]:
    """Returns all results in the order of the earlier table, new rows last."""
    found = {one.key: one for one in (read(file) if file.exists() else [])}
    return list((found | {one.key: one for one in measured}).values())


def read(file: Path) -> list[Result]:
    return [from_json(row) for row in json.loads(file.read_text())]


def from_json(row: dict[str, Any]) -> Result:
    fields = {name: value for name, value in row.items() if name not in ("ratio", "kind")}
    return Result(kind=Kind(**row["kind"]), **fields)


def markdown(results: list[Result], notes: Path) -> str:
    lines = [
        f"# {ODRADEK_NAME} beside {APACHE_NAME}",
        "",
        *summary(results),
        "",
        "Written by `python -m benchmarks.against_kafka --write docs/specialists`: one machine, the same foreign programs",
        f"for both, in turn; a row's figures are medians of one run of its rounds ({rounds(results)}). {os.cpu_count()} "
        f"cores, Python {platform.python_version()}. Only the ratios mean something.",
        "",
        "![ratios](benchmarks.png)",
        "",
        *table(results),
    ]
    text = "\n".join(lines) + "\n"
    return text + "\n" + notes.read_text() if notes.exists() else text


def table(results: list[Result]) -> list[str]:
    """Returns the lines of a table in Markdown."""
    rows = ("| " + " | ".join(result.cells()) + " |" for result in results)
    return ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD), *rows]


def summary(results: list[Result]) -> list[str]:
    """Returns five lines: the median ratio of each kind of figure, and the number of missed targets."""
    kinds = {
        "Throughput": ("throughput", "rate"),
        "CPU of the broker": ("broker CPU",),
        "Latency, p50 and p99": ("latency p50", "latency p99"),
        "Resident memory": ("resident memory",),
    }
    lines = []
    for title, names in kinds.items():
        ratios = [result.ratio for result in results if result.kind.name in names]
        middle = f"{statistics.median(ratios):.2f} times {APACHE_NAME}'s" if ratios else "not measured"
        lines.append(f"- {title}: {middle} (median of {len(ratios)} figures).")
    missed = sum(not result.holds for result in results)
    return [*lines, f"- {missed} of {len(results)} figures miss the project's target: the last column of the table."]


def rounds(results: list[Result]) -> str:
    fewest, most = (choose(result.rounds for result in results) for choose in (min, max))
    return str(most) if fewest == most else f"{fewest} to {most}"
