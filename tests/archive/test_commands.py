"""`odradek archive` and `odradek replay`: results, and mistakes in one line."""

from __future__ import annotations

import datetime
import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pytest
from odradek.archive import Archiver, Covered, Owner, open_catalog
from odradek.archive.rows import RAW_SCHEMA
from odradek.archive.store import Table

from compat_tests.cli.commands import Done
from tests.archive.harness.broker import Harness
from tests.archive.harness.tables import START, dead_letter_rows, open_table, rows_of, source_of
from tests.harness.commands import command_here

MISTAKES: list[tuple[list[str], int, str]] = [
    (["archive", "orders"], 2, "give --warehouse DIR"),
    (["archive", "orders", "--warehouse", "w", "--parquet", "p"], 2, "give --warehouse DIR"),
    (["archive", "a.b", "a-b", "--parquet", "p"], 2, "topics a.b and a-b have one table, a_b"),
    (["archive", "orders", "--parquet", "p", "--table", "../x"], 2, "is not a name of a table"),
    (["archive", "gone", "--warehouse", "w", "--once"], 3, "gone"),
    (["archive", "orders", "--key", "id", "--parquet", "p"], 2, "--key writes Iceberg tables"),
    (["archive", "orders", "--key", "key,id", "--warehouse", "w"], 2, "a key is the record's `key`"),
    (["archive", "orders", "--row-ttl", "90", "--warehouse", "w"], 2, "--row-ttl needs --key"),
    (["archive", "orders", "--key", "key", "--row-ttl", "nan", "--warehouse", "w"], 2, "--row-ttl nan is not a number"),
    (["archive", "orders", "--partition-by", "id", "--warehouse", "w"], 2, "columns need --key"),
    (
        ["archive", "orders", "--key", "key", "--envelope", "debezium", "--warehouse", "w"],
        2,
        "needs --value-format",
    ),
    (["table", "status", "nothing", "--warehouse", "w"], 1, "there is no folder"),
    (["archive", "orders", "--once", "--warehouse", ""], 2, "an empty text is not a path"),
    (["archive", "orders", "--once", "--warehouse", "w", "--table", "orders="], 2, "'' is not a name of a table"),
    (["archive", "orders", "--once", "--warehouse", "w", "--namespace", ""], 2, "'' is not a namespace of tables"),
    (["archive", "orders", "--once", "--warehouse", "w", "--namespace", "../x"], 2, "is not a namespace of tables"),
    (["table", "status", "--warehouse", ".", "--namespace", ""], 2, "'' is not a namespace of tables"),
    (["query", "select 1 from orders", "--warehouse", ".", "--namespace", "a..b"], 2, "is not a namespace of tables"),
    (["table", "status", "nothing", "--warehouse", "."], 1, "there is no table nothing, but none"),
    (["archive", "orders", "--once", "--parquet", "/dev/null/x"], 1, "topic orders"),
    (["archive", "orders", "--once", "--warehouse", "/dev/null/x"], 1, "/dev/null"),
    (
        ["archive", "orders", "--once", "--warehouse", "w", "--catalog", "uri=sqlite:////dev/null/c.db"],
        1,
        "catalog",
    ),
    (["archive", "orders", "--once", "--parquet", "p", "-X", "bootstrap.servers=127.0.0.1:1"], 4, "start a broker"),
    (["table", "maintain", "--catalog", "type=nonsense"], 1, "the catalog cannot be opened"),
    (["replay", "nothing", "orders", "--parquet", "p"], 1, "has no manifest.json"),
    (["replay", "kafka.nothing", "orders", "--warehouse", "w"], 1, "the catalog has no table kafka.nothing"),
]


def run(harness: Harness, *words: str, status: int = 0) -> Done:
    return command_here(*words, *cluster_of(harness, words), status=status)


def cluster_of(harness: Harness, words: Sequence[str]) -> tuple[str, ...]:
    has_own = (words[0] == "table" and words[1] != "rebuild") or "-X" in words
    return () if has_own else ("-b", harness.process.bootstrap)


@pytest.fixture(scope="module")
def orders(harness: Harness) -> None:
    harness.create("orders")


