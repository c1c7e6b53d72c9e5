"""The order and the filter of a table, which the address of a page has.

The address of a page has `sort=TABLE.COLUMN`, `desc=yes` and `filter-TABLE=TEXT` for any table. The server sorts and cuts
long lists itself (pages/long_lists.py): `q=TEXT` searches one, `page=N` is a page of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from urllib.parse import urlencode

from .formats import Figure
from .parts import Badge, Cell, Drawing, Form, Link, Moment, Snippet, Table

#: A table of fewer rows has no field to filter it: they are seen at once.
FILTER_FROM = 5
_MOST_FILTER = 200
#: The cells of a row, and the address that it opens.
Row = tuple[Sequence[Cell], str]
_NAME = re.compile(r"[^a-z0-9]+")
#: Texts that sort as numbers, exactly.
_NUMBER = re.compile(r"-?[0-9]{1,4000}(\.[0-9]{1,4000})?")


@dataclass(slots=True)
class Heading:
    """`href`: the page sorted by the column, "" where it is not sortable. `sorted`: none, ascending or descending."""

    name: str
    href: str
    sorted: str


@dataclass(slots=True)
class Arranged:
    """A table as the page shows it. `count`: words beside its title. `more`: rows that the page does not have, which a
    script adds to those that it counts. `hidden`: the address's other parameters.
    """

    id: str
    headings: list[Heading]
    rows: list[Sequence[Cell]]
    opens: list[str]
    count: str
    more: int
    filter_name: str
    filter_text: str
    hidden: list[tuple[str, str]]
    has_filter: bool


def arranged(table: Table, given: list[tuple[str, str]], path: str) -> Arranged:
    """`given` are the parameters of the page's address, and `path` is it."""
    name = id_of(table)
    known = dict(given)
    filter_name = f"filter-{name}"
    text = known.get(filter_name, "")[:_MOST_FILTER]
    column, descending = sorting(known, name)
    rows = list(zip(table.rows, table.opens or [""] * len(table.rows), strict=True))
    if not table.is_paged:
        rows = _sorted(_filtered(rows, text), table, column, descending)
    whole = len(table.rows) if table.of is None else table.of
    shown = len(rows)
    count = "" if table.is_paged or not table.title else (f"{shown} of {whole}" if shown != whole else str(whole))
    return Arranged(
        name,
        [_heading(table, one, name, column, given, path, descending=descending) for one in table.columns],
        [row for row, _ in rows],
        [href for _, href in rows],
        count,
        whole - shown,
        filter_name,
        text,
        [pair for pair in given if pair[0] != filter_name],
        not table.is_paged and (len(table.rows) >= FILTER_FROM or bool(text)),
    )


def id_of(table: Table) -> str:
    return table.id or _NAME.sub("-", table.title.lower()).strip("-") or "list"


def sorting(known: Mapping[str, str], name: str) -> tuple[str, bool]:
    """The column by which a table is sorted, "" for none, and whether from the largest to the smallest."""
    table, _, column = known.get("sort", "").partition(".")
    return (column, known.get("desc") == "yes") if table == name else ("", False)


def _heading(
    table: Table, column: str, name: str, by: str, given: list[tuple[str, str]], path: str, *, descending: bool
) -> Heading:
    is_sortable = bool(column) and (table.sortable is None or column in table.sortable)
    if not is_sortable or (len(table.rows) < 2 and by != column):
        return Heading(column, "", "none")
    kept = [pair for pair in given if pair[0] not in ("sort", "desc", "page")]
    # Numbers begin with the largest; a second click turns the order.
    turns = not descending if by == column else _is_numeric(table, column)
    kept += [("sort", f"{name}.{column}"), *([("desc", "yes")] if turns else [])]
    state = ("descending" if descending else "ascending") if by == column else "none"
    return Heading(column, f"{path}?{urlencode(kept)}#{name}", state)


def _is_numeric(table: Table, column: str) -> bool:
    index = list(table.columns).index(column)
    return any(sort_key(row[index])[0] == 0 for row in table.rows[:3])


def _filtered(rows: list[Row], text: str) -> list[Row]:
    wanted = text.lower()
    return [one for one in rows if any(wanted in text_of(cell).lower() for cell in one[0])] if wanted else rows


def _sorted(rows: list[Row], table: Table, column: str, descending: bool) -> list[Row]:
    if column not in table.columns:
        return rows
    index = list(table.columns).index(column)
    present = [one for one in rows if sort_key(one[0][index])[0] < 2]
    missing = [one for one in rows if sort_key(one[0][index])[0] == 2]
    return sorted(present, key=lambda one: sort_key(one[0][index]), reverse=descending) + missing


def text_of(cell: Cell) -> str:
    if isinstance(cell, Link | Badge | Drawing | Snippet):
        return cell.text
    if isinstance(cell, list | tuple):
        return " ".join(map(text_of, cell))
    if isinstance(cell, Form):
        return " ".join(one.value for one in cell.fields)
    return "" if cell is None else str(cell)


def sort_key(cell: Cell) -> tuple[int, float | Decimal, str]:
    """Numbers before texts; a cell without a value is last in both orders."""
    if isinstance(cell, Moment):
        return (0, float(cell.timestamp_ms), "")
    if isinstance(cell, Figure):
        return (2, 0.0, "") if cell.value is None else (0, float(cell.value), "")
    if isinstance(cell, int | float):
        return (0, cell, "")
    text = text_of(cell).strip()
    if not text or text == "\N{EN DASH}":
        return (2, 0.0, "")
    plain = text.replace("\N{NARROW NO-BREAK SPACE}", "")
    return (0, Decimal(plain), "") if _NUMBER.fullmatch(plain) else (1, 0.0, text.lower())
