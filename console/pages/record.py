"""The page of one record: all of it, with those around it in its partition; or in place below its row of a list."""

from __future__ import annotations

import contextlib
import re
import shlex
from urllib.parse import urlencode

from starlette.requests import Request

from ...client.error_kinds import ErrorKind
from ...client.user_errors import UserError
from ..addresses import number_in, path_to
from ..backend import Backend
from ..budgets import Budget
from ..cluster.decoding import AUTO
from ..cluster.query import OLDEST, Query
from ..cluster.records import Record
from ..documents import indented
from ..formats import size
from ..hex_dumps import hex_dump
from ..parts import Code, Copies, Facts, Link, Moment, Page, Part, Table, Text, Tree
from ..texts import escaped, json_text
from ..trees import tree
from ..whole_numbers import MOST_INT32, MOST_INT64
from .messages import records_table, text_cell, unread
from .producing import sending_again

_MOST_SHOWN_CHARACTERS = 1_000_000
#: Characters of a key beside the other facts; a longer one has a place of its own.
_MOST_KEY = 60
#: Records before and after one record.
_NEIGHBOURS = 3


def record(backend: Backend, request: Request, budget: Budget) -> Page:
    topic = request.path_params["topic"]
    partition, offset = number_in(request, "partition", MOST_INT32), number_in(request, "offset", MOST_INT64)
    in_place = request.headers.get("hx-request") == "true"
    key_form, value_form = (request.query_params.get(name) or AUTO for name in ("key_form", "value_form"))
    around = 0 if in_place else _NEIGHBOURS
    first = max(0, offset - around)
    query = Query(topic, partition, str(first), 2 * around + 1, order=OLDEST, key_form=key_form, value_form=value_form)
    result = backend.records.read(query, budget)
    title = f"Record {partition}:{offset}"
    crumbs = (Link("Topics", "/topics"), Link(topic, path_to("topics", topic, "messages")))
    if result.leaderless:
        return Page(title, unread(topic, result), "/topics", fragment="row.html", crumbs=crumbs)
    found = [one for one in result.records if abs(one.offset - offset) <= around]
    chosen = next((one for one in found if one.offset == offset), None)
    if chosen is None:
        raise UserError(f"{topic}-{partition} has no record with offset {offset}", ErrorKind.NOT_FOUND)
    if in_place:
        return Page(title, _contents(backend, chosen, in_place=True), "/topics", fragment="row.html")
    parts: list[Part] = [*_contents(backend, chosen, in_place=False), _neighbours(found, offset)]
    again = sending_again(backend, chosen)
    return Page(title, parts, "/topics", crumbs=crumbs, below=[again] if again is not None else [])


def _command(backend: Backend, record: Record) -> str:
    words = ["odradek", "consume", record.topic, "-p", str(record.partition), "-o", str(record.offset), "--count", "1"]
    return shlex.join([*words, "--output", "json", *backend.command_options])


def _copies(backend: Backend, record: Record, *, in_place: bool) -> Copies:
    """The value, the whole record as JSON, and the command that reads it; and what else can be done with the record."""
    texts = [("Copy value", _value_text(record))] if record.value is not None else []
    texts += [("Copy as JSON", record.as_json()[:_MOST_SHOWN_CHARACTERS]), ("Copy command", _command(backend, record))]
    at = path_to("topics", record.topic, "messages", record.partition, record.offset)
    links = [Link("Open with its neighbours", at)] if in_place else []
    if in_place and sending_again(backend, record) is not None:
        links.append(Link("Edit and send again", f"{at}#do-edit-and-send-again"))
    if record.key:
        same = f"{path_to('topics', record.topic, 'messages')}?{urlencode({'key': _exactly(record.key)})}"
        links.append(Link("All records of this key", same))
    return Copies(texts, links)


def _exactly(text: str) -> str:
    """An expression of RE2 for this text alone."""
    return f"^{re.sub(r'([^A-Za-z0-9_-])', _escaped_character, text[:200])}{'$' if len(text) <= 200 else ''}"


def _escaped_character(match: re.Match[str]) -> str:
    return f"\\{match[1]}" if match[1].isascii() else match[1]


def _value_text(record: Record) -> str:
    text = _json_of(record) if isinstance(record.document, dict | list) else record.value or ""
    return text[:_MOST_SHOWN_CHARACTERS]


def _contents(backend: Backend, record: Record, *, in_place: bool) -> list[Part]:
    facts = Facts(
        "",
        [
            ("Topic", Link(record.topic, path_to("topics", record.topic, "messages"))),
            ("Partition", record.partition),
            (
                "Offset",
                Link(str(record.offset), path_to("topics", record.topic, "messages", record.partition, record.offset)),
            ),
            ("Time in UTC", _utc(record)),
            ("Time in your zone", Moment(record.timestamp_ms, is_local=True)),
            ("Size", size(record.bytes)),
            ("Value is", record.form),
            ("Key", text_cell(record.key, _MOST_KEY)),
        ],
    )
    key = [Code("Key", record.key[:_MOST_SHOWN_CHARACTERS])] if record.key and len(record.key) > _MOST_KEY else []
    headers = Table(
        "Headers",
        ("Name", "Value"),
        [(name, text_cell(value, _MOST_SHOWN_CHARACTERS)) for name, value in record.headers],
        "No headers.",
    )
    headers.id = f"headers-{record.partition}-{record.offset}"
    return [
        _copies(backend, record, in_place=in_place),
        facts,
        *key,
        *_content("Value", record),
        headers,
        *_raw(record),
    ]


def _utc(record: Record) -> Moment:
    return Moment(record.timestamp_ms, is_utc=True)


def _content(title: str, record: Record) -> list[Part]:
    if isinstance(record.document, dict | list):
        return [Tree(title, tree(record.document), _json_of(record)[:_MOST_SHOWN_CHARACTERS])]
    if not record.value:
        return [Facts(title, [("", text_cell(record.value))])]
    return [Code(title, record.value[:_MOST_SHOWN_CHARACTERS])]


def _json_of(record: Record) -> str:
    """The document as it was written, with line breaks; the masked one where masks hide a part of it."""
    if record.raw is not None and record.raw.value is not None and record.form == "json":
        with contextlib.suppress(UnicodeDecodeError):
            return escaped(indented(record.raw.value.decode("utf-8-sig")))
    return json_text(record.document, indent=2)


def _raw(record: Record) -> list[Part]:
    """The bytes as they were written, where no masks hide a part of them."""
    if record.raw is None:
        return [Text("The bytes are not shown: this console masks fields.")]
    key, value = record.raw.key, record.raw.value
    made: list[Part] = []
    if value:
        text = value.decode(errors="backslashreplace")[:_MOST_SHOWN_CHARACTERS]
        made += [Code("Raw value", escaped(text), True)]
        made += [Code("Value in hex", hex_dump(value), True)]
    return [*made, Code("Key in hex", hex_dump(key), True)] if key else made


def _neighbours(records: list[Record], offset: int) -> Table:
    table = records_table(sorted((one for one in records if one.offset != offset), key=lambda one: one.offset), [])
    table.title, table.empty = "Neighbours", "The partition has no other record."
    return table
