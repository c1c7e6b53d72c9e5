"""Messages of a topic: search, live tail, a form that writes records, and the page of one record.

A record is shown whole, on a page with those around it in its partition, or in place below its row of a list.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from ...cli.client.errors import NOT_FOUND, CommandError, Misused
from ..actions import Done, required, whole
from ..actions import Form as Fields
from ..backend import Backend
from ..cluster.decoding import AUTO
from ..cluster.records import NEWEST, OLDEST, Query, Record
from ..cluster.search import MOST_SECONDS, SLICE_SECONDS, Found, edges_text
from ..cluster.sending import Outgoing, send
from ..views.documents import field_of, hex_dump, paths_of, tree
from ..views.formats import escaped, json_text, number, numbers, size
from ..views.parts import (
    Bar,
    Cell,
    Code,
    Facts,
    Field,
    Form,
    Link,
    Moment,
    Page,
    Pages,
    Part,
    Progress,
    Table,
    Text,
    Tree,
)
from .downloads import FORMATS, download
from .paging import number_of, path_to
from .searching import address_of, columns_of, query_of, reversed_query, search_form

if TYPE_CHECKING:
    from ...cli.records.consumed import ProducedHeaders


_MOST_CHARACTERS = 400
_TAIL_S = 1
#: Partitions without a leader that a page names, and of which it shows where a search continues.
_MOST_UNREAD, _MOST_EDGES = 5, 1000


def messages(backend: Backend, request: Request) -> Page | Response:
    topic = request.path_params["topic"]
    title = f"Messages of {topic}"
    try:
        query = query_of(request)
        if "download" in request.query_params:
            return download(backend, request, query)
        if "tail" in request.query_params:
            return _tail(backend, request, query, title)
        if "slice" in request.query_params:
            return _slice(backend, request, query, title)
        return _search(backend, request, query, title)
    except Misused as error:
        form = search_form(request, None, [])
        return Page(title, [Text(str(error), "bad")], "/topics", above=[form], status=400)


def _search(backend: Backend, request: Request, query: Query, title: str) -> Page:
    is_back = "back" in request.query_params
    found = _read(backend, reversed_query(query) if is_back else query)
    if is_back:
        found.records.reverse()
    table = records_table(found.records, columns_of(request))
    table.grows = query.has_filter and bool(found.edges)
    progress = _progress(request, query, found, found.scanned, len(found.records), found.total)
    pages = _pages(request, query, found, is_back=is_back)
    if progress.next:
        pages.after = ""  # "Continue" leads there
    parts: list[Part] = [progress, *unread(query.topic, found), table, pages]
    return Page(title, parts, "/topics", above=_above(request, query, found), below=_below(query))


def _slice(backend: Backend, request: Request, query: Query, title: str) -> Page:
    """The next slice of a search: rows for the table's end, and the progress."""
    shown, read, took, total = (max(0, number_of(request, name, 0)) for name in ("shown", "read", "took", "total"))
    found = _read(backend, dataclasses.replace(query, limit=max(1, query.limit - shown)))
    found.seconds += took / 1000
    shown, read = shown + len(found.records), read + found.scanned
    table = records_table(found.records, columns_of(request))
    progress = _progress(request, query, found, read, shown, total)
    pages = _pages(request, query, found, is_back=False)
    pages.before = ""  # the page began before this slice
    if progress.next:
        pages.after = ""
    parts: list[Part] = [progress, table, pages]
    return Page(title, parts, "/topics", fragment="slice.html")


def _read(backend: Backend, query: Query) -> Found:
    return backend.records.read(query, SLICE_SECONDS if query.has_filter else MOST_SECONDS)


def _progress(request: Request, query: Query, found: Found, read: int, shown: int, total: int) -> Progress:
    words = f"{shown} shown of {number(read)} read in {found.seconds:.1f} s, to {found.ended}."
    is_full = shown >= query.limit
    if not found.edges or is_full or "back" in request.query_params:
        return Progress(0, 0, words)
    more = {
        "at": edges_text(found.edges),
        "slice": 1,
        "shown": shown,
        "read": read,
        "took": round(found.seconds * 1000),
        "total": total,
    }
    positions = list(found.edges.items())[:_MOST_EDGES]
    return Progress(
        total - found.left,
        total,
        words,
        address_of(request, **more),
        address_of(request, at=edges_text(found.edges)),
        positions,
    )


