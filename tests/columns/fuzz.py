"""Records of any kind, by any schema, through every command: each row is there, or its error names it.

`python -m tests.columns.fuzz --examples 5000` runs as many examples; test_fuzz.py runs some. An example is a log in a data
directory, a schema, and a use of it: a scan, a query, rows of a table, a consumer's formats, Spark's rows. A use ends with
rows, or with an error of Odradek's own; the rows are as many as the records.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odradek.admin.connection import Connection
from odradek.archive.rows import row_maker
from odradek.client.user_errors import UserError
from odradek.columns import INFER, SCHEMA, ScanDataset, ScanError, ValueSchema, scan
from odradek.protocol.records.record import Record
from odradek.records.content_decoder import decoder
from odradek.records.filters import filters_of
from odradek.records.formats import Coding, Form
from odradek.records.writing import writer_of

from compat_tests.cli.commands import odradek_command
from tests.columns.harness.logs import NOW_MS, GeneratedLog

STAMPS = st.sampled_from(
    [-(1 << 63), -62_135_596_800_001, -5, -1, 0, NOW_MS, 253_402_300_800_000, 10**18, (1 << 63) - 1]
)
NAMES = st.sampled_from(["id", "ID", "a", "", "\0", "a.b", 'q"', "größe", "value", "list", "x" * 300, "'"]) | st.text(
    max_size=3
)
LEAVES: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.sampled_from(
        [1, 1 << 53, (1 << 53) + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, -(1 << 63) - 1, 10**38, 10**400]
    )
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(
        ["1", "1.5", "nan", "true", "2024-01-02T03:04:05Z", "\ud800", " 7 ", "1_000", "99999-01-01T00:00:00Z"]
    )
)
JSON = st.recursive(
    LEAVES, lambda one: st.lists(one, max_size=3) | st.dictionaries(NAMES, one, max_size=4), max_leaves=8
)
DOCUMENTS = st.dictionaries(NAMES, JSON, max_size=5).map(json.dumps)
TEXTS = st.sampled_from(
    [
        "", "{", "null", "[]", "NaN", '{"id":1,}', '{"id":-Infinity}', '{"id":1e400}', '{"id":0.1234567890123456789}',
        '{"id":1,"id":"x"}', '{"a":1,"A":2}', '{"":1}', '{"id":"\\ud800"}', '{"a":' + "[" * 150 + "]" * 150 + "}",
        "[" * 3_000 + "]" * 3_000, "{" * 500, '{"id":' + "9" * 5_000 + "}", '\ufeff{"id":1}', '{"id":1} x', "'", '{"id":01}',
        json.dumps({f"f{at}": at for at in range(1_200)}), '{"id":00000001790000000000000001}', '{"id":1790000000000000001}',
    ]
)  # fmt: skip
VALUES = (
    st.none()
    | (DOCUMENTS | JSON.map(json.dumps) | TEXTS).map(lambda text: text.encode(errors="surrogatepass"))
    | st.binary(max_size=20)
    | st.binary(max_size=8).map(lambda rest: b"\0\0\0\0\x01" + rest)
)
RECORDS = st.lists(st.tuples(STAMPS, st.none() | st.binary(max_size=5), VALUES), min_size=1, max_size=8)
ARROW = pa.schema(
    [
        ("id", pa.int64()), ("a", pa.float64()), ("ID", pa.string()), ("größe", pa.list_(pa.int32())),
        ("value", pa.struct([("id", pa.decimal128(20, 2))])), ("list", pa.timestamp("ms", tz="UTC")), ("a.b", pa.bool_()),
    ]
)  # fmt: skip
PLAIN = pa.schema([field for field in ARROW if field.name not in ("ID",)])
AVRO = {
    "type": "record", "name": "Order", "fields": [
        {"name": "id", "type": ["null", "long"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "on", "type": {"type": "int", "logicalType": "date"}}, {"name": "a", "type": "string"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ],
}  # fmt: skip
fastavro.parse_schema(dict(AVRO))
SQL = (
    "select * from t", 'select "offset", timestamp from t', "select value from t", "select count(*), count(value) from t",
    "select timestamp from t where timestamp > '2024-01-01'", "select key, headers from t where \"offset\" >= 1",
    "select max(timestamp), min(timestamp) from t", "select * from \"t.undecodable\"",
)  # fmt: skip


@dataclass
class Example:
    """A log in a directory, and what was written to it."""

    directory: Path
    records: list[tuple[int, bytes | None, bytes | None]]
    schemas: dict[str, ValueSchema | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        made = GeneratedLog(self.directory, len(self.records))
        made.append([Record(at, *one, [("h", one[1])]) for at, one in enumerate(self.records)])
        made.close()
        self.source = made.topic_path
        avsc, schema = self.directory / "order.avsc", self.directory / "order.json"
        avsc.write_text(json.dumps(AVRO))
        schema.write_text(json.dumps({"properties": {"id": {"type": "integer"}, "a": {"type": "number"}, "x": {}}}))
        self.schemas = {
            "none": None, "json": ValueSchema("json"), "infer": ValueSchema("json", INFER),
            "arrow": ValueSchema("json", ARROW),
            "plain": ValueSchema("json", PLAIN), "file": ValueSchema("json", schema), "avro": ValueSchema("avro", avsc),
        }  # fmt: skip


def use_scan(example: Example, schema: str, latest: bool) -> None:
    found = scan(example.source, values=example.schemas[schema], latest_per_key=latest)
    table = found.to_table()
    table.validate(full=True)
    assert (
        table.num_rows
        == found.count()
        == ScanDataset(found).count_rows()
        == found.select(["offset"]).to_table().num_rows
    )
    if not latest:
        assert table.num_rows == len(example.records)
        assert table.column("timestamp").cast(pa.int64()).to_pylist() == [
            None if stamp == -1 else stamp for stamp, _, _ in example.records
        ]
    if example.schemas[schema] is not None:
        reasons = [one for one in table.column("value_error").to_pylist() if one is not None]
        assert sorted(reasons) == sorted(found.undecodable.column("reason").to_pylist()) and all(reasons)


def use_query(example: Example, schema: str, latest: bool) -> None:
    named = example.schemas[schema]
    words = ["--data-dir", str(example.directory), "-b", "127.0.0.1:1", *(["--latest-per-key"] if latest else [])]
    if named is not None:
        words += ["--value-format", named.format]
        words += ["--value-schema", str(named.schema)] if isinstance(named.schema, str | Path) else []
    for number, sql in enumerate(SQL):
        target = example.directory / "found"
        to_file = [[], ["--output", "jsonl"], ["--output", "csv"], ["--output", "parquet"]][number % 4]
        done = odradek_command("query", sql, *words, *to_file, *(["--file", str(target)] if to_file else []))
        is_raw = named is None and "undecodable" in sql
        assert done.status == (1 if is_raw else 0), (sql, done)
        assert "Traceback" not in done.err and done.err.count("\n") <= 3, (sql, done.err)
        if to_file == ["--output", "jsonl"]:
            for line in target.read_text().splitlines():
                json.loads(line, parse_constant=_refuse)


def use_archive(example: Example, schema: str, latest: bool) -> None:
    rows = row_maker(example.schemas[schema], "t", None, latest)
    batches = list(scan(example.source, columns=[one for one in SCHEMA.names if one != "topic"]))
    for batch in batches:
        rows.prepare(batch)
        made = rows.rows(batch)
        made.rows.validate(full=True)
        assert made.rows.num_rows + made.dead_letter_records.num_rows == batch.num_rows
        assert all(made.dead_letter_records.column("reason").to_pylist())


def use_consume(example: Example, schema: str, latest: bool) -> None:
    forms = [Form.json, Form.int32, Form.double, Form.hex, Form.base64, Form.text]
    codings = [Coding(one) for one in forms] + [Coding(Form.avro, schema=example.directory / "order.avsc")]
    filters = filters_of(None, None, (), ["@.id == 1790000000000000001", "$.a"])
    for coding in codings:
        decode = decoder(coding, Connection({}))
        for form in ("json", "jsonl", "csv", "plain", "parquet"):
            out = io.BytesIO()
            writer = writer_of(form, None, out)
            for offset, (stamp, key, value) in enumerate(example.records):
                message: Any = _Message(key, value, stamp, offset)
                try:
                    content = value if decode is None else decode(value, "t")
                except UserError:
                    continue
                for passes in filters:
                    passes(message, key, content)
                writer.write([message], [key], [content])
            writer.end()
            if form == "json":
                json.loads(out.getvalue(), parse_constant=_refuse)


def use_spark(example: Example, schema: str, latest: bool) -> None:
    from odradek.spark.options import parse
    from odradek.spark.rows import HEADERS, records
    from pyspark.sql import types as t

    columns = [
        t.StructField("key", t.BinaryType()), t.StructField("topic", t.StringType()), t.StructField("offset", t.LongType()),
        t.StructField("timestamp", t.TimestampType()), t.StructField("headers", HEADERS),
    ]  # fmt: skip
    wide = [t.StructField("id", t.LongType()), t.StructField("a", t.DoubleType()), t.StructField("ID", t.StringType())]
    odd = [t.StructField("id", t.StringType()), t.StructField("a", t.ArrayType(t.IntegerType()))]
    for form, kind in (("", t.BinaryType()), ("json", t.StructType(wide if latest else odd))):
        given = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "includeHeaders": "true"}
        options = parse(given | ({"valueFormat": form} if form else {}))
        schema_of_rows = t.StructType([*columns, t.StructField("value", kind)])
        batches = [batch for split in scan(example.source).splits for batch in records(split, options, schema_of_rows)]
        assert sum(one.num_rows for one in batches) == len(example.records)
        for batch in batches:
            batch.validate(full=True)
            batch.to_pylist()


class _Message:
    def __init__(self, key: bytes | None, value: bytes | None, stamp: int, offset: int) -> None:
        self.topic = lambda: "t"
        self.partition = lambda: 0
        self.key, self.value, self.offset = (lambda: key), (lambda: value), (lambda: offset)
        self.timestamp = lambda: (0 if stamp == -1 else 1, stamp)
        self.headers = lambda: [("h", key)]


def _refuse(constant: str) -> Any:
    raise AssertionError(f"{constant} is written as JSON")


USES: dict[str, Callable[[Example, str, bool], None]] = {
    "scan": use_scan, "query": use_query, "archive": use_archive, "consume": use_consume, "spark": use_spark,
}  # fmt: skip
SCHEMAS = ("none", "json", "infer", "arrow", "plain", "file", "avro")


def run(examples: int, uses: tuple[str, ...] = tuple(USES)) -> None:
    """Raises the first failure, with the smallest example that Hypothesis finds."""

    @given(records=RECORDS, schema=st.sampled_from(SCHEMAS), use=st.sampled_from(uses), latest=st.booleans())
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    def check(records: list[tuple[int, bytes | None, bytes | None]], schema: str, use: str, latest: bool) -> None:
        directory = Path(tempfile.mkdtemp(prefix="odradek-fuzz-"))
        try:
            USES[use](Example(directory, records), schema, latest)
        except (UserError, ScanError) as error:
            raise AssertionError(f"a record ends everything: {error}") from error
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    check()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.columns.fuzz", description=__doc__)
    parser.add_argument("--examples", type=int, default=1_000)
    parser.add_argument("--use", choices=USES, action="append", help="only these uses; repeatable")
    options = parser.parse_args()
    run(options.examples, tuple(options.use or USES))
    print(f"{options.examples} examples: no failure")


if __name__ == "__main__":
    main()