@pytest.mark.usefixtures("orders")
def test_archive_follows_its_topics_until_a_signal_and_reports_the_rows(harness: Harness, tmp_path: Path) -> None:
    harness.write("orders", [b'{"id": 1}', b"broken"])
    command = [sys.executable, "-m", "odradek", "archive", "orders", "--warehouse", str(tmp_path), "--output", "json"]
    command += ["--value-format", "json", "--freshness", "0.3", "-b", harness.process.bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 180  # on a machine with much other work, too
        while not (tmp_path / "kafka/orders/data").exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    (row,) = json.loads(out)
    assert row.pop("state") in ("up to date", "behind")
    assert row == {"topic": "orders", "rows": 1, "dead_letter_records": 1, "commits": 1, "error": None}
    assert source_of("iceberg", tmp_path, "orders").read(0, 0, 9).column("value").to_pylist() == [{"id": 1}]


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(("words", "status", "message"), MISTAKES)
def test_mistakes_are_one_line_and_a_status(
    harness: Harness, words: list[str], status: int, message: str, tmp_path: Path
) -> None:
    done = run(harness, *(str(tmp_path / one) if len(one) == 1 else one for one in words), status=status)
    assert message in done.err and "Traceback" not in done.err and done.err.count("\n") <= 2


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("words", "status", "message"), [one for one in MISTAKES if one[2] in ("gone", "start a broker")]
)
def test_mistakes_of_a_process_are_one_line_with_what_its_libraries_write(
    harness: Harness, words: list[str], status: int, message: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "odradek", *words, *cluster_of(harness, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    assert done.returncode == status and message in done.stderr
    assert "Traceback" not in done.stderr and done.stderr.count("\n") <= 2


def test_tables_of_a_run_that_fails_in_part_are_shown_with_the_reason(harness: Harness, tmp_path: Path) -> None:
    harness.create("well")
    harness.write("well", [b"1", b"2"])
    done = run(harness, "archive", "well", "gone", "--parquet", str(tmp_path), "--once", "--output", "json", status=3)
    well, gone = json.loads(done.out)
    assert (well["topic"], well["rows"], well["state"]) == ("well", 2, "up to date")
    assert (
        (gone["topic"], gone["state"]) == ("gone", "failing") and "gone" in gone["error"] and gone["error"] in done.err
    )


def test_short_runs_maintain_what_the_table_says_is_due(harness: Harness, tmp_path: Path) -> None:
    harness.create("short")
    words = ["archive", "short", "--warehouse", str(tmp_path / "w"), "--once", "--keep-snapshots", "0"]
    for number in range(18):
        harness.write("short", [b"%d" % number])
        archive_once(harness, "short", tmp_path / "w")
    (before,) = status(harness, tmp_path / "w")
    assert before["rows"] == 18 and before["files"] < 5 and before["snapshots"] > 15
    run(harness, *words)
    run(harness, "table", "maintain", "short", "--warehouse", str(tmp_path / "w"), "--keep-snapshots", "0")
    (after,) = status(harness, tmp_path / "w")
    assert after["rows"] == 18 and after["snapshots"] == 5 and after["offsets"] == {"0": 18}
    assert after["owner"]["topic"] == "short" and after["owner"]["cluster_id"] and after["value"] == "binary"


def test_maintenance_merges_as_many_bytes_as_its_budget(harness: Harness, tmp_path: Path) -> None:
    for kind in ("warehouse", "parquet"):
        harness.create(f"budget_{kind}")
        table = open_table("iceberg" if kind == "warehouse" else kind, tmp_path / kind, Owner(f"budget_{kind}"))
        for number in range(2 * 16 * 3):  # each partition of a day has files of its own
            append_day(table, number)
        table.close()
        (before,) = status(harness, tmp_path / kind, kind)
        assert before["files_to_merge"] == 96
        words = ["table", "maintain", f"--{kind}", str(tmp_path / kind)]
        run(harness, *words, "--merge-bytes", "1")
        (after,) = status(harness, tmp_path / kind, kind)
        assert 0 < after["files_to_merge"] < 96 and after["rows"] == before["rows"]
        run(harness, *words)
        assert status(harness, tmp_path / kind, kind)[0]["files_to_merge"] == 0


def append_day(table: Table, number: int) -> None:
    """Commits a row, of one of three days in turn."""
    table.evolve(RAW_SCHEMA)
    rows = rows_of(number, number + 1).set_column(
        2, "timestamp", pa.array([START + datetime.timedelta(days=number % 3)], RAW_SCHEMA.field("timestamp").type)
    )
    table.write(rows, dead_letter_rows())
    table.commit(Covered(table.name, "", {0: number + 1}))


@pytest.mark.parametrize("layout", ["keyed", "warehouse", "parquet"])
def test_rebuild_makes_a_table_anew_as_it_is_laid_out(harness: Harness, tmp_path: Path, layout: str) -> None:
    topic, place = f"anew_{layout}", "parquet" if layout == "parquet" else "warehouse"
    harness.create(topic)
    harness.write(topic, [b'{"id": %d, "v": %d}' % (number % 3, number) for number in range(9)])
    words = ["archive", topic, f"--{place}", str(tmp_path), "--once", "--table", "named", "--value-format", "json"]
    words += ["--partition-by", "month", *(["--key", "id"] if layout == "keyed" else [])]
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object", "properties": {"id": {"type": "integer"}, "v": {"type": "string"}}}')
    run(harness, *words, "--value-schema", str(schema))
    old = set(tmp_path.rglob("*.parquet"))
    harness.write(topic, [b'{"id": 1, "v": 10}'])
    words = ["table", "rebuild", "named", f"--{place}", str(tmp_path)]
    assert "name their format" in run(harness, *words, status=1).err
    schema.write_text(schema.read_text().replace("string", "integer"))
    (row,) = json.loads(
        run(harness, *words, "--value-format", "json", "--value-schema", str(schema), "--output", "json").out
    )
    assert row["topic"] == topic and row["commits"] == 1 and row["error"] is None
    (after,) = status(harness, tmp_path, place)
    assert after["value"] == "struct<id: int64, v: int64>" and after["offsets"] == {"0": 10}
    assert after["rows"] == (3 if layout == "keyed" else 10) and after["key"] == ("id" if layout == "keyed" else "")
    new = set(tmp_path.rglob("*.parquet")) - old
    assert new and all("timestamp_month=" in str(one) for one in new), new
    harness.delete_records(topic, {0: 5})
    assert "is gone" in run(harness, *words, "--value-format", "json", status=1).err
    assert status(harness, tmp_path, place)[0]["rows"] == after["rows"]


def archive_once(harness: Harness, topic: str, folder: Path) -> None:
    Archiver(harness.client, [topic], lambda owner: open_table("iceberg", folder, owner)).run(once=True)


def status(harness: Harness, folder: Path, place: str = "warehouse") -> list[dict[str, Any]]:
    return list(json.loads(run(harness, "table", "status", f"--{place}", str(folder), "--output", "json").out))


def test_protobuf_schema_from_its_own_folder_and_a_warehouse_beside_it(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "schemas"
    folder.mkdir()
    (folder / "order.proto").write_text('syntax = "proto3"; message Order { int32 id = 1; }')
    harness.create("protos")
    harness.write("protos", [b"\x08\x07"])
    words = ["archive", "protos", "--value-format", "protobuf", "--value-schema", "order.proto", "--once"]
    monkeypatch.chdir(folder)
    run(harness, *words, "--warehouse", "../w")
    named = ["--catalog", "type=sql", "--catalog", f"uri=sqlite:///{tmp_path}/c.db", "--catalog", "warehouse=../named"]
    run(harness, *words, *named)
    location = (
        open_catalog(None, {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db"}).load_table("kafka.protos").location()
    )
    assert location == f"file://{tmp_path}/named/kafka/protos"
    table = open_catalog(tmp_path / "w", {}).load_table("kafka.protos")
    assert ".." not in table.metadata_location + table.location()
    assert [row["value"] for row in polars.scan_iceberg(table).collect().to_dicts()] == [{"id": 7}]


def test_inferred_types_are_shown_and_a_schema_changes_them(harness: Harness, tmp_path: Path) -> None:
    harness.create("odd_first")
    harness.write("odd_first", [b'{"id": "n/a"}', b'{"id": 7}'])
    words = ["archive", "odd_first", "--value-format", "json", "--warehouse", str(tmp_path), "--once"]
    assert "inferred from 2 values: struct<id: string>" in run(harness, *words).err
    schema = tmp_path / "order.json"
    schema.write_text('{"type": "object", "properties": {"id": {"type": "integer"}}}')
    run(harness, *words, "--value-schema", str(schema), "--rebuild")
    assert source_of("iceberg", tmp_path, "odd_first").read(0, 0, 9).column("value").to_pylist() == [{"id": 7}]
    dead = source_of("iceberg", tmp_path, "odd_first", dead_letters=True).read(0, 0, 9).to_pylist()
    assert [row["offset"] for row in dead] == [0] and "n/a" in dead[0]["reason"]


def test_catalog_of_a_warehouse_has_the_name_that_the_docs_give_to_spark(harness: Harness, tmp_path: Path) -> None:
    harness.create("named")
    harness.write("named", [b"1"])
    archive_once(harness, "named", tmp_path)
    with sqlite3.connect(tmp_path / "catalog.db") as catalog:
        rows = catalog.execute("select catalog_name, table_namespace, table_name from iceberg_tables").fetchall()
    assert rows == [("odradek", "kafka", "named")]
    text = (Path(__file__).parents[2] / "docs/specialists/tables-in-detail.md").read_text(encoding="utf-8")
    assert "spark.sql.catalog.odradek.uri        jdbc:sqlite:" in text and "odradek.kafka.orders" in text
