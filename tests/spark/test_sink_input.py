"""Rows of Spark 4.0 become the batches of Arrow that later releases give."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from odradek.sink.columns import rows_of
from odradek.spark.options import InvalidOptions
from odradek.spark.sink import check_rows
from odradek.spark.sink_input import ROWS, batches_of
from odradek.spark.sink_options import ColumnFormat, SinkOptions
from pyspark.sql import Row
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructField, StructType, TimestampType

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", StringType()),
        StructField("headers", HEADERS),
        StructField("timestamp", TimestampType()),
    ]
)
#: Seconds, in winter and in both passes of the hour that New York has twice.
TIMES = (1_700_000_000, 1_699_162_200, 1_699_165_800)


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as environment:
        environment.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


def test_timestamps_of_rows_are_moments_in_any_time_zone(new_york: None) -> None:
    # Spark's rows have local times without a zone.
    times = [datetime.fromtimestamp(seconds) for seconds in TIMES]
    rows = [Row(key=None, value="a", headers=None, timestamp=local) for local in (*times, None)]
    (batch,) = batches_of(rows, SCHEMA)
    moments = [datetime.fromtimestamp(seconds, UTC) for seconds in TIMES]
    assert batch.column("timestamp").to_pylist() == [*moments, None]
    stamps = rows_of(batch).columns[0]
    assert stamps is not None and list(stamps)[:3] == [seconds * 1000 for seconds in TIMES]


def test_timestamps_within_typed_columns_are_moments_in_any_time_zone(new_york: None) -> None:
    inner = StructType([StructField("at", TimestampType()), StructField("all", ArrayType(TimestampType()))])
    schema = StructType([StructField("value", inner), StructField("by", MapType(StringType(), TimestampType()))])
    local, moment = datetime.fromtimestamp(TIMES[0]), datetime.fromtimestamp(TIMES[0], UTC)
    rows = [Row(value=Row(at=local, all=[local, None]), by={"a": local, "b": None}), Row(value=None, by=None)]
    (batch,) = batches_of(rows, schema)
    assert batch.to_pylist(maps_as_pydicts="strict") == [
        {"value": {"at": moment, "all": [moment, None]}, "by": {"a": moment, "b": None}},
        {"value": None, "by": None},
    ]


def test_rows_have_the_columns_of_batches() -> None:
    header = Row(key="h", value=b"1")
    rows = [Row(key=bytearray(b"k"), value="v", headers=[header, header], timestamp=datetime(2026, 1, 1))]
    (batch,) = batches_of(rows, SCHEMA)
    assert batch.select(["key", "value", "headers"]).to_pylist() == [
        {"key": b"k", "value": "v", "headers": [{"key": "h", "value": b"1"}] * 2}
    ]


def test_rows_fill_one_batch_after_another() -> None:
    schema = StructType([StructField("value", StringType())])
    found = list(batches_of((Row(value=str(number)) for number in range(ROWS + 1)), schema))
    assert [batch.num_rows for batch in found] == [ROWS, 1]
    assert found[1].column(0).to_pylist() == [str(ROWS)]


def test_batches_of_arrow_pass_as_they_are() -> None:
    batch = pa.RecordBatch.from_pydict({"value": ["a"]})
    (found,) = batches_of([batch], StructType([StructField("value", StringType())]))
    assert found is batch


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("key",), "'value' not found"),
        (("value", "vlaue"), "a record has no 'vlaue'"),
        (("value", "key", "value"), "there are 2 columns 'value'; a record has one"),
        (("value",), "topic option required"),
    ],
)
def test_columns_of_which_no_record_can_be_made_are_refused(names: tuple[str, ...], words: str) -> None:
    with pytest.raises(InvalidOptions, match=words):
        check_rows(StructType([StructField(name, StringType()) for name in names]), SinkOptions({}))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("key",), "'value' not found"),
        (("value", "id"), "a record has no 'id'"),
        (("id", "key", "id"), "there are 2 columns 'id'"),
        (("id", "key"), "topic option required"),
    ],
)
def test_fields_of_a_typed_value_are_columns_of_their_own(names: tuple[str, ...], words: str) -> None:
    schema = StructType([StructField(name, StringType()) for name in names])
    with pytest.raises(InvalidOptions, match=words):
        check_rows(schema, SinkOptions({}, values=ColumnFormat("json")))
