"""Long lists: a page of rows, sorted and searched over all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar, Union
from urllib.parse import urlencode

from starlette.requests import Request

from ..addresses import here, number_of
from ..parts import Cell, Field, Form, Pages, Table
from ..table_order import sorting

if TYPE_CHECKING:
    from _typeshed import SupportsRichComparison

ROWS = 50
LIST = "list"
_MOST_SEARCH = 200
T = TypeVar("T")
#: A value of a column; None comes last.
SortKey = Union["SupportsRichComparison", None]


def paged(
    request: Request,
    rows: Sequence[T],
    name_of: Callable[[T], str],
    what: str,
    keys: Mapping[str, Callable[[T], SortKey]] = MappingProxyType({}),
) -> tuple[Sequence[T], Form, Pages]:
    """The rows of the page that `?q=` and `?page=` choose, the form of the search, and links to the other pages. `keys`:
    the columns by which `?sort=` sorts all rows; a key of None comes last.
    """
    query = request.query_params.get("q", "")[:_MOST_SEARCH]
    wanted = query.lower()
    found = [row for row in rows if wanted in name_of(row).lower()] if wanted else rows
    column, descending = sorting(request.query_params, LIST)
    if column in keys:
        found = _sorted_by(found, keys[column], descending=descending)
    page = min(number_of(request, "page", 0), max(0, len(found) - 1) // ROWS)
    chosen = found[page * ROWS : (page + 1) * ROWS]
    first = page * ROWS + 1 if chosen else 0
    words = f"{first}-{page * ROWS + len(chosen)} of {len(found)} {what}"
    before = _address(request, page - 1) if page else ""
    after = _address(request, page + 1) if (page + 1) * ROWS < len(found) else ""
    order = [
        Field(name, "", request.query_params[name], "hidden")
        for name in ("sort", "desc")
        if name in request.query_params
    ]
    search = Form(
        "",
        here(request),
        [Field("q", f"Search {what}", query), *order],
        "Search",
        method="get",
        folded=False,
        is_line=True,
    )
    return chosen, search, Pages(words, before, after)


def listed(columns: Sequence[str], rows: Sequence[Sequence[Cell]], empty: str, keys: Iterable[str]) -> Table:
    """The table of `paged` rows."""
    return Table("", columns, rows, empty, is_paged=True, sortable=tuple(keys), id=LIST)


def _sorted_by(rows: Sequence[T], key: Callable[[T], SortKey], *, descending: bool) -> list[T]:
    keyed = [(key(row), row) for row in rows]
    present = [(value, row) for value, row in keyed if value is not None]
    present.sort(key=lambda one: one[0], reverse=descending)
    return [row for _, row in present] + [row for value, row in keyed if value is None]


def _address(request: Request, page: int) -> str:
    kept = [pair for pair in request.query_params.multi_items() if pair[0] != "page"]
    return f"{here(request)}?{urlencode([*kept, ('page', str(page))])}"
