"""Long lists: a search by text and pages of rows, on the server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import quote, unquote, urlencode

from starlette.requests import Request

from ...cli.client.errors import Misused
from ..views.parts import Field, Form, Pages

ROWS = 50
_MOST_SEARCH = 200
T = TypeVar("T")


def paged(
    request: Request, rows: Sequence[T], name_of: Callable[[T], str], what: str
) -> tuple[Sequence[T], Form, Pages]:
    """The rows of the page that `?q=` and `?page=` choose, the form of the search, and links to the other pages."""
    query = request.query_params.get("q", "")[:_MOST_SEARCH]
    wanted = query.lower()
    found = [row for row in rows if wanted in name_of(row).lower()] if wanted else rows
    page = max(0, number_of(request, "page", 0))
    chosen = found[page * ROWS : (page + 1) * ROWS]
    first = page * ROWS + 1 if chosen else 0
    words = f"{first}-{page * ROWS + len(chosen)} of {len(found)} {what}"
    before = _address(request, page - 1) if page else ""
    after = _address(request, page + 1) if (page + 1) * ROWS < len(found) else ""
    search = Form("", request.url.path, [Field("q", f"Search {what}", query)], "Search", method="get", folded=False)
    return chosen, search, Pages(words, before, after)


def _address(request: Request, page: int) -> str:
    kept = dict(request.query_params) | {"page": str(page)}
    return f"{request.url.path}?{urlencode(kept)}"


def number_of(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.lstrip("-").isdecimal() and len(text) <= 19):
        raise Misused(f"{name} must be a number, not {text[:40]!r}")
    return int(text)


def path_to(*names: object) -> str:
    """An address whose parts may hold any character. `name_in` reads them.

    Servers read %2F as a slash, and browsers read a part of dots as a folder: these are quoted twice.
    """
    return "".join(f"/{quote(_escaped(str(name)), safe='')}" for name in names)


def _escaped(name: str) -> str:
    escaped = name.replace("%", "%25").replace("/", "%2F")
    return escaped.replace(".", "%2E") if name in (".", "..") else escaped


def name_in(request: Request, key: str) -> str:
    """A part of the address that `path_to` made."""
    return unquote(request.path_params[key])
