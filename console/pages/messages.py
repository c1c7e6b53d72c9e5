"""Messages of a topic: search, its records as a file, live tail, a form that writes records, and the page of one record.

A record is shown whole, on a page with those around it in its partition, or in place below its row of a list.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import IO, TYPE_CHECKING, BinaryIO, cast
from urllib.parse import urlencode
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ...cli.client.errors import NOT_FOUND, CommandError, Misused
from ...cli.records.writing import writer_of
from ..actions import Done, required, whole
from ..actions import Form as Fields
from ..backend import Backend
from ..cluster.records import AUTO, FORMS, NEWEST, OLDEST, ORDERS, Outgoing, Query, Record, send
from ..cluster.search import MOST_SECONDS, MOST_SHOWN, SLICE_SECONDS, Found, edges_of, edges_text, position_of
from ..formats import escaped, field_of, hex_dump, json_text, number, numbers, paths_of, size, tree
from ..parts import Bar, Cell, Code, Facts, Field, Form, Link, Moment, Page, Pages, Part, Progress, Table, Text, Tree
from .lists import here, number_of, path_to

if TYPE_CHECKING:
    from ...cli.records.consumed import ProducedHeaders
    from ...cli.records.writing import Writer

# The search of the messages page: its form, the query that the address has, and the address of a query.


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


def query_of(request: Request) -> Query:
    """Raises Misused for a parameter that is none."""
    given = request.query_params
    partition = number_of(request, "partition", -1)
    limit = number_of(request, "limit", 50)
    if not 1 <= limit <= MOST_SHOWN:
        raise Misused(f"limit must be from 1 to {MOST_SHOWN}")
    order = given.get("order") or _natural_order(given.get("from", "").strip())
    if order not in ORDERS:
        raise Misused(f"order must be {' or '.join(ORDERS)}")
    start, until = _range_of(request)
    position_of(start), position_of(until)
    texts = {name: given[name].strip() for name in _TEXTS if given.get(name, "").strip()}
    return Query(
        request.path_params["topic"],
        None if partition < 0 else partition,
        start,
        limit,
        until,
        order,
        edges_of(given.get("at", "")),
        **texts,
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
        Field("value", "Value matches", given.get("value", ""), hint="regular expression"),
        Field("range", "Time", given.get("range", ""), "select", tuple(RANGES), labels=RANGES),
        Field("partition", "Partition", given.get("partition", ""), "number", hint="all"),
        Field("order", "Order", order, "select", ORDERS, labels={NEWEST: "newest first", OLDEST: "oldest first"}),
        Field("zone", "", given.get("zone", ""), "hidden"),
    ]
    more = [
        Field("after", "From the time", given.get("after", ""), "time", hint="in your zone"),
        Field("before", "To the time", given.get("before", ""), "time"),
        Field("from", "From", given.get("from", ""), hint="beginning, end, offset, -N, @TIME, -1h"),
        Field("until", "Until", given.get("until", ""), hint="offset, @TIME, -1h"),
        Field("limit", "At most", given.get("limit", "") or "50", "number"),
        Field("key", "Key matches", given.get("key", ""), hint="regular expression"),
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


# Records of a search as a file: JSON, CSV or Parquet, written by the command line's writers, with masks.


FORMATS = ("JSON", "CSV", "Parquet")
_TYPES = {"json": "application/json", "csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
#: Limits of a file. The name of one that reaches a limit has its number of records.
MOST_RECORDS, MOST_BYTES, _MOST_FILE_SECONDS = 100_000, 256 << 20, 60.0
#: A file of more bytes is on the disk until it is sent.
_MOST_IN_MEMORY, _CHUNK = 1 << 20, 256 << 10
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


class _Row:
    """A masked record as a message of the library, which writers take."""

    def __init__(self, one: Record) -> None:
        self._one = one

    def topic(self) -> str:
        return self._one.topic

    def partition(self) -> int:
        return self._one.partition

    def offset(self) -> int:
        return self._one.offset

    def key(self) -> bytes | None:
        return None if self._one.key is None else self._one.key.encode(errors="replace")

    def value(self) -> bytes | None:
        return None if self._one.value is None else self._one.value.encode(errors="replace")

    def timestamp(self) -> tuple[int, int]:
        return (1, self._one.timestamp_ms)

    def headers(self) -> list[tuple[str, bytes]]:
        return [(name, value.encode(errors="replace")) for name, value in self._one.headers]


def download(backend: Backend, request: Request, query: Query) -> Response:
    """All records of the search, in the order of the partitions' logs. With columns a value has these fields alone."""
    form = request.query_params["download"]
    if form not in _TYPES:
        raise Misused(f"download must be one of {', '.join(_TYPES)}")
    file = cast("IO[bytes]", tempfile.SpooledTemporaryFile(_MOST_IN_MEMORY))  # noqa: SIM115 - it is closed when it is sent
    try:
        count, is_whole = _written(backend, query, columns_of(request), form, file)
        length = file.tell()
        file.seek(0)
    except BaseException:
        file.close()
        raise
    part = "" if is_whole else f"-first-{count}"
    name = f"{_UNSAFE.sub('_', query.topic)}{part}.{form}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Length": str(length)}
    return StreamingResponse(_chunks(file), media_type=_TYPES[form], headers=headers)


def _written(backend: Backend, query: Query, columns: list[str], form: str, file: IO[bytes]) -> tuple[int, bool]:
    """Returns the number of records, and whether these are all."""
    try:
        writer = writer_of(form, None, cast("BinaryIO", file))
    except ImportError:
        raise CommandError("Parquet needs pyarrow where the console runs: pip install 'odradek[parquet]'") from None
    count, deadline, is_whole = 0, time.monotonic() + _MOST_FILE_SECONDS, True
    for batch in backend.records.batches(query):
        chosen = batch[: MOST_RECORDS - count]
        _write(writer, chosen, columns)
        count += len(chosen)
        if len(chosen) < len(batch) or file.tell() > MOST_BYTES or time.monotonic() > deadline:
            is_whole = False
            break
    writer.end()
    return count, is_whole


def _write(writer: Writer, records: Sequence[Record], columns: list[str]) -> None:
    values = [{path: field_of(one.document, path) for path in columns} if columns else one.document for one in records]
    writer.write([_Row(one) for one in records], [one.key_document for one in records], values)


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while chunk := file.read(_CHUNK):
            yield chunk


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
