"""The output of a command: its result, in the form that `--output` names.

- table: for people. All tables of the result, with titles.
- json: one array of objects; jsonl: an object a line. Names and values as documented, sizes in bytes, times in ms.
- csv: the main table with a line of names. plain: the main table's cells between tabs, without names.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table as RichTable

FORMATS = ("table", "json", "jsonl", "csv", "plain")


@dataclass(slots=True)
class Table:
    """Rows under names; cells may be texts, numbers, booleans, None, or lists of these."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


class Output:
    """Writes results to standard output in one format."""

    def __init__(self, form: str = "table") -> None:
        self.form = form

    def show(self, data: Iterable[Mapping[str, object]], main: Table, *others: Table) -> None:
        """Shows one result: `data` for JSON, `main` for CSV and plain text, `others` and then `main` for people."""
        if self.form == "json":
            sys.stdout.write(json.dumps(list(data), indent=2, ensure_ascii=False) + "\n")
        elif self.form == "jsonl":
            sys.stdout.write("".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in data))
        elif self.form == "csv":
            sys.stdout.write(csv_text(main))
        elif self.form == "plain":
            sys.stdout.write("".join("\t".join(_plain(cell) for cell in row) + "\n" for row in main.rows))
        else:
            for table in (*others, main):
                _print_table(table)

    def changed(self, action: str, names: Iterable[str], *, dry_run: bool, nothing: str = "") -> None:
        """Shows what a command changed, or with `dry_run` what it would change. `nothing`: why that is nothing."""
        word = f"would be {action}" if dry_run else action
        found = [{"name": name, "action": action, "dry_run": dry_run} for name in names]
        if self.form in ("json", "jsonl"):
            self.show(found, Table("", (), ()))
        else:
            table = Table("", ("ACTION", "NAME"), [(word, one["name"]) for one in found])
            if self.form == "table" and not found:
                sys.stdout.write(f"nothing {word}{f': {nothing}' if nothing else ''}\n")
            elif self.form == "table":
                sys.stdout.write("".join(f"{word}: {one['name']}\n" for one in found))
            else:
                self.show(found, table)


def csv_text(table: Table) -> str:
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow([name.lower().replace(" ", "_") for name in table.columns])
    writer.writerows([_cell(cell) for cell in row] for row in table.rows)
    return made.getvalue()


def _cell(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, list | tuple):
        return ",".join(_cell(one) for one in cell)
    return str(cell)


def _plain(cell: object) -> str:
    return _cell(cell).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")


def rich_table(table: Table) -> RichTable:
    """The table as one of rich's, for a terminal's width or for a pipe."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    is_terminal = sys.stdout.isatty()
    made = RichTable(
        box=box.SIMPLE_HEAD if is_terminal else None, pad_edge=False, title_justify="left", show_edge=False
    )
    for index, name in enumerate(table.columns):
        cells = [row[index] for row in table.rows if row[index] is not None]
        numeric = bool(cells) and all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in cells)
        made.add_column(name, justify="right" if numeric else "left", overflow="fold", no_wrap=not is_terminal)
    for row in table.rows:
        made.add_row(*(Text(_printable(_cell(cell))) for cell in row))
    return made


def _print_table(table: Table) -> None:
    from rich.console import Console
    from rich.text import Text

    is_terminal = sys.stdout.isatty()
    # Nothing is cut for a pipe: the reader is a program or a file.
    console = Console(highlight=False, width=None if is_terminal else 100_000, soft_wrap=not is_terminal)
    if table.title:
        console.print(Text(table.title, style="bold"))
    console.print(rich_table(table))
    if table.title:
        console.print()


def _printable(text: str) -> str:
    """Names and values come from the cluster: control characters of a terminal stay out."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
