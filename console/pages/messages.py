"""Messages of a topic: search, its records as a file, and the live tail."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from ...client.user_errors import Misused
from ...records.writing import begins_formula
from ..access.sessions import FLASH_COOKIE
from ..addresses import number_of, path_to
from ..backend import Backend
from ..budgets import Budget
from ..cluster.edges import edges_text
from ..cluster.merge import MOST_SECONDS
from ..cluster.query import NEWEST, Query
from ..cluster.record_reader import SLICE_SECONDS
from ..cluster.records import Record
from ..cluster.search_result import SearchResult
from ..field_paths import MISSING, field_of, found_at, paths_of
from ..formats import number, numbers
from ..json_pieces import pieces_of
from ..parts import Badge, Bar, Cell, Code, Link, Moment, Page, Pages, Part, Progress, Snippet, Table, Text
from .described_topic import described
from .downloads import FORMATS, download
from .producing import writing
from .search_form import address_of, chips_of, columns_of, query_of, reversed_query, search_form
from .topic_head import MESSAGES, topic_page

_MOST_CHARACTERS = 400
#: Characters of a header in a list.
_MOST_HEADER = 60
_TAIL_S = 1
#: Partitions without a leader that a page names, and of which it shows where a search continues.
_MOST_UNREAD, _MOST_EDGES = 5, 1000
_FORMULAS = (
    "Keys or values begin with =, +, - or @, which a spreadsheet runs as formulas: download CSV for spreadsheets, where ' "
    "stands before them."
)
_BEHIND = "Records come faster than this page shows them: it is behind the end of the log. No record is left out."
NULL, EMPTY = Badge("null"), Badge("empty")


def messages(backend: Backend, request: Request, budget: Budget) -> Page | Response:
    topic = request.path_params["topic"]
    try:
        if FLASH_COOKIE in request.cookies:  # a broker may not have the metadata of a topic that was just made
            with backend.links.admin() as admin:
                described(admin, topic, is_new=True)
        query = query_of(request)
        if "download" in request.query_params:
            return download(backend, request, query, columns_of(request), budget)
        if "tail" in request.query_params:
            return _tail(backend, request, query, budget)
        if "slice" in request.query_params:
            return _slice(backend, request, query, budget)
        return _search(backend, request, query, budget)
    except Misused as error:
        form = search_form(request, None, [])
        page = topic_page(backend, topic, MESSAGES, [Text(str(error), "bad")])
        page.above, page.status = [form, chips_of(request)], 400
        return page


def _search(backend: Backend, request: Request, query: Query, budget: Budget) -> Page:
    is_back = "back" in request.query_params
    first = dataclasses.replace(query, is_first=not is_back)
    result = _read(backend, reversed_query(query) if is_back else first, budget)
    if is_back:
        result.records.reverse()
    table = records_table(result.records, columns_of(request))
    table.grows = query.has_filter and bool(result.edges)
    if not result.records and not table.grows:
        _explain_empty(request, query, table)
    progress = _progress(request, query, result, result.read, len(result.records), result.total)
    pages = _pages(request, query, result, is_back=is_back)
    if progress.next:
        pages.after = ""  # "Continue" leads there
    parts: list[Part] = [progress, *unread(query.topic, result), table, pages]
    page = topic_page(backend, query.topic, MESSAGES, parts)
    kept = address_of(request)
    downloads = [Link(words, address_of(request, download=name)) for words, name in FORMATS.items()]
    page.links = [Link("Live", f"{kept}{'&' if '?' in kept else '?'}tail=new")]
    page.above = _above(request, query, result)
    page.below = [Bar([["Download", *downloads]]), *_below(backend, query)]
    return page


def _explain_empty(request: Request, query: Query, table: Table) -> None:
    if chips_of(request).chips:
        table.empty = "No record matches these filters."
        table.next = [Link("Search all records", path_to("topics", query.topic, "messages"))]
    else:
        table.empty = "The topic has no records. Write one here, or let a producer write."


def _slice(backend: Backend, request: Request, query: Query, budget: Budget) -> Page:
    """The next slice of a search: rows for the table's end, and the progress."""
    shown, read, took, total = (number_of(request, name, 0) for name in ("shown", "read", "took", "total"))
    result = _read(backend, dataclasses.replace(query, limit=max(1, query.limit - shown)), budget)
    result.seconds += took / 1000
    shown, read = shown + len(result.records), read + result.read
    table = records_table(result.records, columns_of(request))
    progress = _progress(request, query, result, read, shown, total)
    pages = _pages(request, query, result, is_back=False)
    pages.before = ""  # the page began before this slice
    if progress.next:
        pages.after = ""
    parts: list[Part] = [progress, table, pages]
    return Page(query.topic, parts, "/topics", fragment="slice.html")


def _read(backend: Backend, query: Query, budget: Budget) -> SearchResult:
    return backend.records.read(query, budget, SLICE_SECONDS if query.has_filter else MOST_SECONDS)


