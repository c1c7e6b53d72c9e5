"""Messages of a topic: search, live tail, one record with its neighbours, and a form that writes records."""

from __future__ import annotations

import json
import shlex
from urllib.parse import urlencode

from starlette.requests import Request

from ...cli.client.errors import NOT_FOUND, CommandError, Misused
from ..actions import Done, required, whole
from ..actions import Form as Fields
from ..backend import Backend
from ..cluster.records import FORMS, MOST_SHOWN, Found, Query, Record
from ..cluster.sending import Outgoing, send
from ..views.formats import number, numbers, size, when
from ..views.parts import Code, Facts, Field, Form, Link, Page, Part, Table, Text
from .paging import number_of, path_to

_MOST_CHARACTERS, _MOST_WHOLE_CHARACTERS = 400, 1_000_000
#: Records before and after one record.
_NEIGHBOURS = 3
_TAIL_S = 1
#: Partitions without a leader that a page names.
_MOST_UNREAD = 5


def query_of(request: Request) -> Query:
    given = request.query_params
    partition = number_of(request, "partition", -1)
    limit = number_of(request, "limit", 50)
    if not 1 <= limit <= MOST_SHOWN:
        raise Misused(f"limit must be from 1 to {MOST_SHOWN}")
    names = ("key", "value", "header", "where", "key_form", "value_form")
    texts = {name: given[name].strip() for name in names if given.get(name, "").strip()}
    start = given.get("from", "").strip() or "-50"
    return Query(request.path_params["topic"], None if partition < 0 else partition, start, limit, **texts)


def messages(backend: Backend, request: Request) -> Page:
    query = query_of(request)
    title = f"Messages of {query.topic}"
    if "tail" in request.query_params:
        return _tail(backend, request, query, title)
    found = backend.records.read(query)
    words = (
        f"{len(found.records)} shown of {number(found.scanned)} read in {found.seconds:.1f} s, "
        f"to {found.ended}. Long keys and values are cut: open the offset to see all."
    )
    parts: list[Part] = [Text(words), *unread(query.topic, found), _table(found.records)]
    return Page(title, parts, "/topics", above=_above(request, query), below=[_writing(query)])


def unread(topic: str, found: Found) -> list[Part]:
    """Names offsets that partitions do not have, partitions that were not read, and the brokers that could lead them."""
    notes = [f"{line[0].upper()}{line[1:]}." for line in found.notes]
    notes += [
        f"{topic}-{partition} has no leader that answers: start one of the brokers {numbers(replicas)}."
        for partition, replicas in list(found.leaderless.items())[:_MOST_UNREAD]
    ]
    return [Text(note, "bad") for note in notes]


def _above(request: Request, query: Query) -> list[Part]:
    given = {name: value for name, value in request.query_params.items() if name not in ("tail", "from")}
    tail = f"{request.url.path}?{urlencode({**given, 'tail': 'new'})}"
    links = Facts(
        "",
        [
            ("Topic", Link(query.topic, path_to("topics", query.topic))),
            ("Live", Link("follow new records", tail)),
            ("Command line", _command(query)),
        ],
    )
    fields = [
        Field("from", "From", query.start, hint="beginning, end, offset, -N, @TIME, -1h"),
        Field(
            "partition",
            "Partition",
            "" if query.partition is None else str(query.partition),
            "number",
            hint="empty: all",
        ),
        Field("limit", "At most", str(query.limit), "number"),
        Field("key", "Key matches", query.key, hint="regular expression"),
        Field("value", "Value matches", query.value, hint="regular expression"),
        Field("header", "Header", query.header, hint="NAME or NAME=EXPRESSION"),
        Field("where", "JSON filter", query.where, hint="@.total > 10 && @.paid"),
        Field("key_form", "Keys are", query.key_form, "select", FORMS),
        Field("value_form", "Values are", query.value_form, "select", FORMS),
    ]
    return [links, Form("Search", request.url.path, fields, "Search", method="get", folded=False)]


