"""Commits of tables: rows and their offsets together, whatever other processes do with the table."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from odradek.archive import ArchiveError, Covered, ParquetTable, PartitionBy, TableChanged, open_catalog
from odradek.archive.data_files import replace_files, rows_of_files
from odradek.archive.iceberg import OFFSETS
from odradek.archive.rows import RAW_SCHEMA
from odradek.archive.store import FILES_TO_MERGE, Table, groups_to_merge
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import DayTransform
from pyiceberg.types import StringType

from tests.archive.harness.tables import (
    KINDS,
    append,
    covered,
    dead_letter_rows,
    offsets_of,
    open_table,
    rows_of,
    source_of,
)

pytestmark = pytest.mark.slow


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_offsets_are_those_of_the_last_commit_after_a_restart(kind: str, tmp_path: Path) -> None:
    table = open_table(kind, tmp_path)
    assert table.covered is None and table.schema is None
    append(table, 0, 5)
    append(table, 5, 30, 7, 8)
    table.write(rows_of(30, 40), dead_letter_rows(33))
    table.close()
    again = open_table(kind, tmp_path)
    assert again.covered == covered(30)
    assert again.schema == RAW_SCHEMA
    assert offsets_of(source_of(kind, tmp_path)) == list(range(30))
    assert offsets_of(source_of(kind, tmp_path, dead_letters=True)) == [7, 8]
    again.close()


def test_a_commit_without_rows_moves_the_offsets(kind: str, tmp_path: Path) -> None:
    table = open_table(kind, tmp_path)
    append(table, 0, 5)
    table.commit(covered(9))
    table.close()
    again = open_table(kind, tmp_path)
    assert again.covered == covered(9)
    again.close()


def test_rows_come_back_as_they_were_by_partition_and_offset(kind: str, tmp_path: Path) -> None:
    table = open_table(kind, tmp_path)
    append(table, 0, 50)
    table.write(rows_of(0, 20, partition=3), dead_letter_rows())
    table.commit(covered(50, offsets={3: 20}))
    source = source_of(kind, tmp_path)
    found = source.read(3, 5, 9).sort_by("offset")
    assert found.select(RAW_SCHEMA.names).to_pylist() == rows_of(5, 9, partition=3).to_pylist()
    assert {(one.partitions, one.offsets[0] >= 0) for one in source.ranges()} == {((0, 0), True), ((3, 3), True)}
    table.close()


def test_tables_are_partitioned_by_day_and_null_timestamps_have_a_partition(tmp_path: Path) -> None:
    rows = rows_of(0, 5).set_column(2, RAW_SCHEMA.field("timestamp"), pa.array([None] * 5, RAW_SCHEMA.field(2).type))
    for kind in KINDS:
        table = open_table(kind, tmp_path / kind)
        append(table, 0, 30)
        table.write(rows.set_column(1, RAW_SCHEMA.field("offset"), pa.array(range(30, 35))), dead_letter_rows())
        table.commit(covered(35))
        table.close()
    folders = sorted(one.name for one in (tmp_path / "parquet/my_orders/data").iterdir())
    days = ["timestamp_day=2026-03-04", "timestamp_day=2026-03-05", "timestamp_day=2026-03-06"]
    assert folders == [*days, "timestamp_day=__HIVE_DEFAULT_PARTITION__"]
    iceberg = open_catalog(tmp_path / "iceberg", {}).load_table("kafka.my_orders")
    assert [type(one.transform) for one in iceberg.spec().fields] == [DayTransform]
    found = iceberg.inspect.partitions().to_pylist()
    assert sorted(one["record_count"] for one in found) == [2, 4, 5, 24]
    files = iceberg.scan("timestamp >= '2026-03-06T00:00:00+00:00'").plan_files()
    assert sum(one.file.record_count for one in files) == 4


def test_duckdb_reads_the_files_of_both_kinds(kind: str, tmp_path: Path) -> None:
    table = open_table(kind, tmp_path)
    append(table, 0, 200)
    table.close()
    if kind == "parquet":
        sql = f"select count(*), sum(\"offset\") from read_parquet('{tmp_path}/my_orders/data/**/*.parquet')"
        assert duckdb.sql(sql).fetchall() == [(200, 19900)]
    else:
        scan = open_catalog(tmp_path, {}).load_table("kafka.my_orders").scan()
        sql = "select count(*), sum(\"offset\") from orders where key <> 'k7'::blob"
        assert scan.to_duckdb("orders").execute(sql).fetchall() == [(199, 19893)]


def test_a_table_of_another_topic_is_an_error(kind: str, tmp_path: Path) -> None:
    table = open_table(kind, tmp_path)
    append(table, 0, 5)
    table.close()
    with pytest.raises(ArchiveError, match=r"has the records of topic my\.orders, not the records of topic my_orders"):
        open_table(kind, tmp_path, "my_orders")


def test_columns_are_added_and_widened_in_the_table(kind: str, tmp_path: Path) -> None:
    table = open_table(kind, tmp_path)
    fields = [one for one in RAW_SCHEMA if one.name != "value"]
    for number, value in enumerate(
        (
            pa.struct([("a", pa.int32())]),
            pa.struct([("a", pa.int64()), ("b", pa.string())]),
            pa.struct([("b", pa.string())]),
        )
    ):
        schema = pa.schema([*fields, pa.field("value", value)])
        table.evolve(schema)
        stored = table.schema
        assert stored is not None
        kept = stored.field("value").type
        values = pa.array([{one.name: 1 if one.name == "a" else "x" for one in value}], kept)
        rows = rows_of(number, number + 1).drop(["value"])
        table.write(rows.append_column(pa.field("value", kept), values), dead_letter_rows())
    table.commit(covered(3))
    table.close()
    found = source_of(kind, tmp_path)
    assert found.schema.field("value").type == pa.struct([("a", pa.int64()), ("b", pa.string())])
    rows = found.read(0, 0, 3).sort_by("offset").column("value").to_pylist()
    assert rows == [{"a": 1, "b": None}, {"a": 1, "b": "x"}, {"a": None, "b": "x"}]


def test_small_files_are_merged_and_the_offsets_stay(kind: str, tmp_path: Path) -> None:
    table = open_table(kind, tmp_path, **({"snapshots_s": 0, "most_expired_kept": 3} if kind == "iceberg" else {}))
    for number in range(FILES_TO_MERGE + 1):
        append(table, number * 2, number * 2 + 2, number * 2, hours=0)
    table.maintain()
    assert len(source_of(kind, tmp_path).ranges()) < 6
    assert len(source_of(kind, tmp_path, dead_letters=True).ranges()) < 6
    end = 2 * FILES_TO_MERGE + 2
    append(table, end, end + 2)
    assert offsets_of(source_of(kind, tmp_path)) == list(range(end + 2))
    assert offsets_of(source_of(kind, tmp_path, dead_letters=True)) == list(range(0, end, 2))
    table.close()
    again = open_table(kind, tmp_path)
    assert again.covered == covered(end + 2)
    again.close()


def test_files_are_merged_by_size_and_partition_up_to_the_target() -> None:
    files = [("a", 1_000, f"a{one}") for one in range(16)] + [("b", 1_000, f"b{one}") for one in range(15)]
    files += [("a", 40 << 20, f"large{one}") for one in range(16)] + [("a", 100 << 20, "complete")] * 20
    found = groups_to_merge(files, 128 << 20)
    assert [len(one) for one in found] == [16, 3, 3, 3, 3, 3]
    assert sorted(found[0]) == sorted(f"a{one}" for one in range(16))


# ---- Parquet


def test_files_without_a_manifest_are_deleted_and_committed_ones_are_published(tmp_path: Path) -> None:
    table = open_table("parquet", tmp_path)
    append(table, 0, 5)
    append(table, 5, 9)
    table.close()
    folder = tmp_path / "my_orders"
    committed = sorted(folder.glob("data/*/*.parquet"))
    committed[0].rename(committed[0].with_name(f"{committed[0].name}.staged"))
    for name in (f"{'0' * 32}.parquet", f"{'0' * 32}.parquet.staged"):
        (committed[0].parent / name).write_bytes(committed[1].read_bytes())
    (folder / "manifest.json.new").write_text("{")
    assert offsets_of(source_of("parquet", tmp_path)) == list(range(9))
    again = open_table("parquet", tmp_path)
    assert sorted(folder.glob("data/*/*")) == committed
    assert offsets_of(source_of("parquet", tmp_path)) == list(range(9))
    with pytest.raises(ArchiveError, match="another process writes"):
        open_table("parquet", tmp_path)
    again.close()


def test_a_damaged_manifest_is_an_error_and_no_file_is_deleted(tmp_path: Path) -> None:
    table = open_table("parquet", tmp_path)
    append(table, 0, 5)
    table.close()
    path = tmp_path / "my_orders/manifest.json"
    before = sorted(tmp_path.rglob("*.parquet"))
    whole = json.loads(path.read_text())
    for text in ("{", "[]", json.dumps({**whole, "version": 9}), json.dumps({**whole, "offsets": {"x": 1}})):
        path.write_text(text)
        with pytest.raises(ArchiveError):
            open_table("parquet", tmp_path)
    assert sorted(tmp_path.rglob("*.parquet")) == before


# ---- Iceberg


def test_a_lock_keeps_a_second_archiver_of_this_machine_out(tmp_path: Path) -> None:
    table = open_table("iceberg", tmp_path, lock_folder=tmp_path)
    with pytest.raises(ArchiveError, match=r"another process writes .*kafka\.my_orders"):
        open_table("iceberg", tmp_path, lock_folder=tmp_path)
    table.close()
    open_table("iceberg", tmp_path, lock_folder=tmp_path).close()


def test_a_second_archiver_of_a_table_fails_and_its_rows_do_not_count(tmp_path: Path) -> None:
    first, second = open_table("iceberg", tmp_path), open_table("iceberg", tmp_path)
    append(first, 0, 5)
    second.close()
    second = open_table("iceberg", tmp_path)
    append(first, 5, 9)
    second.evolve(RAW_SCHEMA)
    second.write(rows_of(5, 9), dead_letter_rows())
    with pytest.raises(TableChanged, match=r"another process archives my\.orders"):
        second.commit(covered(9))
    second.abandon()
    assert second.covered == covered(9)
    append(second, 9, 12)
    assert offsets_of(source_of("iceberg", tmp_path)) == list(range(12))


def test_commits_of_other_programs_in_between_keep_the_offsets(tmp_path: Path) -> None:
    table = open_table("iceberg", tmp_path, partition_by=PartitionBy.none)
    append(table, 0, 5)
    other = open_catalog(tmp_path, {}).load_table("kafka.my_orders")
    other.append(rows_of(100, 101))  # a snapshot without offsets, as of another program's compaction
    with other.update_schema() as update:
        update.add_column("note", StringType())
    append(table, 5, 9)
    table.close()
    other.refresh().delete("offset = 100")
    again = open_table("iceberg", tmp_path)
    assert again.covered == covered(9)
    assert offsets_of(source_of("iceberg", tmp_path)) == list(range(9))
    ids = [one.snapshot_id for one in other.refresh().snapshots()][:-1]
    other.maintenance.expire_snapshots().by_ids(ids).commit()
    assert OFFSETS not in other.refresh().current_snapshot().summary.additional_properties
    assert open_table("iceberg", tmp_path).covered == covered(9)


def merged_dead_letters(folder: Path) -> None:
    """Merges all dead-letter records of a table into one file."""
    stored = open_catalog(folder, {}).load_table("kafka.my_orders_dead_letters")
    files = list(stored.scan().plan_files())
    offsets = stored.current_snapshot().summary.additional_properties[OFFSETS]
    replace_files(stored, files, rows_of_files(stored, files), {OFFSETS: offsets})


def test_a_table_that_is_rolled_back_has_the_offsets_of_its_snapshot(tmp_path: Path) -> None:
    table = open_table("iceberg", tmp_path)
    append(table, 0, 5, 2)
    append(table, 5, 9, 6)
    table.close()
    merged_dead_letters(tmp_path)
    stored = open_catalog(tmp_path, {}).load_table("kafka.my_orders")
    stored.manage_snapshots().rollback_to_snapshot(stored.snapshots()[0].snapshot_id).commit()
    again = open_table("iceberg", tmp_path)
    assert again.covered == covered(5)
    assert offsets_of(source_of("iceberg", tmp_path, dead_letters=True)) == [2]
    append(again, 5, 12, 6)
    assert offsets_of(source_of("iceberg", tmp_path)) == list(range(12))
    assert offsets_of(source_of("iceberg", tmp_path, dead_letters=True)) == [2, 6]


def test_dead_letter_records_of_a_commit_that_did_not_come_are_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = open_table("iceberg", tmp_path)
    append(table, 0, 5, 2)
    committed: list[Covered] = []
    original = type(table)._append  # type: ignore[attr-defined]

    def dies_at_the_second(self, *given, **named):  # type: ignore[no-untyped-def]
        if committed:
            raise KeyboardInterrupt
        committed.append(given[2])
        original(self, *given, **named)

    monkeypatch.setattr(type(table), "_append", dies_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        append(table, 5, 9, 6, 7)
    monkeypatch.undo()
    assert offsets_of(source_of("iceberg", tmp_path, dead_letters=True)) == [2, 6, 7]
    again = open_table("iceberg", tmp_path)
    assert offsets_of(source_of("iceberg", tmp_path, dead_letters=True)) == [2]
    append(again, 5, 9, 6, 7)
    assert offsets_of(source_of("iceberg", tmp_path, dead_letters=True)) == [2, 6, 7]


def test_a_commit_that_fails_after_its_dead_letter_records_takes_them_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = open_table("iceberg", tmp_path)
    append(table, 0, 5, 2)
    original, calls = SqlCatalog.commit_table, []

    def full_disk_at_the_second(*given, **named):  # type: ignore[no-untyped-def]
        calls.append(1)
        if len(calls) == 2:
            raise OSError("disk full")
        return original(*given, **named)

    monkeypatch.setattr(SqlCatalog, "commit_table", full_disk_at_the_second)
    with pytest.raises(OSError, match="disk full"):
        append(table, 5, 9, 6, 7)
    table.abandon()
    append(table, 5, 9, 6)
    assert offsets_of(source_of("iceberg", tmp_path)) == list(range(9))
    assert offsets_of(source_of("iceberg", tmp_path, dead_letters=True)) == [2, 6]


def test_an_error_after_the_commit_deletes_no_file_of_it(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = open_table(kind, tmp_path)
    append(table, 0, 5)
    owner, name = (SqlCatalog, "commit_table") if kind == "iceberg" else (ParquetTable, "_replace")
    original = getattr(owner, name)

    def loses_the_response(*given, **named):  # type: ignore[no-untyped-def]
        original(*given, **named)
        raise OSError("no response")

    monkeypatch.setattr(owner, name, loses_the_response)
    with pytest.raises(OSError, match="no response"):
        append(table, 5, 9)
    monkeypatch.undo()
    table.abandon()
    assert table.covered == covered(9)
    append(table, 9, 12)
    table.close()
    assert offsets_of(source_of(kind, tmp_path)) == list(range(12))


def test_expiry_deletes_files_that_no_snapshot_has_and_keeps_those_of_tags(tmp_path: Path) -> None:
    table = open_table("iceberg", tmp_path, snapshots_s=0, least_snapshots=1, most_expired_kept=0)
    append(table, 0, 2)
    stored = open_catalog(tmp_path, {}).load_table("kafka.my_orders")
    first = stored.current_snapshot().snapshot_id
    stored.manage_snapshots().create_tag(first, "kept").commit()
    for number in range(1, 18):
        append(table, number * 2, number * 2 + 2, hours=0)
    table.maintain()
    stored.refresh()
    assert len(stored.snapshots()) == 2
    reached = {entry["file_path"].removeprefix("file://") for entry in stored.inspect.all_data_files().to_pylist()}
    assert {str(one) for one in tmp_path.rglob("*.parquet")} == reached
    manifests = {one["path"].removeprefix("file://") for one in stored.inspect.all_manifests().to_pylist()}
    lists = {one.manifest_list.removeprefix("file://") for one in stored.snapshots()}
    assert {str(one) for one in tmp_path.rglob("*.avro")} == manifests | lists
    assert stored.scan(snapshot_id=first).to_arrow().num_rows == 2
    assert offsets_of(source_of("iceberg", tmp_path)) == list(range(36))
    assert open_table("iceberg", tmp_path).covered == covered(36)


def test_old_files_without_a_snapshot_are_deleted_at_the_start(tmp_path: Path) -> None:
    table = open_table("iceberg", tmp_path)
    append(table, 0, 5)
    table.write(rows_of(5, 9), dead_letter_rows())
    known = {one for one in tmp_path.rglob("*") if one.is_file()}
    orphans = {one for one in tmp_path.rglob("*.parquet") if one.stat().st_mtime > 0} - {
        Path(one.path.removeprefix("file://")) for one in source_of("iceberg", tmp_path).ranges()
    }
    assert orphans
    open_table("iceberg", tmp_path)
    assert all(one.exists() for one in known)
    past = time.time() - 90_000
    for one in known:
        os.utime(one, (past, past))
    open_table("iceberg", tmp_path)
    assert {one for one in known if not one.exists()} == orphans
    assert offsets_of(source_of("iceberg", tmp_path)) == list(range(5))


def typed_rows(first: int, end: int, kind: pa.DataType) -> pa.Table:
    values = pa.array([{"v": one} for one in range(first, end)], pa.struct([("v", kind)]))
    return rows_of(first, end, hours=0).drop(["value"]).append_column(pa.field("value", values.type), values)


def remake(table: Table, end: int, *dead: int) -> None:
    """Makes the table anew, with fractions in place of integers."""
    rows = typed_rows(0, end, pa.float64())
    table.restart(rows.schema)
    table.write(rows, dead_letter_rows(*dead, hours=0))
    table.commit(covered(end))


def test_table_made_anew_has_the_new_type_and_each_row_once(kind: str, tmp_path: Path) -> None:
    table = open_table(kind, tmp_path)
    old = typed_rows(0, 5, pa.int64())
    table.evolve(old.schema)
    table.write(old, dead_letter_rows(1, 3, hours=0))
    table.commit(covered(5))
    assert table.record_count == 7
    remake(table, 9, 1)
    table.close()
    again = open_table(kind, tmp_path)
    assert again.covered == covered(9) and again.record_count == 10
    source = source_of(kind, tmp_path)
    assert source.schema.field("value").type == pa.struct([("v", pa.float64())])
    rows = source.read(0, 0, 99).sort_by("offset")
    assert rows.column("value").to_pylist() == [{"v": float(one)} for one in range(9)]
    assert offsets_of(source_of(kind, tmp_path, dead_letters=True)) == [1]


#: The commits of the catalog, or the manifests, that make a table anew, and the one of them that has its rows; without and
#: with dead-letter records before.
COMMITS = {("iceberg", False): (4, 3), ("iceberg", True): (3, 2), ("parquet", False): (1, 1), ("parquet", True): (1, 1)}


@pytest.mark.parametrize(
    ("kind", "has_dead", "commits", "is_new"),
    [
        (kind, has_dead, commits, commits >= of_rows)
        for (kind, has_dead), (count, of_rows) in COMMITS.items()
        for commits in range(count + 1)
    ],
)
def test_death_while_a_table_is_made_anew_leaves_the_old_one_or_the_new_one(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_dead: bool, commits: int, is_new: bool
) -> None:
    """The process ends before the first commit, or after one and before its response."""
    dead = [1, 3] if has_dead else []
    table = open_table(kind, tmp_path)
    old = typed_rows(0, 5, pa.int64())
    table.evolve(old.schema)
    table.write(old, dead_letter_rows(*dead, hours=0))
    table.commit(covered(5))
    owner, name = (SqlCatalog, "commit_table") if kind == "iceberg" else (ParquetTable, "_replace")
    original, calls = getattr(owner, name), []

    def dies(*given, **named):  # type: ignore[no-untyped-def]
        calls.append(1)
        response = original(*given, **named) if len(calls) <= commits else None
        if len(calls) >= commits:
            raise KeyboardInterrupt
        return response

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, dies)
        with pytest.raises(KeyboardInterrupt):
            remake(table, 9, 1, 7)
    if kind == "parquet":
        table._lock.close()  # type: ignore[attr-defined]  # the end of the process
    again = open_table(kind, tmp_path)
    assert again.covered == covered(9 if is_new else 5)
    assert offsets_of(source_of(kind, tmp_path)) == list(range(9 if is_new else 5))
    if not is_new:
        assert dead_letters(kind, tmp_path) == dead
        remake(again, 9, 1, 7)
    assert offsets_of(source_of(kind, tmp_path)) == list(range(9))
    assert dead_letters(kind, tmp_path) == [1, 7]


def dead_letters(kind: str, folder: Path) -> list[int]:
    """Offsets of dead-letter records; nothing where no table has any."""
    try:
        return offsets_of(source_of(kind, folder, dead_letters=True))
    except ArchiveError:
        return []