def _progress(request: Request, query: Query, result: SearchResult, read: int, shown: int, total: int) -> Progress:
    words = f"{shown} shown of {number(read)} read in {result.seconds:.1f} s, to {result.ended}."
    is_full = shown >= query.limit
    if not result.edges or is_full or "back" in request.query_params:
        return Progress(0, 0, words)
    more = {
        "at": edges_text(result.edges),
        "slice": 1,
        "shown": shown,
        "read": read,
        "took": round(result.seconds * 1000),
        "total": total,
    }
    positions = list(result.edges.items())[:_MOST_EDGES]
    return Progress(
        total - result.left,
        total,
        words,
        address_of(request, **more),
        address_of(request, at=edges_text(result.edges)),
        positions,
    )


def _pages(request: Request, query: Query, result: SearchResult, *, is_back: bool) -> Pages:
    """Links to the pages before and after this one, whose edges are those of the search."""
    first, last = (result.edges, result.begun) if is_back else (result.begun, result.edges)
    has_before = bool(first) and (is_back or bool(query.edges))
    before = address_of(request, at=edges_text(first), back=1) if has_before else ""
    after = address_of(request, at=edges_text(last)) if last else ""
    words = ("Newer", "Older") if query.order == NEWEST else ("Earlier", "Later")
    return Pages("", before, after, *words)


def unread(topic: str, result: SearchResult) -> list[Part]:
    """Names offsets that partitions do not have, partitions that were not read, and the brokers that could lead them."""
    notes = [f"{line[0].upper()}{line[1:]}." for line in result.notes]
    notes += [
        f"{topic}-{partition} has no leader that responds: start one of the brokers {numbers(replicas)}."
        for partition, replicas in list(result.leaderless.items())[:_MOST_UNREAD]
    ]
    return [Text(note, "bad") for note in notes]


def _above(request: Request, query: Query, result: SearchResult) -> list[Part]:
    form = search_form(request, query, paths_of(one.document for one in result.records))
    warned = [Text(_FORMULAS, "warn")] if any(map(_has_formula, result.records)) else []
    return [form, chips_of(request), *warned]


def _has_formula(record: Record) -> bool:
    return any(begins_formula(text) for text in (record.key, record.value) if text is not None)


def _below(backend: Backend, query: Query) -> list[Part]:
    return [
        writing(backend, query.topic),
        Code("On the command line", command(query, backend.command_options)),
    ]


def command(query: Query, options: Sequence[str]) -> str:
    """`odradek consume` with the same records, in the order of the log."""
    reads_all = query.has_filter or query.until or query.order != NEWEST
    start = query.start or ("beginning" if reads_all else f"-{query.limit}")
    words = ["odradek", "consume", query.topic, "-o", start]
    words += ["-p", str(query.partition)] if query.partition is not None else []
    filters = (
        ("--until", query.until),
        ("--key", query.key),
        ("--value", query.value),
        ("--header", query.header),
        ("--where", query.where),
    )
    for option, value in filters:
        words += [option, value] if value else []
    return shlex.join([*words, *options])


def records_table(records: list[Record], columns: list[str]) -> Table:
    """The value stands in one column, or in one for each of the fields in `columns`."""
    rows: list[Sequence[Cell]] = []
    opens = []
    for one in records:
        at = path_to("topics", one.topic, "messages", one.partition, one.offset)
        values = [_field_cell(one.document, path) for path in columns]
        headers = [_header_cell(*pair) for pair in one.headers]
        place = (Moment(one.timestamp_ms), one.partition, Link(str(one.offset), at))
        rows.append((*place, text_cell(one.key), *(values or [text_cell(one.value)]), headers))
        opens.append(at)
    titles = ("Time (UTC)", "Partition", "Offset", "Key", *(columns or ["Value"]), "Headers")
    return Table("Records", titles, rows, "No record matches.", opens=opens, style="" if columns else "records")


def cut(text: str, most: int = _MOST_CHARACTERS) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def text_cell(text: str | None, most: int = _MOST_CHARACTERS) -> Cell:
    """A text of a record. A null and an empty text look different from the text `null`."""
    if not text:
        return NULL if text is None else EMPTY
    shown = cut(text, most)
    return Snippet(shown, pieces_of(shown))


def _field_cell(document: object, path: str) -> Cell:
    found = found_at(document, path)
    if found is MISSING:
        return ""
    return NULL if found is None else text_cell(field_of(document, path))


def _header_cell(name: str, value: str | None) -> Cell:
    return Snippet(f"{name}={cut(value, _MOST_HEADER)}") if value else [Snippet(f"{name}="), text_cell(value)]


def _tail(backend: Backend, request: Request, query: Query, budget: Budget) -> Page:
    """The first request opens the tail, those of the browser's timer read it: `tail` is its name."""
    name = request.query_params["tail"]
    if name == "new":
        name = backend.tails.begin(query)
    records, has_more = backend.tails.read(name, budget)
    kept = address_of(request)
    page = topic_page(backend, query.topic, MESSAGES, [records_table(records[::-1], columns_of(request))])
    page.live, page.live_s = f"{kept}{'&' if '?' in kept else '?'}{urlencode({'tail': name})}", _TAIL_S
    page.above = [
        search_form(request, query, paths_of(one.document for one in records)),
        chips_of(request),
        Bar(
            ["New records appear at the top while this page is open.", Link("Stop: back to the search", kept)],
            pauses=True,
        ),
    ]
    page.below = _below(backend, query)
    page.prepends = True
    page.behind = _BEHIND if has_more else ""
    return page