def _command(query: Query) -> str:
    words = ["odradek", "consume", query.topic, "-o", query.start]
    words += ["-p", str(query.partition)] if query.partition is not None else []
    for option, value in (("--key", query.key), ("--value", query.value), ("--where", query.where)):
        words += [option, value] if value else []
    return shlex.join(words)


def _table(records: list[Record]) -> Table:
    rows = [
        (
            when(one.timestamp_ms),
            one.partition,
            Link(str(one.offset), path_to("topics", one.topic, "messages", one.partition, one.offset)),
            cut(one.key),
            cut(one.value),
            ", ".join(f"{name}={cut(value, 60)}" for name, value in one.headers),
        )
        for one in records
    ]
    return Table(
        "Records", ("Time (UTC)", "Partition", "Offset", "Key", "Value", "Headers"), rows, "No record matches."
    )


def cut(text: str | None, most: int = _MOST_CHARACTERS) -> str:
    if text is None:
        return "null"
    return text if len(text) <= most else f"{text[:most]}…"


def _tail(backend: Backend, request: Request, query: Query, title: str) -> Page:
    """The first request opens the tail, those of the browser's timer read it: `tail` is its name."""
    name = request.query_params["tail"]
    given = dict(request.query_params)
    if name == "new":
        name = backend.tails.begin(query)
    records = backend.tails.read(name)
    live = f"{request.url.path}?{urlencode({**given, 'tail': name})}"
    above: list[Part] = [
        Text("New records appear at the top while this page is open."),
        Facts("", [("Stop", Link("back to the search", path_to("topics", query.topic, "messages")))]),
    ]
    page = Page(
        title, [_table(records[::-1])], "/topics", live=live, live_s=_TAIL_S, above=above, below=[_writing(query)]
    )
    page.prepends = True
    return page


def record(backend: Backend, request: Request) -> Page:
    """One record, whole, with those around it in its partition."""
    topic, partition, offset = (request.path_params[name] for name in ("topic", "partition", "offset"))
    first = max(0, offset - _NEIGHBOURS)
    query = Query(
        topic, partition, str(first), 2 * _NEIGHBOURS + 1, value_form=request.query_params.get("value_form", "auto")
    )
    read = backend.records.read(query)
    if read.leaderless:
        return Page(f"Record {topic}-{partition} at {offset}", unread(topic, read), "/topics")
    found = [one for one in read.records if abs(one.offset - offset) <= _NEIGHBOURS]
    chosen = next((one for one in found if one.offset == offset), None)
    if chosen is None:
        raise CommandError(f"{topic}-{partition} has no record with offset {offset}", NOT_FOUND)
    facts = Facts(
        "",
        [
            ("Topic", Link(topic, path_to("topics", topic))),
            ("Partition", partition),
            ("Offset", offset),
            ("Time (UTC)", when(chosen.timestamp_ms)),
            ("Size", size(chosen.bytes)),
            ("Key", cut(chosen.key)),
        ],
    )
    line = f"odradek consume {shlex.quote(topic)} -p {partition} -o {offset} --count 1 --output json"
    headers = Table("Headers", ("Name", "Value"), [list(one) for one in chosen.headers], "No headers.")
    parts: list[Part] = [
        facts,
        Code("Value", _pretty(chosen)),
        headers,
        Code("As JSON", chosen.as_json()[:_MOST_WHOLE_CHARACTERS]),
        Code("On the command line", line),
        _neighbours(found, offset),
    ]
    return Page(f"Record {topic}-{partition} at {offset}", parts, "/topics")


def _pretty(one: Record) -> str:
    text = "null" if one.value is None else one.value
    if isinstance(one.document, dict | list):
        text = json.dumps(one.document, indent=2, ensure_ascii=False, default=str)
    return text[:_MOST_WHOLE_CHARACTERS]


def _neighbours(found: list[Record], offset: int) -> Table:
    table = _table(sorted((one for one in found if one.offset != offset), key=lambda one: one.offset))
    table.title, table.empty = "Neighbours", "The partition has no other record."
    return table


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
    headers = _headers(form.get("headers", ""))
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