def _pages(request: Request, query: Query, found: Found, *, is_back: bool) -> Pages:
    """Links to the pages before and after this one, whose edges are those of the search."""
    first, last = (found.edges, found.begun) if is_back else (found.begun, found.edges)
    has_before = bool(first) and (is_back or bool(query.edges))
    before = address_of(request, at=edges_text(first), back=1) if has_before else ""
    after = address_of(request, at=edges_text(last)) if last else ""
    words = ("Newer", "Older") if query.order == NEWEST else ("Earlier", "Later")
    return Pages("", before, after, *words)


def unread(topic: str, found: Found) -> list[Part]:
    """Names offsets that partitions do not have, partitions that were not read, and the brokers that could lead them."""
    notes = [f"{line[0].upper()}{line[1:]}." for line in found.notes]
    notes += [
        f"{topic}-{partition} has no leader that responds: start one of the brokers {numbers(replicas)}."
        for partition, replicas in list(found.leaderless.items())[:_MOST_UNREAD]
    ]
    return [Text(note, "bad") for note in notes]


def _above(request: Request, query: Query, found: Found) -> list[Part]:
    kept = address_of(request)
    downloads = [Link(form, address_of(request, download=form.lower())) for form in FORMATS]
    bar = Bar(
        [
            Link(f"Topic {query.topic}", path_to("topics", query.topic)),
            Link("Follow new records", f"{kept}{'&' if '?' in kept else '?'}tail=new"),
            ["Download", *downloads],
        ]
    )
    return [bar, search_form(request, query, paths_of(one.document for one in found.records))]


def _below(query: Query) -> list[Part]:
    return [_writing(query), Code("On the command line", command(query))]


def command(query: Query) -> str:
    """`odradek consume` with the same records, in the order of the log."""
    reads_all = query.has_filter or query.until or query.order != NEWEST
    start = query.start or ("beginning" if reads_all else f"-{query.limit}")
    words = ["odradek", "consume", query.topic, "-o", start]
    words += ["-p", str(query.partition)] if query.partition is not None else []
    options = (("--until", query.until), ("--key", query.key), ("--value", query.value), ("--where", query.where))
    for option, value in options:
        words += [option, value] if value else []
    return shlex.join(words)


def records_table(records: list[Record], columns: list[str]) -> Table:
    """The value stands in one column, or in one for each of the fields in `columns`."""
    rows: list[Sequence[Cell]] = []
    opens = []
    for one in records:
        at = path_to("topics", one.topic, "messages", one.partition, one.offset)
        values = [cut(found) if (found := field_of(one.document, path)) is not None else "" for path in columns]
        rows.append(
            (
                Moment(one.timestamp_ms),
                one.partition,
                Link(str(one.offset), at),
                cut(one.key),
                *(values or [cut(one.value)]),
                ", ".join(f"{name}={cut(value, 60)}" for name, value in one.headers),
            )
        )
        opens.append(at)
    titles = ("Time (UTC)", "Partition", "Offset", "Key", *(columns or ["Value"]), "Headers")
    return Table("Records", titles, rows, "No record matches.", opens=opens)


def cut(text: str | None, most: int = _MOST_CHARACTERS) -> str:
    if text is None:
        return "null"
    return text if len(text) <= most else f"{text[:most]}…"


def _tail(backend: Backend, request: Request, query: Query, title: str) -> Page:
    """The first request opens the tail, those of the browser's timer read it: `tail` is its name."""
    name = request.query_params["tail"]
    if name == "new":
        name = backend.tails.begin(query)
    records = backend.tails.read(name)
    kept = address_of(request)
    live = f"{kept}{'&' if '?' in kept else '?'}{urlencode({'tail': name})}"
    above: list[Part] = [
        Text("New records appear at the top while this page is open."),
        Bar([Link("Stop: back to the search", kept)]),
    ]
    table = records_table(records[::-1], columns_of(request))
    page = Page(title, [table], "/topics", live=live, live_s=_TAIL_S, above=above, below=_below(query))
    page.prepends = True
    return page


def _writing(query: Query) -> Form:
    fields = [
        Field("key", "Key", hint="empty: none"),
        Field("value", "Value", kind="area"),
        Field("null", "Null value (a tombstone)", kind="check"),
        Field("headers", "Headers", kind="area", hint="one NAME=VALUE per line"),
        Field("partition", "Partition", kind="number", hint="empty: by the key"),
    ]
    return Form("Write a record", path_to("topics", query.topic, "messages"), fields, "Write")


