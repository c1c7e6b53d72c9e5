"""Records on pages and in files: nulls, empty texts, the text null, bytes and numbers are what their producer wrote."""

from __future__ import annotations

import asyncio
import base64
import csv
import html
import io
import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import odradek
import pyarrow.parquet as parquet
import pytest
from odradek.admin.connection import Connection
from odradek.console.application import application
from odradek.console.backend import Backend
from odradek.console.pages.downloads import FORMATS
from odradek.console.settings import Settings
from odradek.console.table_order import sort_key

from tests.hostile.harness.console_requests import Reply, ask

pytestmark = pytest.mark.usefixtures("sockets")

KINDS: tuple[bytes | None, ...] = (None, b"", b"null")
EXACT = '{"a":1,"a":2,"p":1.10,"n":9007199254740993,"d":0.1000000000000000055511151231257827,"e":1E400,"z":-0}'
FORMULAS = ("=1+1", "+1", "-1+2", "@SUM(A1)", "\t=1")


@pytest.fixture(scope="module")
def app() -> Iterator[Any]:
    with odradek.Broker() as broker:
        for key, value, header in itertools.product(KINDS, KINDS, KINDS):
            broker.topic("kinds").send(value, key=key, headers=[("h", header)])
        broker.topic("exact").send(EXACT.encode(), b"\xff\xfe", b'{"n":9007199254740992}', b'{"n":9007199254740994}')
        for text in FORMULAS:
            broker.topic("formulas").send(text.encode(), key=text.encode())
        yield application(Backend(Connection({"bootstrap.servers": broker.bootstrap_servers}), Settings()))


def get(app: Any, address: str) -> Reply:
    reply = asyncio.run(ask(app, "GET", address))
    assert reply.status == 200, (address, reply)
    return reply


def expected() -> list[tuple[bytes | None, bytes | None, bytes | None]]:
    return list(itertools.product(KINDS, KINDS, KINDS))


def cells_of(page: str) -> list[list[str]]:
    """The cells of the list of records, with their marks."""
    rows = re.split(r"<tr[ >]", page[page.index('id="records-rows"') :].split("</tbody>")[0])[1:]
    return [re.findall(r"<td data-label=[^>]*>(.*?)</td>", row) for row in rows]


def test_null_empty_and_the_text_null_look_different_in_lists_and_records(app: Any) -> None:
    rows = cells_of(get(app, "/topics/kinds/messages?limit=100&order=oldest").body.decode())
    shown = [(row[3], row[4], row[5]) for row in rows]
    assert len(set(shown)) == len(expected()) == len(shown)
    contents = []
    for offset in range(len(expected())):
        page = get(app, f"/topics/kinds/messages/0/{offset}").body.decode()
        parts = re.sub(
            r"[Oo]ffset.{0,200}|\d\d:\d\d:\d\d\.\d+|/0/\d+|headers-0-\d+| at \d+|-o \d+",
            "",
            page.split("Neighbours")[0],
        )
        contents.append(re.sub(r'(datetime|value|nonce)="[^"]*"', "", parts))
    assert len(set(contents)) == len(contents)


def test_null_empty_and_the_text_null_are_apart_in_json(app: Any) -> None:
    found = json.loads(get(app, "/topics/kinds/messages?download=json").body)
    texts = {None: None, b"": "", b"null": "null"}
    assert [(one["key"], one["value"], one["headers"][0]["value"]) for one in found] == [
        tuple(texts[kind] for kind in kinds) for kinds in expected()
    ]


def test_null_empty_and_the_text_null_are_apart_in_parquet(app: Any) -> None:
    found = parquet.read_table(io.BytesIO(get(app, "/topics/kinds/messages?download=parquet").body)).to_pylist()
    assert [(one["key"], one["value"], one["headers"][0]["value"]) for one in found] == expected()


def rows_of(reply: Reply) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(reply.body.decode(), newline="")))


def bytes_of(row: dict[str, str], name: str) -> bytes | None:
    form = row[f"{name}_form"]
    return (
        None if form == "null" else base64.b64decode(row[f"{name}_base64"]) if form == "base64" else row[name].encode()
    )


def test_null_empty_and_the_text_null_are_apart_in_csv(app: Any) -> None:
    found = [
        (
            bytes_of(row, "key"),
            bytes_of(row, "value"),
            json.loads(row["headers"])[0]["value"],
        )
        for row in rows_of(get(app, "/topics/kinds/messages?download=csv"))
    ]
    assert found == [(key, value, None if one is None else one.decode()) for key, value, one in expected()]
    lines = get(app, "/topics/kinds/messages?download=csv").body.decode().splitlines()
    assert all(
        line.split(",")[4:6] == [{None: "", b"": '""', b"null": "null"}[one] for one in kinds[:2]]
        for line, kinds in zip(lines[1:], expected(), strict=True)
    )


def test_numbers_and_repeated_fields_stay_as_they_were_written(app: Any) -> None:
    page = html.unescape(get(app, "/topics/exact/messages/0/0").body.decode())
    numbers = ("1.10", "9007199254740993", "0.1000000000000000055511151231257827", "1E400", "-0")
    assert all(f"{number}" in page for number in numbers)
    indented = "{\n  " + ",\n  ".join(part.replace(":", ": ") for part in EXACT[1:-1].split(",")) + "\n}"
    assert indented in page and EXACT in page
    compact = re.sub(r"\s", "", get(app, "/topics/exact/messages?download=json").body.decode())
    assert f'"value":{EXACT}' in compact
    rows = rows_of(get(app, "/topics/exact/messages?download=csv"))
    assert rows[0]["value"].replace(" ", "") == EXACT and rows[0]["value_form"] == "json"
    assert bytes_of(rows[1], "value") == b"\xff\xfe" and rows[1]["value"] == ""
    table = parquet.read_table(io.BytesIO(get(app, "/topics/exact/messages?download=parquet").body)).to_pylist()
    assert table[0]["value"].decode().replace(" ", "") == EXACT and table[1]["value"] == b"\xff\xfe"
    (field,) = (row[4] for row in cells_of(get(app, "/topics/exact/messages?column=n&from=0&until=1").body.decode()))
    assert re.sub("<[^>]*>", "", field) == "9007199254740993"


def test_filter_compares_integers_beyond_2_to_the_53_by_fields(app: Any) -> None:
    page = get(app, "/topics/exact/messages?order=oldest&value=9007199254740993").body.decode()
    assert "1 shown of 4 read" in page


def test_lists_sort_integers_beyond_2_to_the_53_and_decimals() -> None:
    texts = ["9007199254740993", "9007199254740992", "10.25", "-3", "9007199254740994"]
    assert sorted(texts, key=sort_key) == ["-3", "10.25", "9007199254740992", "9007199254740993", "9007199254740994"]
    assert sort_key("7" * 5000)[0] == 1


def test_formulas_are_warned_about_and_escaped_by_choice(app: Any) -> None:
    page = html.unescape(get(app, "/topics/formulas/messages").body.decode())
    assert "which a spreadsheet runs as formulas" in page and all(words in page for words in FORMATS)
    assert "which a spreadsheet runs" not in get(app, "/topics/kinds/messages").body.decode()
    plain = [row["value"] for row in rows_of(get(app, "/topics/formulas/messages?download=csv"))]
    escaped = [row["value"] for row in rows_of(get(app, "/topics/formulas/messages?download=csv-escaped"))]
    assert plain == list(FORMULAS) and escaped == [f"'{text}" for text in FORMULAS]
    assert [row["key"] for row in rows_of(get(app, "/topics/formulas/messages?download=csv-escaped"))] == escaped
