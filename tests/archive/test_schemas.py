"""Types of tables and their evolution: what a column takes, and which rows become dead-letter records."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from odradek.archive import open_catalog
from odradek.archive.column_types import Times, cut_fields, merged, storable, times_of_day
from odradek.archive.conforming import conformed
from odradek.archive.rows import DEAD_LETTER_SCHEMA, RAW_SCHEMA, RawRows, TypedRows
from odradek.columns import INFER, SCHEMA, ValueSchema
from pyiceberg.io.pyarrow import schema_to_pyarrow


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        (pa.int8(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.decimal128(20, 0)),
        (pa.float16(), pa.float32()),
        (pa.large_string(), pa.string()),
        (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")),
        (pa.timestamp("ns"), pa.timestamp("us")),
        (pa.time32("ms"), pa.time64("us")),
        (pa.struct([("a", pa.list_(pa.int16()))]), pa.struct([("a", pa.list_(pa.field("element", pa.int32())))])),
        (pa.map_(pa.large_string(), pa.uint8()), pa.map_(pa.string(), pa.int32())),
    ],
)
def test_types_are_stored_as_types_that_iceberg_has(tmp_path: Path, kind: pa.DataType, stored: pa.DataType) -> None:
    assert storable(kind) == stored == storable(stored)
    catalog = open_catalog(tmp_path, {})
    catalog.create_namespace("n")
    made = catalog.create_table("n.t", pa.schema([("x", stored)]))
    assert storable(schema_to_pyarrow(made.schema()).field("x").type) == stored


NANOS, US = pa.timestamp("ns", "UTC"), pa.timestamp("us", "UTC")


def test_times_as_numbers_are_stored_as_long_at_every_level() -> None:
    of_day = pa.struct([("s", pa.time32("ms")), ("u", pa.time64("us"))])
    found = conformed(
        pa.array([{"s": 86_399_999, "u": 5}, {"s": None, "u": None}], of_day), storable(of_day, Times.number)
    )
    assert not found.bad and found.values.to_pylist() == [{"s": 86_399_999_000, "u": 5}, {"s": None, "u": None}]
    assert times_of_day(of_day) == ["value.s", "value.u"] and times_of_day(storable(of_day, Times.number)) == []
    kind = pa.struct([("a", NANOS), ("b", pa.list_(NANOS)), ("c", pa.map_(pa.string(), NANOS)), ("d", US)])
    item = pa.list_(pa.field("element", pa.int64()))
    stored = pa.struct([("a", pa.int64()), ("b", item), ("c", pa.map_(pa.string(), pa.int64())), ("d", US)])
    assert storable(kind, Times.number) == stored
    values = pa.array([{"a": 1, "b": [-1, None], "c": [("k", 1_001)], "d": 5}], kind)
    found = conformed(values, stored)
    assert not found.bad and found.values.to_pylist() == [
        {"a": 1, "b": [-1, None], "c": [("k", 1_001)], "d": values[0]["d"].as_py()}
    ]
    assert cut_fields(kind, storable(kind)) == ["value.a", "value.b[]", "value.c{}"] and cut_fields(kind, stored) == []


def test_times_other_than_nanoseconds_are_no_numbers() -> None:
    """A column of integers stays one of integers: microseconds are not the numbers that it had."""
    assert list(conformed(pa.array([5], US), pa.int64()).bad) == [0]


@pytest.mark.parametrize(
    ("old", "new", "grown"),
    [
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.int64(), pa.int32(), pa.int64()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.decimal128(9, 2), pa.decimal128(12, 2), pa.decimal128(12, 2)),
        (pa.decimal128(9, 2), pa.decimal128(12, 3), pa.decimal128(9, 2)),
        (pa.int64(), pa.float64(), pa.int64()),
        (pa.int64(), pa.string(), pa.int64()),
        (
            pa.struct([("a", pa.int32())]),
            pa.struct([("b", pa.string())]),
            pa.struct([("a", pa.int32()), ("b", pa.string())]),
        ),
        (
            pa.list_(pa.field("element", pa.struct([("a", pa.int32())]))),
            pa.list_(pa.field("element", pa.struct([("a", pa.int64()), ("b", pa.bool_())]))),
            pa.list_(pa.field("element", pa.struct([("a", pa.int64()), ("b", pa.bool_())]))),
        ),
    ],
)
def test_columns_are_added_and_widened_and_never_dropped(
    old: pa.DataType, new: pa.DataType, grown: pa.DataType
) -> None:
    assert merged(old, new) == grown
    assert merged(grown, old) == grown and merged(grown, new) == grown


def test_rows_that_do_not_fit_a_column_are_named_and_no_other_row_changes() -> None:
    kind = pa.struct([("n", pa.int64()), ("items", pa.list_(pa.field("element", pa.int32()))), ("new", pa.string())])
    values = pa.array(
        [
            {"n": "5", "items": ["1", "2"]}, {"n": "x", "items": []}, None, {"n": None, "items": ["3", "y"]},
            {"n": "7", "items": None},
        ],
        pa.struct([("n", pa.string()), ("items", pa.list_(pa.string())), ("gone", pa.bool_())]),
    )  # fmt: skip
    found = conformed(values, kind)
    found.values.validate(full=True)
    assert sorted(found.bad) == [1, 3]
    assert "n" in found.bad[1] and "items" in found.bad[3]
    rows = found.values.to_pylist()
    assert rows[0] == {"n": 5, "items": [1, 2], "new": None}
    assert rows[2] is None and rows[4] == {"n": 7, "items": None, "new": None}


def test_maps_and_slices_conform_with_their_own_rows() -> None:
    values = pa.array([[("a", 1)], None, [("b", 2), ("c", 3)]], pa.map_(pa.string(), pa.int32())).slice(1)
    found = conformed(values, pa.map_(pa.string(), pa.int64()))
    assert found.values.to_pylist() == [None, [("b", 2), ("c", 3)]] and not found.bad
    bad = conformed(
        pa.array([[("a", "1")], [("b", "x")]], pa.map_(pa.string(), pa.string())), pa.map_(pa.string(), pa.int32())
    )
    assert list(bad.bad) == [1] and bad.values.to_pylist()[0] == [("a", 1)]


def test_a_type_of_another_kind_fits_where_it_is_null() -> None:
    values = pa.array([{"a": None}, {"a": {"b": 1}}], pa.struct([("a", pa.struct([("b", pa.int32())]))]))
    found = conformed(values, pa.struct([("a", pa.int64())]))
    assert list(found.bad) == [1] and found.values[0].as_py() == {"a": None}


def batch_of(values: list[Any], **columns: list[Any]) -> pa.RecordBatch:
    count = len(values)
    rows = {
        "topic": ["t"] * count, "partition": [0] * count, "offset": list(range(count)),
        "timestamp": [datetime.datetime(2026, 3, 4, tzinfo=datetime.UTC)] * count, "timestamp_type": [0] * count,
        "key": [b"k"] * count, "headers": [[{"key": "h", "value": None}]] * count,
        "value": [json.dumps(one).encode() if not isinstance(one, bytes | None) else one for one in values],
    } | columns  # fmt: skip
    return pa.RecordBatch.from_pydict(rows, SCHEMA).select([one for one in SCHEMA.names if one != "topic"])


def test_raw_rows_are_the_records() -> None:
    batch = batch_of([b"\xff", None, b""])
    found = RawRows().rows(batch)
    assert found.rows.schema == RAW_SCHEMA and not found.dead_letter_records.num_rows
    assert found.rows.to_pylist() == batch.to_pylist()


def test_timestamps_without_a_date_are_dead_letter_records() -> None:
    stamps = pa.array([0, 1_700_000_000_000_000, None, -62_135_596_800_001, 253_402_300_799_999], pa.int64())
    batch = batch_of([b"v"] * 5)
    batch = batch.set_column(1 + 1, batch.schema.field("timestamp"), stamps.cast(pa.timestamp("ms", "UTC")))
    found = RawRows().rows(batch)
    assert found.rows.column("offset").to_pylist() == [0, 2, 4]
    assert found.dead_letter_records.column("offset").to_pylist() == [1, 3]
    assert "1700000000000000 ms" in found.dead_letter_records.column("reason")[0].as_py()
    assert found.dead_letter_records.column("timestamp").null_count == 2


def test_rows_without_a_sample_have_the_type_of_their_first_batch_and_keep_other_fields_as_text() -> None:
    rows = TypedRows(ValueSchema("json"), "t", None)
    empty = batch_of([None])
    rows.prepare(empty)
    assert "value" not in rows.schema.names
    assert rows.rows(empty).rows.column("offset").to_pylist() == [0]
    second = batch_of([b"no json", {"id": 1, "later": None}, {"id": 2, "a": {"b": [1.5]}}])
    rows.prepare(second)
    assert rows.schema.field("value").type == storable(
        pa.struct([("id", pa.int64()), ("a", pa.struct([("b", pa.list_(pa.float64()))]))])
    )
    found = rows.rows(second)
    assert found.rows.column("value").to_pylist() == [{"id": 1, "a": None}, {"id": 2, "a": {"b": [1.5]}}]
    assert found.dead_letter_records.schema == DEAD_LETTER_SCHEMA and found.dead_letter_records.num_rows == 1
    third = batch_of([{"id": "x"}, {"id": "3", "later": "t"}, {"id": 4.5}, {"a": {"b": [], "c": 1}}, {"a": None}])
    rows.prepare(third)
    found = rows.rows(third)
    assert found.rows.column("value").to_pylist() == [
        {"id": 3, "a": None}, {"id": None, "a": {"b": []}}, {"id": None, "a": None}
    ]  # fmt: skip
    texts = found.rows.column("value_json").to_pylist()
    assert texts == ['{"id": "3", "later": "t"}', '{"a": {"b": [], "c": 1}}', None]
    assert found.dead_letter_records.column("offset").to_pylist() == [0, 2]


def test_the_type_of_the_table_is_kept_at_a_restart_and_bytes_stay_beside_it() -> None:
    rows = TypedRows(ValueSchema("json", INFER), "t", None, with_bytes=True)
    batch = batch_of([{"id": 1}])
    rows.prepare(batch)
    again = TypedRows(ValueSchema("json", pa.schema([("id", pa.string()), ("new", pa.bool_())])), "t", rows.schema)
    assert again.schema.field("value").type == pa.struct([("id", pa.int64()), ("new", pa.bool_())])
    found = again.rows(batch_of([{"id": "one"}, {"id": 2, "new": True}, None]))
    assert found.rows.column("value").to_pylist() == [{"id": 2, "new": True}, None]
    assert found.rows.column("value_bytes").to_pylist() == [b'{"id": 2, "new": true}', None]


def test_values_without_an_object_are_dead_letter_records_of_a_table_with_columns() -> None:
    table = pa.schema(
        [*(one for one in RAW_SCHEMA if one.name != "value"), pa.field("value", pa.struct([("id", pa.int64())]))]
    )
    rows = TypedRows(ValueSchema("json", INFER), "orders", table)
    scanned = pa.RecordBatch.from_pylist(
        [
            {
                "topic": "orders",
                "partition": 0,
                "offset": 7,
                "timestamp": 0,
                "timestamp_type": 0,
                "value": b"broken",
                "headers": [],
            }
        ],
        SCHEMA,
    )
    rows.prepare(scanned)
    made = rows.rows(scanned)
    assert made.rows.num_rows == 0 and made.rows.schema.field("value").type == table.field("value").type
    assert made.dead_letter_records.column("offset").to_pylist() == [7]
