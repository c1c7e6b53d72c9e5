"""Keys and values that `consume` decodes and writes: null, bytes, numbers and times keep what they are."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odradek.admin.connection import Connection
from odradek.admin.positions import timestamp_ms
from odradek.cli.main import main
from odradek.cli.records.consume_command import _kept
from odradek.client.user_errors import Misused
from odradek.records.content_decoder import UndecodableContent, decoder
from odradek.records.filters import filters_of
from odradek.records.formats import Coding, Form
from odradek.records.parquet import parquet_rows
from odradek.records.writing import CSV_COLUMNS, JsonArray, JsonLines, writer_of

from tests.harness.examples import examples

#: Names of headers have no half of a surrogate pair: librdkafka has them as UTF-8.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
CONTENTS = st.none() | st.binary(max_size=12) | TEXTS.map(str.encode)


class Message:
    """A record as confluent-kafka has it."""

    def __init__(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp: tuple[int, int] = (1, 5),
        offset: int = 0,
        headers: Any = (),
    ) -> None:
        self._parts = (key, value, timestamp, offset, list(headers))

    def topic(self) -> str:
        return "orders"

    def partition(self) -> int:
        return 3

    def key(self) -> bytes | None:
        return self._parts[0]

    def value(self) -> bytes | None:
        return self._parts[1]

    def timestamp(self) -> tuple[int, int]:
        return self._parts[2]

    def offset(self) -> int:
        return self._parts[3]

    def headers(self) -> Any:
        return self._parts[4]


def written(form: str, messages: list[Message]) -> bytes:
    out = io.BytesIO()
    writer = writer_of(form, None, out)
    writer.write(messages, [one.key() for one in messages], [one.value() for one in messages])
    writer.end()
    return out.getvalue()


@given(contents=st.lists(st.tuples(CONTENTS, CONTENTS), max_size=6))
@settings(max_examples=examples(100), deadline=None)
def test_csv_has_null_empty_text_and_bytes(contents: list[tuple[bytes | None, bytes | None]]) -> None:
    text = written("csv", [Message(*one) for one in contents]).decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert len(rows) == len(contents) and text.splitlines()[0] == ",".join(CSV_COLUMNS)
    for row, one in zip(rows, contents, strict=True):
        for name, content in zip(("key", "value"), one, strict=True):
            encoded = row[f"{name}_base64"]
            if content is None or encoded:
                assert row[name] == ""
            else:
                assert row[name].encode() == content


#: Texts that a spreadsheet runs, and others that begin alike.
FORMULAS = st.tuples(st.sampled_from("=+-@\t\r"), st.text(max_size=5)).map("".join)


@given(contents=st.lists(st.tuples(CONTENTS | FORMULAS.map(str.encode), CONTENTS), max_size=6))
@settings(max_examples=examples(100), deadline=None)
def test_escaped_csv_has_no_cell_that_a_spreadsheet_runs_and_loses_nothing(
    contents: list[tuple[bytes | None, bytes | None]],
) -> None:
    messages = [Message(*one) for one in contents]
    plain, escaped = (
        list(csv.reader(io.StringIO(written(form, messages).decode(errors="surrogatepass"), newline="")))
        for form in ("csv", "csv-escaped")
    )
    for row, other in zip(plain, escaped, strict=True):
        for cell, shown in zip(row, other, strict=True):
            is_number = cell.startswith("-") and cell[1:].replace(".", "", 1).isdecimal()
            assert shown in (cell, f"'{cell}")
            assert not shown.startswith(("=", "+", "-", "@", "\t", "\r")) or is_number


def test_help_of_consume_warns_of_formulas(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["consume", "--help"]) == 0
    words = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "formulas" in words and "csv-escaped" in words


def test_csv_is_read_by_duckdb_with_its_nulls(tmp_path: Path) -> None:
    keys: list[bytes | None] = [None, b"", b"a", b"\xff", b'x"y,\n', b"NULL", b"\\xff", b" "]
    (tmp_path / "t.csv").write_bytes(written("csv", [Message(one, b"v") for one in keys]))
    sql = f"select key, key_base64 from read_csv('{tmp_path}/t.csv', all_varchar = true, allow_quoted_nulls = false)"
    rows = duckdb.sql(sql).fetchall()
    texts = [None if one in (None, b"\xff") else one.decode() for one in keys]
    assert [row[0] for row in rows] == texts and rows[3][1] == "/w=="


@pytest.mark.parametrize(
    ("stamp", "shown"),
    [
        ((0, -1), None),
        ((1, -1), None),
        ((1, -5), -5),
        ((1, -(1 << 63)), -(1 << 63)),
        ((2, (1 << 63) - 1), (1 << 63) - 1),
    ],
)
def test_parquet_has_negative_and_far_timestamps(tmp_path: Path, stamp: tuple[int, int], shown: int | None) -> None:
    (tmp_path / "t.parquet").write_bytes(written("parquet", [Message(b"k", b"v", stamp)]))
    found = pyarrow.parquet.read_table(tmp_path / "t.parquet").column("timestamp")
    assert found.cast(pa.int64()).to_pylist() == [shown]
    assert [row["timestamp"] for row in parquet_rows(tmp_path / "t.parquet")] == [shown]


@pytest.mark.parametrize("kind", [JsonLines, JsonArray])
def test_numbers_that_json_has_not_are_text(kind: type[JsonLines]) -> None:
    out = io.BytesIO()
    writer = kind(out)
    contents: list[object] = [math.inf, -math.inf, math.nan, {"a": [math.inf]}, "\ud800", {"b": "\ud800"}]
    writer.write([Message(None, b"")] * len(contents), [None] * len(contents), contents)
    writer.end()

    def refuse(word: str) -> None:
        raise AssertionError(word)

    text = out.getvalue().decode()
    found = json.loads(text if kind is JsonArray else "[" + ",".join(text.splitlines()) + "]", parse_constant=refuse)
    values = [one["value"] for one in found]
    assert values == ["Infinity", "-Infinity", "NaN", {"a": ["Infinity"]}, "\ud800", {"b": "\ud800"}]


def test_a_record_that_does_not_decode_is_named_behind_those_before_it() -> None:
    decode = decoder(Coding(Form.json), Connection({}))
    values = [b"1", b"[1]", b"{", b"2"]
    messages = [Message(None, one, offset=40 + at) for at, one in enumerate(values)]
    kept, examined, error = _kept(messages, (None, decode), [], None, None)
    assert [one.offset() for one in kept[0]] == [40, 41] and examined == 2 and error is not None
    assert str(error).startswith("orders-3: offset 42: the value does not decode") and "-p 3 -o 43" in str(error)
    _, examined, error = _kept(messages[2:3], (decode, decode), [], None, None)
    assert examined == 0 and error is not None


@given(data=st.binary(max_size=40), form=st.sampled_from([Form.json, Form.hex, Form.base64, Form.int32, Form.double]))
@settings(max_examples=examples(200), deadline=None)
def test_bytes_of_any_kind_decode_or_are_undecodable(data: bytes, form: Form) -> None:
    decode = decoder(Coding(form), Connection({}))
    assert decode is not None
    try:
        decode(data, "t")
    except UndecodableContent as error:
        assert "a record of t is not" in str(error)


@pytest.mark.parametrize("data", [b"[" * 100_000, b"NaN", b'{"a": Infinity}', b"1e400", b"9" * 5000, b'{"a":1'])
def test_json_beyond_its_limits_is_undecodable_or_exact(data: bytes) -> None:
    decode = decoder(Coding(Form.json), Connection({}))
    assert decode is not None
    try:
        assert json.dumps(decode(data, "t"))
    except UndecodableContent:
        return
    assert data.isdigit()


@given(number=st.integers(-(1 << 70), 1 << 70))
@settings(max_examples=examples(100), deadline=None)
def test_filters_compare_integers_exactly(number: int) -> None:
    (passes,) = filters_of(None, None, (), [f"@.id == {number}"])
    found = [passes(Message(None, None), None, b'{"id": %d}' % (number + at)) for at in (-1, 0, 1)]
    assert found == [False, True, False]


def test_filter_with_a_number_beyond_doubles_is_a_mistake() -> None:
    with pytest.raises(Misused, match="is not a JSONPath expression"):
        filters_of(None, None, (), ["@.id == " + "9" * 500])


@given(at=st.integers(-62_135_596_800_000, 253_402_300_799_999))
@settings(max_examples=examples(100), deadline=None)
def test_times_are_exact_to_the_millisecond(at: int) -> None:
    import datetime

    moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(milliseconds=at)
    assert timestamp_ms(moment.isoformat()) == at == timestamp_ms(str(at))


@pytest.mark.parametrize("where", ["$..p", "@..p", "$..x..p", "@.a contains 1", "length(@.a) > @.b"])
def test_a_document_that_an_expression_does_not_fit_is_no_match_and_ends_nothing(where: str) -> None:
    (passes,) = filters_of(None, None, (), [where])
    deep = '{"x":' * 198 + '{"p":1}' + "}" * 198
    for document in ("[" * 200 + "]" * 200, '{"a":"text","b":[]}', "5", '{"a":{"b":1}}'):
        assert not passes(Message(b"", b""), None, document)
    assert passes(Message(b"", b""), None, deep) == ("p" in where)
