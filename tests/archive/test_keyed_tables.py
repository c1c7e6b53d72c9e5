"""Keyed tables equal a model of their rows: whatever the commits, deaths, merges, and the partitions of a key."""

from __future__ import annotations

import datetime
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from odradek.archive import ArchiveError, Maintenance, TableChanged, open_catalog
from odradek.archive.key_columns import KeyColumns
from odradek.archive.keyed import Keyed
from odradek.archive.keyed_table import KeyedTable
from odradek.archive.rows import RAW_SCHEMA
from odradek.archive.store import FILES_TO_MERGE, Covered
from odradek.archive.table_partitions import partition_columns
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo

from tests.archive.harness.keyed import Model, Record, keyed_rows, open_keyed, raw_rows, rows_by_engine, scanned
from tests.archive.harness.tables import TOPIC, TOPIC_ID, dead_letter_rows, open_table
from tests.harness.examples import examples

pytestmark = pytest.mark.slow

BY_KEY = Keyed(KeyColumns.named(["key"]))


class Died(Exception):
    """The process ended."""


def commit(table: KeyedTable, records: Sequence[Record], offsets: dict[int, int], *dead: int) -> None:
    table.evolve(RAW_SCHEMA)
    half = len(records) // 2
    for part in (records[:half], records[half:]):
        table.write(raw_rows(part), dead_letter_rows())
    table.write(raw_rows([]), dead_letter_rows(*dead))
    table.commit(Covered(TOPIC, TOPIC_ID, offsets))


def ends_of(records: Sequence[Record]) -> dict[int, int]:
    return {one.partition: one.offset + 1 for one in sorted(records, key=lambda one: one.offset)}


@st.composite
def logs(draw: st.DrawFn, *, can_move: bool) -> list[Record]:
    """Records of three partitions, each in the order of its offsets. With `can_move`, a key is in several of them, and no
    record deletes; without, each key has a partition.
    """
    found, offsets = [], [0, 0, 0]
    for number in range(draw(st.integers(5, 30))):
        key = draw(st.integers(0, 8))
        partition = draw(st.integers(0, 2)) if can_move else key % 3
        value = None if not can_move and draw(st.integers(0, 3)) == 0 else b"v%d" % number
        found.append(Record(partition, offsets[partition], b"k%d" % key, value, draw(st.integers(0, 6))))
        offsets[partition] += draw(st.integers(1, 3))
    return found


