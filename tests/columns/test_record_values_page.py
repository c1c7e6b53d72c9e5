"""The tables of docs/specialists/record-values.md: limits, timestamps and JSON values are those of the page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from odradek.archive.rows import RawRows
from odradek.columns import Inference, ValueSchema, inference, scan
from odradek.columns import scan as scan_module_function
from odradek.columns.json_decoder import JsonDecoder
from odradek.columns.json_text_decoder import JsonTextDecoder
from odradek.protocol.records.record import Record
from odradek.query.scans import _FIRST_MS, _LAST_MS
from odradek.records import json_parsing

from tests.columns.harness.logs import GeneratedLog
from tests.columns.harness.schema_types import CASES

PAGE = (Path(__file__).parents[2] / "docs/specialists/record-values.md").read_text(encoding="utf-8")
STRUCT = pa.struct([("id", pa.int64()), ("a", pa.float64()), ("s", pa.string()), ("d", pa.decimal128(38, 10))])


def table(head: str) -> list[list[str]]:
    """The rows of the page's table whose first column has this head."""
    lines = PAGE.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith(f"| {head} |"))
    found = []
    for line in lines[at + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split(" | ")])
    assert len(found) > 3
    return found


def unquoted(cell: str) -> str:
    return re.sub(r"^`(.*)`$", r"\1", cell)


LIMITS, STAMPS, VALUES = table("limit"), table("milliseconds"), table("value")


@pytest.mark.parametrize("row", LIMITS, ids=lambda row: unquoted(row[0]))
def test_limits_are_those_of_the_page(row: list[str]) -> None:
    import sys

    modules: list[Any] = [json_parsing, inference, sys.modules[scan_module_function.__module__]]
    (found,) = {getattr(one, unquoted(row[0])) for one in modules if hasattr(one, unquoted(row[0]))}
    assert found == int(row[1])


@pytest.mark.parametrize("row", STAMPS, ids=lambda row: row[0])
def test_timestamps_are_shown_as_the_page_has_them(tmp_path: Path, row: list[str]) -> None:
    from odradek.spark.options import parse
    from odradek.spark.rows import records
    from pyspark.sql.types import StructField, StructType, TimestampType

    stamp, shown, queried, archived, by_spark = int(row[0]), *row[1:]
    made = GeneratedLog(tmp_path, 1)
    made.append([Record(0, stamp, None, b"v", [])])
    found = scan(made.topic_path)
    (stamps,) = (batch.column("timestamp").cast(pa.int64()).to_pylist() for batch in found)
    assert stamps == [None if shown == "null" else stamp]
    dated = found.with_dates(_FIRST_MS, _LAST_MS).to_table().column("timestamp").cast(pa.int64()).to_pylist()
    assert dated == [None if queried == "null" else stamp]
    (batch,) = scan(made.topic_path, columns=[*RawRows.columns])
    rows = RawRows().rows(batch)
    if archived == "dead letter":
        assert row[0] in rows.dead_letter_records.column("reason")[0].as_py()
    else:
        stored = rows.rows.column("timestamp").cast(pa.int64()).to_pylist()
        assert stored == [None if archived == "null" else stamp * 1000]
    options = parse({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"})
    schema = StructType([StructField("timestamp", TimestampType())])
    (spark,) = (one for split in found.splits for one in records(split, options, schema))
    expected = {"null": None, "itself": stamp * 1000}.get(by_spark, -1000)
    assert spark.column(0).cast(pa.int64()).to_pylist() == [expected]


@pytest.mark.parametrize("row", VALUES, ids=lambda row: row[0])
def test_json_values_are_read_as_the_page_has_them(row: list[str]) -> None:
    text, as_text, as_struct = unquoted(row[0]), row[1], unquoted(row[2])
    values = pa.array([text.encode(), b'{"id": 5}'], pa.binary())
    plain = JsonTextDecoder().decode(values)
    if as_text == "same":
        assert plain.values[0].as_py() == text and not plain.bad
    else:
        assert plain.bad == [0] and as_text.removeprefix("error: ") in plain.reasons[0]
    typed = JsonDecoder(STRUCT).decode(values)
    assert typed.values[1].as_py()["id"] == 5
    if as_struct.startswith("error: "):
        assert typed.bad == [0] and as_struct.removeprefix("error: ") in typed.reasons[0]
    else:
        found = typed.values[0].as_py()
        expected = json.loads(as_struct)
        assert not typed.bad and (found is None) == (expected is None)
        if found is not None:
            kept = {name: str(one) if name == "d" else one for name, one in found.items() if one is not None}
            assert kept == expected


def test_types_of_the_page_are_inferred() -> None:
    rows = {row[0]: row[1] for row in table("values of a field")}
    samples: dict[str, list[Any]] = {
        "booleans": [True, None], "integers of 64 bits": [-1, (1 << 63) - 1],
        "larger integers, of up to 38 digits": [1, 1 << 64], "fractions, and integers that doubles have exactly": [1, 1.5],
        "text; null in all values; anything mixed": ["x", 1], "objects": [{"x": 1}], "arrays": [[1]],
    }  # fmt: skip
    assert rows.keys() == samples.keys()
    for words, values in samples.items():
        found = Inference.of(pa.array([json.dumps({"f": one}).encode() for one in values])).type.field(0).type
        assert str(found).partition("<")[0].replace(" ", "") == unquoted(rows[words]).replace(" ", "")
    assert ValueSchema("json").is_free_json


@pytest.mark.parametrize(
    ("form", "head"), [("avro", "Avro type"), ("protobuf", "Protobuf type"), ("json", "JSON Schema")]
)
def test_columns_of_the_page_are_those_of_the_types(form: str, head: str) -> None:
    """Each row of the page has a case (test_schema_types.py reads it in a scan), and each case has a row."""
    rows = {row[0]: row[1] for row in table(head)}
    cases = CASES[form]
    assert rows.keys() == {case.row for case in cases}
    for name, cell in rows.items():
        columns = [str(case.column) for case in cases if case.row == name]
        if cell.startswith("`"):
            assert any(one.startswith(unquoted(cell)) for one in columns), (name, cell, columns)
