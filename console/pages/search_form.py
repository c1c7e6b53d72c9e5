"""The search of the messages page: its form, the query that the address has, and the address of a query."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta, tzinfo
from urllib.parse import urlencode
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from starlette.requests import Request

from ...client.user_errors import Misused
from ..addresses import here, number_of
from ..cluster.decoding import AUTO, FORMS
from ..cluster.edges import edges_of
from ..cluster.query import NEWEST, OLDEST, ORDERS, Query, position_of
from ..cluster.record_reader import MOST_SHOWN
from ..parts import Chips, Field, Form, Link
from ..whole_numbers import MOST_INT32

#: Time ranges to choose: what the address has, and words.
RANGES = {
    "": "all times",
    "-5m": "last 5 minutes",
    "-1h": "last hour",
    "-24h": "last 24 hours",
    "-7d": "last 7 days",
    "today": "today",
    "yesterday": "yesterday",
    "between": "between two times",
}
#: Columns of fields at most.
MOST_COLUMNS = 20
_TEXTS = ("key", "value", "header", "where", "key_form", "value_form")
#: Parameters of one request of a search, which its form and its links leave out.
_OF_A_SLICE = ("at", "back", "slice", "shown", "read", "took", "total", "tail", "download")
#: Parameters that a search shows as chips, and the words before their values.
_CHIPS = {
    "key": "key",
    "value": "value",
    "header": "header",
    "where": "JSON",
    "range": "",
    "after": "from",
    "before": "to",
    "from": "from",
    "until": "until",
    "partition": "partition",
    "order": "order",
    "limit": "at most",
    "key_form": "keys are",
    "value_form": "values are",
}
#: Values that a form sends where its viewer has chosen nothing.
_PLAIN = {"order": NEWEST, "limit": "50", "key_form": AUTO, "value_form": AUTO}


def query_of(request: Request) -> Query:
    """Raises Misused for a parameter that is none."""
    given = request.query_params
    partition = number_of(request, "partition", -1, MOST_INT32)
    limit = number_of(request, "limit", 50)
    if not 1 <= limit <= MOST_SHOWN:
        raise Misused(f"limit must be from 1 to {MOST_SHOWN}")
    order = given.get("order") or _natural_order(given.get("from", "").strip())
    if order not in ORDERS:
        raise Misused(f"order must be {' or '.join(ORDERS)}")
    start, until = _range_of(request)
    position_of(start), position_of(until)
    texts = {name: given.get(name, "").strip() for name in _TEXTS}
    return Query(
        request.path_params["topic"],
        None if partition < 0 else partition,
        start,
        limit,
        until,
        order,
        edges_of(given.get("at", "")),
        texts["key"],
        texts["value"],
        texts["header"],
        texts["where"],
        texts["key_form"] or AUTO,
        texts["value_form"] or AUTO,
    )


def _natural_order(start: str) -> str:
    """A link to an offset or to the beginning reads on from there."""
    return OLDEST if start.isdecimal() or start in ("beginning", "earliest") else NEWEST


def _range_of(request: Request) -> tuple[str, str]:
    """The positions of `from` and `until`, else of the two times, else of the chosen range."""
    given = request.query_params
    start, until = given.get("from", "").strip(), given.get("until", "").strip()
    if start or until:
        return start, until
    after, before = given.get("after", ""), given.get("before", "")
    if after or before:
        zone = _zone(given.get("zone", ""))
        return _position(after, zone), _position(before, zone)
    chosen = given.get("range", "")
    if chosen in ("today", "yesterday"):
        midnight = datetime.now(_zone(given.get("zone", ""))).replace(hour=0, minute=0, second=0, microsecond=0)
        day_before = (midnight - timedelta(hours=12)).replace(hour=0)
        return (_at(midnight), "") if chosen == "today" else (_at(day_before), _at(midnight))
    if chosen not in RANGES:
        raise Misused(f"range must be one of {', '.join(name for name in RANGES if name)}")
    return ("" if chosen == "between" else chosen), ""


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name) if name and name != "UTC" else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Misused(f"{name[:40]!r} is not a time zone") from None


def _position(text: str, zone: tzinfo) -> str:
    if not text:
        return ""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Misused(f"{text[:40]!r} is not a time such as 2026-01-31T12:00") from None
    return _at(found if found.tzinfo is not None else found.replace(tzinfo=zone))


def _at(moment: datetime) -> str:
    return f"@{int(moment.timestamp() * 1000)}"


def columns_of(request: Request) -> list[str]:
    chosen = [one.strip() for one in request.query_params.getlist("column") if one.strip()]
    return list(dict.fromkeys(chosen))[:MOST_COLUMNS]


def search_form(request: Request, query: Query | None, paths: list[str]) -> Form:
    """The form with what was typed. `query` is None where it was refused. `paths`: fields of the records that are shown."""
    given = request.query_params
    order = query.order if query is not None else given.get("order", NEWEST)
    chosen = columns_of(request)
    line = [
        Field("key", "Key matches", given.get("key", ""), hint="regular expression"),
        Field("value", "Value matches", given.get("value", ""), hint="regular expression"),
        Field("range", "Time", given.get("range", ""), "select", tuple(RANGES), labels=RANGES),
        Field("partition", "Partition", given.get("partition", ""), "number", hint="all"),
        Field("order", "Order", order, "select", ORDERS, labels={NEWEST: "newest first", OLDEST: "oldest first"}),
        Field("zone", "", given.get("zone", ""), "hidden"),
        *([Field("tail", "", "new", "hidden")] if "tail" in given else []),
    ]
    more = [
        Field("after", "From the time", given.get("after", ""), "time", hint="in your zone"),
        Field("before", "To the time", given.get("before", ""), "time"),
        Field("from", "From", given.get("from", ""), hint="beginning, end, offset, -N, @TIME, -1h"),
        Field("until", "Until", given.get("until", ""), hint="offset, @TIME, -1h"),
        Field("limit", "At most", given.get("limit", "") or "50", "number"),
        Field("header", "Header", given.get("header", ""), hint="NAME or NAME=EXPRESSION"),
        Field("where", "JSON filter", given.get("where", ""), hint="@.total > 10 && @.paid"),
        Field("key_form", "Keys are", given.get("key_form", "") or AUTO, "select", FORMS),
        Field("value_form", "Values are", given.get("value_form", "") or AUTO, "select", FORMS),
        *_column_fields(chosen, paths),
    ]
    return Form(
        "", here(request), line, "Search", method="get", folded=False, more=more, more_title="More", is_line=True
    )


def _column_fields(chosen: list[str], paths: list[str]) -> list[Field]:
    options = list(dict.fromkeys([*chosen, *paths]))
    if not options:
        return []
    return [Field("column", "Columns from fields of the values", "\n".join(chosen), "checks", options)]


def address_of(request: Request, **more: object) -> str:
    """The page's search with other parameters; None leaves one out."""
    kept = [
        (name, value)
        for name, value in request.query_params.multi_items()
        if name not in _OF_A_SLICE and name not in more and value
    ]
    kept += [(name, str(value)) for name, value in more.items() if value is not None]
    return f"{here(request)}?{urlencode(kept)}" if kept else here(request)


def reversed_query(query: Query) -> Query:
    """The same search in the other direction: for the page before."""
    return dataclasses.replace(query, order=OLDEST if query.order == NEWEST else NEWEST)


def chips_of(request: Request) -> Chips:
    """The filters that are set, each with a link that removes it."""
    kept = {"tail": "new"} if "tail" in request.query_params else {}
    chips = []
    for name, words in _CHIPS.items():
        value = request.query_params.get(name, "").strip()
        if value and value != _PLAIN.get(name):
            shown = RANGES.get(value, value) if name == "range" else value
            chips.append(Link(f"{words} {shown}".strip(), address_of(request, **{name: None}, **kept)))
    bare = f"{here(request)}{'?tail=new' if kept else ''}"
    return Chips(chips, bare if len(chips) > 1 else "")
