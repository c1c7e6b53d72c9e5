"""`odradek query`: SQL over topics of a running broker and of a directory, with every output; errors are one line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import odradek
import polars
import pyarrow.parquet
import pytest
from confluent_kafka import Producer
from odradek.columns import ScanDataset, scan
from odradek.columns.dataset import pruned

from compat_tests.cli.commands import Done
from tests.columns.harness.logs import GeneratedLog
from tests.harness.commands import query_here

Query = Callable[..., Done]
MISTAKES = [
    (["select * from nothing"], 3, "topic nothing"),
    (["delete from orders"], 2, "a query is one SELECT statement"),
    (["select 1; select 2"], 2, "a query is one SELECT statement"),
    (["select"], 2, "SELECT clause without selection list"),
    (["select x from orders"], 1, 'column "x" not found'),
    (["select * from orders", "--value-format", "avro"], 1, "need a schema file or a schema registry"),
    (["select * from t", "--data-dir", "/nowhere"], 1, "/nowhere has no partition of a topic t"),
    (["select * from orders", "--output", "table", "--file", "x"], 2, "standard output only"),
]
ORDERS = [{"id": number, "customer": f"c{number % 7}", "amount": number * 1.5} for number in range(300)]


@pytest.fixture(scope="module")
def place(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[odradek.Broker, Path]]:
    directory = tmp_path_factory.mktemp("query")
    with odradek.Broker(data_dir=directory) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for order in ORDERS:
            producer.produce("orders", json.dumps(order), order["customer"].encode())  # type: ignore[attr-defined]
        producer.produce("orders", b"\xffbroken", b"c\x80")
        producer.produce("my.topic", b"one")
        assert producer.flush(30) == 0
        yield broker, directory


@pytest.fixture
def query(place: tuple[odradek.Broker, Path], capfd: pytest.CaptureFixture[str]) -> Query:
    address = place[0].bootstrap_servers
    return lambda *arguments, status=0: query_here(capfd, "query", *arguments, "-b", address, status=status)


def query_process(broker: odradek.Broker, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "odradek", "query", *arguments, "-b", broker.bootstrap_servers]
    return subprocess.run(command, capture_output=True, timeout=120, check=False)


def test_table_of_typed_values_warns_of_records_left_out(query: Query) -> None:
    sql = "select value.customer, sum(value.amount) total from orders where value is not null group by 1 order by 1"
    done = query(sql, "--value-format", "json")
    lines = [line.split() for line in done.out.splitlines() if not line.startswith(" ")]
    sums = {f"c{one}": sum(o["amount"] for o in ORDERS if o["customer"] == f"c{one}") for one in range(7)}
    assert lines == [["customer", "total"], *([name, str(total)] for name, total in sums.items())]
    assert "1 undecodable value of orders became null" in done.err
    left = query('select "offset", reason from "orders.undecodable"', "--value-format", "json", "--output", "jsonl")
    assert json.loads(left.out) == {"offset": 300, "reason": "it is not UTF-8: invalid start byte at byte 0"}


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("select * from twice, Twice", "one name for the topics Twice and twice"),
        ("select value.ID from twice", "one name for the fields value.id and value.ID of twice"),
        ("select value.id from twice", "one name for the fields value.id and value.ID of twice"),
        ("select value['ID'] from twice", "one name for the fields value.id and value.ID of twice"),
        ('select value.parts[1]."N" from twice', "one name for the fields value.parts.n and value.parts.N of twice"),
        ("select unnest(value) from twice", "one name for the fields value.id and value.ID of twice"),
    ],
)
def test_names_that_differ_only_in_case_are_refused_where_a_statement_needs_them(
    place: tuple[odradek.Broker, Path], query: Query, tmp_path: Path, sql: str, words: str
) -> None:
    done = query(sql, *_twice(place[0], tmp_path), status=2)
    assert words in done.err and done.out == ""


def test_values_whose_fields_differ_only_in_case_are_whole(
    place: tuple[odradek.Broker, Path], query: Query, tmp_path: Path
) -> None:
    options = (*_twice(place[0], tmp_path), "--output", "jsonl")
    done = query("select value from twice limit 1", *options)
    assert json.loads(done.out)["value"] == TWICE
    done = query("select to_json(value)->>'$.ID' as x, to_json(value)->>'$.id' as y from twice limit 1", *options)
    assert json.loads(done.out) == {"x": "2", "y": "1"}
    assert query("select count(*) as rows from twice", *options).out.startswith('{"rows"')


TWICE = {"id": 1, "ID": 2, "parts": [{"n": 3, "N": 4}]}
_NUMBER = {"type": "integer"}
_PARTS = {"type": "array", "items": {"type": "object", "properties": {"n": _NUMBER, "N": _NUMBER}}}
TWICE_SCHEMA = {"type": "object", "properties": {"id": _NUMBER, "ID": _NUMBER, "parts": _PARTS}}


def _twice(broker: odradek.Broker, folder: Path) -> tuple[str, ...]:
    """Produces to two topics whose names differ in case. Returns the options that read their values."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for topic in ("twice", "Twice"):
        producer.produce(topic, json.dumps(TWICE))
    assert producer.flush(30) == 0
    schema = folder / "twice.json"
    schema.write_text(json.dumps(TWICE_SCHEMA))
    return ("--value-format", "json", "--value-schema", str(schema))


