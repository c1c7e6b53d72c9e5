"""Every type of Avro, Protobuf and JSON Schema in Spark: of format("odradek") the same value, or null and (FAILFAST) a
reason; of an archived table, read by Spark SQL, the same value or a dead-letter record.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import odradek
import pyarrow as pa
import pytest
from odradek.archive.column_types import storable
from odradek.columns import decoder_of
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import LongType, StructType
from session import CATALOG

from compat_tests.cli.commands import odradek_command
from tests.columns.harness.schema_types import CASES, Case, numbered
from tests.columns.harness.typed_topics import Written, assert_cells, write_topics


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Written]]:
    with odradek.Broker(data_dir=tmp_path_factory.mktemp("types"), schema_registry=True) as broker:
        yield write_topics(broker)


def spark_type(kind: pa.DataType) -> pa.DataType:
    """The type of Spark's schema for a column: it has bytes of any size only."""
    if pa.types.is_struct(kind):
        return pa.struct([(one.name, spark_type(one.type)) for one in kind])
    return pa.binary() if pa.types.is_fixed_size_binary(kind) else kind


@pytest.mark.parametrize("form", CASES)
def test_spark_has_each_value_or_null_and_a_reason(spark: SparkSession, written: dict[str, Written], form: str) -> None:
    topic = written[form]
    kind = storable(decoder_of(topic.schema, form, lambda: pa.array([], pa.binary()), "us").type)
    schema = (
        StructType()
        .add("offset", LongType())
        .add("value", from_arrow_type(spark_type(kind), prefer_timestamp_ntz=True))
    )
    given = {"kafka.bootstrap.servers": topic.client, "subscribe": form, "valueFormat": form}
    if form != "json":
        given["schemaRegistry"] = topic.registry
    source = spark.read.format("odradek").options(**given).schema(schema)
    table = source.load().toArrow().sort_by("offset")
    rows = table.column("value").combine_chunks()
    bad = {offset: case.name for offset, case, value in numbered(form) if value.wanted(in_table=True)[1] is not None}
    assert {row for row in range(len(rows)) if not rows[row].is_valid} == bad.keys()
    with pytest.raises(PySparkException) as raised:
        source.option("mode", "FAILFAST").load().toArrow()
    first = min(bad)
    assert f"offset {first}: the value does not decode" in str(raised.value) and bad[first] in str(raised.value)
    assert_cells([one for one in numbered(form) if one[0] not in bad], rows, {}, in_table=True)


@pytest.mark.parametrize("form", CASES)
def test_spark_sql_has_each_value_of_an_archived_table(
    spark: SparkSession, warehouse: Path, written: dict[str, Written], form: str
) -> None:
    topic, name = written[form], f"types_{form}"
    # Spark reads no table with a time of day, which Avro alone has. Numbers have the digits below a microsecond, too.
    times = "number" if form == "avro" else "native"
    options = ("--value-format", form, "--schema-registry", topic.registry, "--times", times, "--once")
    done = odradek_command(
        "archive", form, "--warehouse", str(warehouse), "--table", name, *options, "-b", topic.client
    )
    assert done.status == 0, done.err
    reasons = {
        row.offset: row.reason
        for row in spark.sql(f"select offset, reason from {CATALOG}.kafka.{name}_dead_letters").collect()
    }
    table = spark.sql(f"select offset, value from {CATALOG}.kafka.{name}").toArrow().sort_by("offset")
    places = dict(zip(table.column("offset").to_pylist(), range(table.num_rows), strict=True))
    cells = list(numbered(form))
    order = pa.array([places.get(offset) for offset, _, _ in cells], pa.int64())
    assert len(cells) == len(places) + len(reasons)
    rows = table.column("value").combine_chunks().take(order)
    assert_cells([one for one in cells if times == "native" or not is_number(one[1])], rows, reasons, in_table=True)
    for offset, case, value in cells:
        if times == "number" and is_number(case):
            want, reason = value.wanted(in_table=False)
            assert (offset in reasons) == (reason is not None), case.name
            assert reason is not None or rows[offset][case.name].as_py() == in_microseconds(want, case.column)


def is_number(case: Case) -> bool:
    """Whether a table has a number in place of a time."""
    return pa.types.is_time(case.column) or (pa.types.is_timestamp(case.column) and case.column.unit == "ns")


def in_microseconds(number: int | None, kind: pa.DataType) -> int | None:
    return number if number is None or kind.unit != "ms" else number * 1000
