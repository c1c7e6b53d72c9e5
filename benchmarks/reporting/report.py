"""The table and the charts of a comparison: for the terminal, and for docs/benchmarks.md."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ..brokers import APACHE_NAME, ODRADEK_NAME
from .chart import draw
from .kinds import Kind
from .result import Result

HEAD = ("row", "client", "figure", APACHE_NAME, ODRADEK_NAME, "ratio", "target", "")


def show(results: list[Result], console: Console) -> None:
    table = Table(*HEAD, title=f"{ODRADEK_NAME} / {APACHE_NAME}")
    for result in results:
        table.add_row(*result.cells(), style=None if result.holds else "yellow")
    console.print(table)


def write(measured: list[Result], folder: Path) -> None:
    """Writes benchmarks.md, benchmarks.png and benchmarks.json. A text in benchmarks-notes.md goes below the table.

    Earlier rows in benchmarks.json that were not measured now (`--only`) are kept.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results = with_earlier(measured, folder / "benchmarks.json")
    (folder / "benchmarks.md").write_text(markdown(results, folder / "benchmarks-notes.md"))
    plain = [{**result.__dict__, "kind": result.kind.__dict__, "ratio": result.ratio} for result in results]
    (folder / "benchmarks.json").write_text(json.dumps(plain, indent=1) + "\n")
    draw(results, folder / "benchmarks.png")


def with_earlier(measured: list[Result], file: Path) -> list[Result]:
    """Returns all results in the order of the earlier table, new rows last."""
    earlier = json.loads(file.read_text()) if file.exists() else []
    found = {one.key: one for one in map(from_json, earlier)}
    return list((found | {one.key: one for one in measured}).values())


def from_json(row: dict[str, Any]) -> Result:
    fields = {name: value for name, value in row.items() if name not in ("ratio", "kind")}
    return Result(kind=Kind(**row["kind"]), **fields)


def markdown(results: list[Result], notes: Path) -> str:
    lines = [
        f"# {ODRADEK_NAME} beside {APACHE_NAME}",
        "",
        "Written by `python -m benchmarks.against_kafka --write docs`: one machine, the same foreign programs for both, in",
        f"turn; a row's figures are medians of one run of its rounds ({rounds(results)}). {os.cpu_count()} cores, Python "
        f"{platform.python_version()}. Only the ratios mean something.",
        "",
        "![ratios](benchmarks.png)",
        "",
        "| " + " | ".join(HEAD) + " |",
        "|" + "---|" * len(HEAD),
        *("| " + " | ".join(result.cells()) + " |" for result in results),
    ]
    text = "\n".join(lines) + "\n"
    return text + "\n" + notes.read_text() if notes.exists() else text


def rounds(results: list[Result]) -> str:
    fewest, most = (choose(result.rounds for result in results) for choose in (min, max))
    return str(most) if fewest == most else f"{fewest} to {most}"