def test_csv_json_and_parquet_have_the_same_rows(
    place: tuple[odradek.Broker, Path], query: Query, tmp_path: Path
) -> None:
    sql = 'select "offset", key, value from orders order by "offset";'
    rows = json.loads(query(sql, "--output", "json").out)
    assert [(one["offset"], one["key"]) for one in rows[:3]] == [(0, "c0"), (1, "c1"), (2, "c2")]
    assert rows[300] == {"offset": 300, "key": "c\\x80", "value": "\\xffbroken"} and len(rows) == 301
    assert [json.loads(line) for line in query(sql, "--output", "jsonl").out.splitlines()] == rows
    assert query(sql, "--output", "csv").out.splitlines()[0] == "offset,key,value"
    query(sql, "--file", str(tmp_path / "found.parquet"))
    done = query_process(place[0], sql, "--output", "parquet")
    assert done.returncode == 0, done.stderr
    (tmp_path / "printed.parquet").write_bytes(done.stdout)
    for name in ("found.parquet", "printed.parquet"):
        assert pyarrow.parquet.read_table(tmp_path / name).to_pylist() == rows


def test_data_directory_is_queried_without_a_broker(place: tuple[odradek.Broker, Path], query: Query) -> None:
    _, directory = place
    done = query(
        "select count(*) n from orders", "--data-dir", str(directory), "--output", "jsonl", "-b", "127.0.0.1:1"
    )
    assert json.loads(done.out) == {"n": 301}
    assert json.loads(query('select value from "my.topic"', "--output", "jsonl").out) == {"value": "one"}
    binary = query(
        "select hex(value) h from orders limit 1 offset 300", "--value-format", "binary", "--output", "jsonl"
    )
    assert json.loads(binary.out) == {"h": b"\xffbroken".hex().upper()}


@pytest.mark.parametrize(("arguments", "status", "words"), MISTAKES)
def test_mistakes_are_one_line_and_a_status(query: Query, arguments: list[str], status: int, words: str) -> None:
    done = query(*arguments, status=status)
    assert words in done.err and done.err.count("\n") <= 2 and "Traceback" not in done.err


def test_mistake_of_a_process_is_one_line_and_a_status(place: tuple[odradek.Broker, Path]) -> None:
    (arguments, status, words), *_ = MISTAKES
    done = query_process(place[0], *arguments)
    assert done.returncode == status and words.encode() in done.stderr
    assert done.stderr.count(b"\n") <= 2 and b"Traceback" not in done.stderr


def test_damaged_segment_is_named_or_skipped_with_a_warning(query: Query, tmp_path: Path) -> None:
    made = GeneratedLog(tmp_path, 1)
    for _ in range(80):
        made.append()
    made.close()
    file = made.segments()[0]
    damaged = bytearray(file.read_bytes())
    damaged[200] ^= 1
    file.write_bytes(damaged)
    sql = ["select count(*) n from t", "--data-dir", str(tmp_path), "--output", "jsonl"]
    done = query(*sql, status=1)
    assert file.name in done.err and "offset" in done.err
    skipped = query(*sql, "--skip-unreadable")
    assert 0 < json.loads(skipped.out)["n"] < len(made.rows) and file.name in skipped.err


def test_dataset_reads_the_columns_and_offsets_that_an_engine_asks_for(tmp_path: Path) -> None:
    made = GeneratedLog(tmp_path, 2)
    made.fill(120, transactions=False)
    found = scan(made.topic_path, split_bytes=3_000)
    t = ScanDataset(found)
    assert duckdb.sql("select count(*) from t").fetchall() == [(len(made.rows),)]
    sql = 'select count(*), sum(octet_length(value)) from t where "offset" >= 20 and "offset" < 60'
    expected = [row for row in made.expected() if 20 <= row.offset < 60]
    assert duckdb.sql(sql).fetchall() == [(len(expected), sum(len(row.value or b"") for row in expected))]
    frame = polars.scan_pyarrow_dataset(t).filter(polars.col("offset") < 30).select("offset").collect()
    assert frame["offset"].to_list() == [row.offset for row in made.expected() if row.offset < 30]
    offset = pyarrow.dataset.field("offset")
    left = pruned(found.plan, (offset >= 20) & (offset < 60)).splits
    assert 0 < len(left) < len(found.splits) and set(left) <= set(found.splits)
    assert pruned(found.plan, pyarrow.dataset.field("partition") == 1).splits == ()
    assert len(pruned(found.plan, pyarrow.dataset.field("key") == b"x").splits) == len(found.splits)
    assert t.count_rows() == len(made.rows)
