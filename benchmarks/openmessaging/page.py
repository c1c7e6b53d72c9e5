"""The table of docs/specialists/benchmarks/openmessaging.md, and the file of its figures beside it."""

from __future__ import annotations

from pathlib import Path

from ..reporting import report
from ..reporting.result import Result

#: The text of the page is between the lines before the table and after it.
BEGIN, END = "<!-- the table -->\n", "<!-- the end of the table -->\n"


def write(measured: list[Result], page: Path) -> None:
    """Writes the rows into the page and its JSON file. Rows of that file that were not measured now are kept."""
    file = page.with_suffix(".json")
    results = report.with_earlier(measured, file)
    file.write_text(report.as_json(results), encoding="utf-8")
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{page} has no place for the table: a line {BEGIN!r}, later a line {END!r}")
    page.write_text(before + BEGIN + table(results) + END + after, encoding="utf-8")


def table(results: list[Result]) -> str:
    missed = sum(not result.holds for result in results)
    lines = [
        "",
        f"{missed} of {len(results)} figures miss the target.",
        "",
        *report.table(results),
        "",
    ]
    return "".join(f"{line}\n" for line in lines)