class Dying:
    """A catalog that ends the process before a commit, or after it and before its response."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.death: str | None = None
        original = SqlCatalog.commit_table

        def commit_table(catalog: SqlCatalog, *given: Any, **named: Any) -> Any:
            death, self.death = self.death, None
            if death == "before":
                raise Died
            response = original(catalog, *given, **named)
            if death == "after":
                raise Died
            return response

        monkeypatch.setattr(SqlCatalog, "commit_table", commit_table)


@pytest.mark.parametrize("can_move", [False, True], ids=["key-in-one-partition", "key-in-several-partitions"])
@settings(
    max_examples=examples(10),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a failure is shown as it comes: shrinking takes minutes
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_rows_equal_the_model_through_commits_deaths_and_merges(
    data: st.DataObject, can_move: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, log = tmp_path_factory.mktemp("keyed"), data.draw(logs(can_move=can_move))
    with pytest.MonkeyPatch.context() as patch:
        dying = Dying(patch)
        table = open_keyed(folder, BY_KEY, target_file_bytes=64 << 10)
        commit(table, [], {})
        table.most_pending_bytes = data.draw(st.sampled_from([1, 1 << 30]))
        done: dict[int, int] = {}
        while left := [one for one in log if one.offset >= done.get(one.partition, 0)]:
            turn = left[: data.draw(st.integers(1, len(left)))]
            dying.death = data.draw(st.sampled_from([None, None, "before", "after"]))
            try:
                commit(table, turn, done | ends_of(turn))
            except Died:
                table = open_keyed(folder, BY_KEY, target_file_bytes=64 << 10)
            dying.death = None
            assert table.covered is not None
            done = table.covered.offsets
            model = Model()
            model.add(one for one in log if one.offset < done.get(one.partition, 0))
            assert keyed_rows(scanned(folder)) == model.rows()
            if data.draw(st.booleans()):
                table.maintain()
                assert keyed_rows(scanned(folder)) == model.rows()
    for engine, rows in rows_by_engine(folder).items():
        assert rows == model.rows() if log else rows == {}, engine


def now_records(count: int, first: int = 0) -> list[Record]:
    return [Record(0, first + one, b"k%03d" % one, b"v%d" % (first + one), first + one) for one in range(count)]


def files_of(folder: Path) -> list[Any]:
    return [task.file for task in open_catalog(folder, {}).load_table("kafka.my_orders").scan().plan_files()]


def test_partitions_of_columns_and_buckets_hold_rows_that_move(tmp_path: Path) -> None:
    layout = Keyed(BY_KEY.key, partition_by=partition_columns("hour,bucket(4,key)"))
    model = Model()
    for turn in range(3):  # the record of a key goes to another hour
        records = [
            Record(0, turn * 20 + one, b"k%d" % (one % 12), b"v%d" % turn, turn * 3600 + one) for one in range(20)
        ]
        table = open_keyed(tmp_path, layout)
        commit(table, records, ends_of(records))
        model.add(records)
        assert keyed_rows(scanned(tmp_path)) == model.rows()
    stored = open_catalog(tmp_path, {}).load_table("kafka.my_orders")
    assert [(str(one.transform), one.name) for one in stored.spec().fields] == [
        ("hour", "timestamp_hour"), ("bucket[4]", "key_bucket"),
    ]  # fmt: skip
    assert len({repr(one.partition) for one in files_of(tmp_path)}) == len(files_of(tmp_path)) == 4
    found = stored.scan(EqualTo("key", b"k3")).plan_files()
    assert len(list(found)) == 1
    for engine, rows in rows_by_engine(tmp_path).items():
        assert rows == model.rows(), engine


@pytest.mark.parametrize("text", ["bucket(id)", "week(created)", "bucket(0,id)", "a,a", "day(", ""])
def test_partitions_that_are_none_are_errors(text: str) -> None:
    with pytest.raises(ArchiveError):
        partition_columns(text)


def test_a_commit_rewrites_only_the_files_with_its_keys(tmp_path: Path) -> None:
    table = open_keyed(tmp_path, BY_KEY)
    for number in range(5):
        records = [Record(0, number * 10 + one, b"%d-%d" % (number, one), b"v", number) for one in range(10)]
        commit(table, records, ends_of(records))
    before = {one.file_path for one in files_of(tmp_path)}
    commit(table, [Record(0, 50, b"2-7", b"new", 9), Record(0, 51, b"2-8", None, 9)], {0: 52})
    after = {one.file_path for one in files_of(tmp_path)}
    assert len(before) == len(after) == 5 and len(before & after) == 4
    assert scanned(tmp_path).num_rows == 49


def test_repeated_and_late_records_leave_the_row(tmp_path: Path) -> None:
    table = open_keyed(tmp_path, BY_KEY)
    commit(table, now_records(5, 100), {0: 105})
    rows, files = keyed_rows(scanned(tmp_path)), {one.file_path for one in files_of(tmp_path)}
    commit(table, now_records(5, 100) + now_records(5, 50), {0: 105, 1: 1})
    assert keyed_rows(scanned(tmp_path)) == rows
    assert {one.file_path for one in files_of(tmp_path)} == files


def test_deletion_of_a_commit_before_is_unknown_to_another_partition(tmp_path: Path) -> None:
    """The documented limit: only records of one commit are compared with a deletion."""
    table = open_keyed(tmp_path, BY_KEY)
    commit(table, [Record(0, 0, b"k", b"a", 1), Record(0, 1, b"k", None, 9), Record(1, 0, b"k", b"b", 5)], {0: 2, 1: 1})
    assert keyed_rows(scanned(tmp_path)) == {}
    commit(table, [Record(1, 1, b"k", b"c", 6)], {0: 2, 1: 2})
    assert keyed_rows(scanned(tmp_path)) == {b"k": (b"c", 1, 1)}


def test_rows_in_files_have_the_order_of_sort_by(tmp_path: Path) -> None:
    for folder, order, expected in (("key", (), "key"), ("offset", ("offset",), "offset")):
        table = open_keyed(tmp_path / folder, Keyed(BY_KEY.key, sort_by=order))
        records = [Record(0, one, b"k%d" % (one * 7 % 10), b"v", 0) for one in range(10)]
        commit(table, records, {0: 10})
        found = scanned(tmp_path / folder).column(expected).to_pylist()
        assert found == sorted(found)


def test_row_ttl_deletes_old_rows_and_keeps_the_offsets(tmp_path: Path) -> None:
    now_s = int(time.time() - datetime.datetime(2026, 3, 4, 22, tzinfo=datetime.UTC).timestamp())
    keyed = Keyed(BY_KEY.key, row_ttl_s=1000.0)
    table = open_keyed(tmp_path, keyed)
    ages = {b"new": 10, b"due": 1050, b"old": 5000}
    for number, (key, age) in enumerate(ages.items()):
        commit(table, [Record(0, number, key, b"v", now_s - age)], {0: number + 1})
    table.maintain()  # `due` is not overdue by a tenth
    assert keyed_rows(scanned(tmp_path)).keys() == {b"new", b"due"}
    assert open_keyed(tmp_path, keyed).covered == Covered(TOPIC, TOPIC_ID, {0: 3})
    stored = open_catalog(tmp_path, {}).load_table("kafka.my_orders")
    assert Maintenance().delete_old_rows(stored, {}) == 1
    assert keyed_rows(scanned(tmp_path)).keys() == {b"new"}


@pytest.mark.parametrize("ttl_s", [(2**63 - 1) / 1000, 1e30], ids=["most-of-the-config", "more"])
def test_row_ttl_beyond_all_timestamps_deletes_nothing(tmp_path: Path, ttl_s: float) -> None:
    table = open_keyed(tmp_path, Keyed(BY_KEY.key, row_ttl_s=ttl_s))
    commit(table, [Record(0, 0, b"k", b"v", -2_000_000_000)], {0: 1})
    table.maintain()
    assert keyed_rows(scanned(tmp_path)).keys() == {b"k"}


def test_small_files_are_merged_in_the_order_of_the_key_within_a_budget(tmp_path: Path) -> None:
    table = open_keyed(tmp_path, BY_KEY, merged_bytes=1)
    for number in range(FILES_TO_MERGE + 1):
        commit(table, [Record(0, number, b"k%02d" % (99 - number), b"v", number)], {0: number + 1})
    table.maintain()
    assert len(files_of(tmp_path)) == 1
    keys = scanned(tmp_path).column("key").to_pylist()
    assert keys == sorted(keys) and len(keys) == FILES_TO_MERGE + 1
    assert open_keyed(tmp_path, BY_KEY).covered == Covered(TOPIC, TOPIC_ID, {0: FILES_TO_MERGE + 1})


def test_second_archiver_of_a_keyed_table_fails_and_changes_nothing(tmp_path: Path) -> None:
    first = open_keyed(tmp_path, BY_KEY)
    commit(first, now_records(3), {0: 3})
    second = open_keyed(tmp_path, BY_KEY)
    commit(first, now_records(3, 3), {0: 6})
    with pytest.raises(TableChanged):
        commit(second, now_records(3, 3), {0: 6})
    second.abandon()
    assert second.covered == Covered(TOPIC, TOPIC_ID, {0: 6})
    assert {row[2] for row in keyed_rows(scanned(tmp_path)).values()} == {3, 4, 5}


def test_commit_of_another_program_in_between_fails_the_turn_and_the_next_has_the_rows(tmp_path: Path) -> None:
    table = open_keyed(tmp_path, BY_KEY)
    commit(table, now_records(3), {0: 3})
    table.evolve(RAW_SCHEMA)
    table.write(raw_rows(now_records(3, 3)), dead_letter_rows())
    table.most_pending_bytes = 1
    table.write(raw_rows(now_records(3, 6)), dead_letter_rows())
    other = open_catalog(tmp_path, {}).load_table("kafka.my_orders")
    other.delete(EqualTo("key", b"k001"))
    with pytest.raises(ArchiveError, match="changed by another program"):
        table.commit(Covered(TOPIC, TOPIC_ID, {0: 9}))
    table.abandon()
    assert table.covered == Covered(TOPIC, TOPIC_ID, {0: 3})
    commit(table, now_records(3, 6), {0: 9})
    assert {row[2] for row in keyed_rows(scanned(tmp_path)).values()} == {6, 7, 8}


def test_tables_of_another_form_are_errors(tmp_path: Path) -> None:
    plain = open_table("iceberg", tmp_path / "plain")
    plain.evolve(RAW_SCHEMA)
    plain.commit(Covered(TOPIC, TOPIC_ID, {0: 0}))
    plain.close()
    with pytest.raises(ArchiveError, match="has a row for each record"):
        open_keyed(tmp_path / "plain", BY_KEY)
    commit(open_keyed(tmp_path / "keyed", BY_KEY), [], {})
    with pytest.raises(ArchiveError, match="archive it with --key key"):
        open_table("iceberg", tmp_path / "keyed")


@pytest.mark.parametrize(
    "kind",
    [
        pa.int32(), pa.int64(), pa.string(), pa.binary(), pa.bool_(), pa.date32(), pa.timestamp("us"),
        pa.timestamp("us", "UTC"), pa.time64("us"), pa.decimal128(24, 2),
    ],
    ids=str,
)  # fmt: skip
def test_keys_of_all_types_are_equal_where_their_values_are(tmp_path: Path, kind: pa.DataType) -> None:
    keyed = Keyed(KeyColumns.named(["id", "part.name"]))
    numbers = pa.array([0, 1, 1], pa.int32() if pa.types.is_date(kind) or kind == pa.int32() else pa.int64())
    ids = numbers.cast(pa.string()).cast(kind) if pa.types.is_binary(kind) else numbers.cast(kind)
    part = pa.array([{"name": one} for one in ("x", "x", "x")], pa.struct([("name", pa.string())]))
    value = pa.StructArray.from_arrays([ids, part], ["id", "part"])
    for turn in range(2):
        records = [Record(0, turn * 3 + one, b"", b"", 0) for one in range(3)]
        rows = raw_rows(records).drop(["value"]).append_column("value", value)
        table = open_keyed(tmp_path, keyed)
        table.evolve(rows.schema)
        table.write(rows, dead_letter_rows())
        table.commit(Covered(TOPIC, TOPIC_ID, {0: turn * 3 + 3}))
        assert sorted(scanned(tmp_path).column("offset").to_pylist()) == [turn * 3, turn * 3 + 2]


def test_keys_of_two_columns_are_not_equal_where_their_texts_together_are() -> None:
    values = pa.array([{"a": "ab", "b": "c"}, {"a": "a", "b": "bc"}, {"a": "1:x", "b": ""}, {"a": "1", "b": "x"}])
    keys = KeyColumns.named(["a", "b"]).encoded(pa.table({"value": values}))
    assert len(set(keys.to_pylist())) == 4
