"""One record: whole, on a page with those around it in its partition, or in place below its row of a list."""

from __future__ import annotations

import shlex

from starlette.requests import Request

from ...cli.client.errors import NOT_FOUND, CommandError
from ..backend import Backend
from ..cluster.decoding import AUTO
from ..cluster.records import OLDEST, Query, Record
from ..views.documents import hex_dump, tree
from ..views.formats import size
from ..views.parts import Code, Facts, Link, Moment, Page, Part, Table, Text, Tree
from ..views.texts import escaped, json_text
from .messages import cut, records_table, unread
from .paging import path_to

_MOST_CHARACTERS = 1_000_000
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
        Code("As JSON", chosen.as_json()[:_MOST_CHARACTERS]),
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
        return [Tree(title, tree(document), json_text(document, indent=2)[:_MOST_CHARACTERS])]
    return [Code(title, "null" if text is None else text[:_MOST_CHARACTERS])]


def _raw(one: Record) -> list[Part]:
    """The bytes as they were written, where no masks hide a part of them."""
    if one.raw is None:
        return [Text("The bytes are not shown: this console masks fields.")]
    key, value = one.raw
    made: list[Part] = []
    if value is not None:
        text = value.decode(errors="backslashreplace")[:_MOST_CHARACTERS]
        made += [Code("Raw value", escaped(text), True)]
        made += [Code("Value in hex", hex_dump(value), True)]
    return [*made, Code("Key in hex", hex_dump(key), True)] if key else made


def _neighbours(found: list[Record], offset: int) -> Table:
    table = records_table(sorted((one for one in found if one.offset != offset), key=lambda one: one.offset), [])
    table.title, table.empty = "Neighbours", "The partition has no other record."
    return table