def produce(backend: Backend, form: Fields) -> Done:
    topic = required(form, "topic")
    headers: ProducedHeaders = [*_headers(form.get("headers", ""))]
    key = form.get("key", "")
    # Browsers send line breaks of forms as CR LF.
    value = None if form.get("null") else form.get("value", "").replace("\r\n", "\n").encode()
    one = Outgoing(topic, value, key.encode() if key else None, whole(form, "partition", -1), headers)
    ((_, partition, offset),) = send(backend.connection, [one])
    return Done(
        f"Written to {topic}-{partition} at offset {offset}.", path_to("topics", topic, "messages", partition, offset)
    )


def _headers(text: str) -> list[tuple[str, bytes | None]]:
    headers: list[tuple[str, bytes | None]] = []
    for line in text.splitlines():
        if line.strip():
            name, equals, value = line.strip().partition("=")
            if not equals:
                raise Misused("headers: one NAME=VALUE per line")
            headers.append((name, value.encode()))
    return headers


# ---- one record

_MOST_SHOWN_CHARACTERS = 1_000_000
#: Records before and after one record.
_NEIGHBOURS = 3


def record(backend: Backend, request: Request) -> Page:
    topic, partition, offset = (request.path_params[name] for name in ("topic", "partition", "offset"))
    in_place = request.headers.get("hx-request") == "true"
    key_form, value_form = (request.query_params.get(name) or AUTO for name in ("key_form", "value_form"))
    around = 0 if in_place else _NEIGHBOURS
    first = max(0, offset - around)
    query = Query(topic, partition, str(first), 2 * around + 1, order=OLDEST, key_form=key_form, value_form=value_form)
    read = backend.records.read(query)
    title = f"Record {topic}-{partition} at {offset}"
    if read.leaderless:
        return Page(title, unread(topic, read), "/topics", fragment="row.html")
    found = [one for one in read.records if abs(one.offset - offset) <= around]
    chosen = next((one for one in found if one.offset == offset), None)
    if chosen is None:
        raise CommandError(f"{topic}-{partition} has no record with offset {offset}", NOT_FOUND)
    if in_place:
        return Page(title, _contents(chosen), "/topics", fragment="row.html")
    line = f"odradek consume {shlex.quote(topic)} -p {partition} -o {offset} --count 1 --output json"
    parts: list[Part] = [
        *_contents(chosen),
        Code("As JSON", chosen.as_json()[:_MOST_SHOWN_CHARACTERS]),
        Code("On the command line", line),
        _neighbours(found, offset),
    ]
    return Page(title, parts, "/topics")


def _contents(one: Record) -> list[Part]:
    facts = Facts(
        "",
        [
            ("Topic", Link(one.topic, path_to("topics", one.topic))),
            ("Partition", one.partition),
            ("Offset", Link(str(one.offset), path_to("topics", one.topic, "messages", one.partition, one.offset))),
            ("Time in UTC", _utc(one)),
            ("Time in your zone", Moment(one.timestamp_ms, is_local=True)),
            ("Size", size(one.bytes)),
            ("Value is", one.form),
            ("Key", cut(one.key)),
        ],
    )
    headers = Table("Headers", ("Name", "Value"), [list(pair) for pair in one.headers], "No headers.")
    headers.id = f"headers-{one.partition}-{one.offset}"
    return [facts, *_content("Value", one.value, one.document), headers, *_raw(one)]


def _utc(one: Record) -> Moment:
    return Moment(one.timestamp_ms, is_utc=True)


def _content(title: str, text: str | None, document: object) -> list[Part]:
    if isinstance(document, dict | list):
        return [Tree(title, tree(document), json_text(document, indent=2)[:_MOST_SHOWN_CHARACTERS])]
    return [Code(title, "null" if text is None else text[:_MOST_SHOWN_CHARACTERS])]


def _raw(one: Record) -> list[Part]:
    """The bytes as they were written, where no masks hide a part of them."""
    if one.raw is None:
        return [Text("The bytes are not shown: this console masks fields.")]
    key, value = one.raw
    made: list[Part] = []
    if value is not None:
        text = value.decode(errors="backslashreplace")[:_MOST_SHOWN_CHARACTERS]
        made += [Code("Raw value", escaped(text), True)]
        made += [Code("Value in hex", hex_dump(value), True)]
    return [*made, Code("Key in hex", hex_dump(key), True)] if key else made


def _neighbours(found: list[Record], offset: int) -> Table:
    table = records_table(sorted((one for one in found if one.offset != offset), key=lambda one: one.offset), [])
    table.title, table.empty = "Neighbours", "The partition has no other record."
    return table
