"""A topic's table and its log as one in Spark: `format("odradek")` with the place of a table, and `read_relation`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odradek
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from odradek.archive import ArchiveOptions, Archiver
from odradek.archive.relation import Relation
from odradek.columns import INFER, ValueSchema
from odradek.spark.options import InvalidOptions
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from pyspark_odradek import read_relation
from tests.archive.harness.broker import NOW_MS, Harness, rows_of_table
from tests.archive.harness.tables import KINDS, open_table

INFERRED = ValueSchema("json", INFER)
PLACE = {"iceberg": "warehouse", "parquet": "parquet"}
#: Spark's setting for push-down into sources in Python.
SETTING = "spark.sql.python.filterPushdown.enabled"
#: Bytes of a task, so that small tables and logs have several.
TASK_BYTES = 4_000
_DEADLINE_S = 300


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    made = Harness(tmp_path_factory.mktemp("broker"))
    with made.process:
        yield made


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def archiver(harness: Harness, kind: str, folder: Path, topic: str, **options: Any) -> Archiver:
    return Archiver(
        harness.client, [topic], lambda owner: open_table(kind, folder, owner), ArchiveOptions(**options)
    )  # fmt: skip


def source(spark: SparkSession, harness: Harness, kind: str, folder: Path, topic: str, **options: Any) -> DataFrame:
    given = {"kafka.bootstrap.servers": harness.process.bootstrap, "subscribe": topic, PLACE[kind]: str(folder)}
    return spark.read.format("odradek").options(**given | {"splitBytes": str(TASK_BYTES)} | options).load()


def related(harness: Harness, kind: str, folder: Path, topic: str, **options: Any) -> Relation:
    return odradek.relation(topic, client=harness.client, **{PLACE[kind]: folder}, **options)


def rows_of(frame: DataFrame) -> list[Any]:
    return rows_of_table(pa.Table.from_batches(frame.toArrow().to_batches()))


@pytest.fixture(scope="module")
def folders(harness: Harness, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A table of each kind: three partitions, several commits, transactions, and records after the newest commit."""
    found = {}
    for kind in KINDS:
        topic, found[kind] = f"spark_{kind}", tmp_path_factory.mktemp(kind)
        harness.create(topic, 3)
        for round_ in range(3):
            for partition in range(3):
                harness.fill(topic, 60 + round_, partition=partition)
            harness.fill_transactions(topic)
            if round_ < 2:
                archiver(harness, kind, found[kind], topic).run(once=True)
    return found


def test_rows_are_those_of_a_consumer_and_tasks_share_them(
    spark: SparkSession, harness: Harness, folders: dict[str, Path], kind: str
) -> None:
    topic = f"spark_{kind}"
    expected = harness.read(topic)
    made = related(harness, kind, folders[kind], topic)
    for frame in (
        source(spark, harness, kind, folders[kind], topic),
        read_relation(spark, made, task_bytes=TASK_BYTES),
    ):
        assert frame.columns == made.schema.names
        assert rows_of(frame) == expected
    parts = frame.selectExpr("spark_partition_id() as part", "partition", "offset").collect()
    start = made.offsets[0][0]
    in_table, in_log = (
        {one.part for one in parts if (one.offset < made.offsets[one.partition][0]) is is_stored}
        for is_stored in (True, False)
    )
    assert start > 0 and len(in_table) > 1 and len(in_log) > 2 and not in_table & in_log


def test_sql_over_typed_values_has_the_rows_that_the_archiver_would_make(
    spark: SparkSession, harness: Harness, tmp_path: Path
) -> None:
    topic = "spark_typed"
    harness.create(topic, 2)
    for first in (0, 100):
        for partition in (0, 1):
            values: list[bytes | None] = [
                b'{"id": %d, "of": {"a": "x%d"}}' % (one, one) for one in range(first, first + 100)
            ]
            harness.write(topic, [*values, None, b"no JSON"], partition)
        if not first:
            archiver(harness, "iceberg", tmp_path, topic, values=INFERRED).run(once=True)
    spark.sql(
        f"""CREATE OR REPLACE TEMPORARY VIEW typed USING odradek OPTIONS (`kafka.bootstrap.servers`
        '{harness.process.bootstrap}', subscribe '{topic}', warehouse '{tmp_path}', valueFormat 'json',
        valueSchema 'infer', splitBytes '{TASK_BYTES}')"""
    )
    (found,) = spark.sql("SELECT count(*) AS rows, sum(value.id) AS ids, max(value.of.a) AS text FROM typed").collect()
    assert found == Row(rows=404, ids=2 * sum(range(200)), text="x99")
    made = related(harness, "iceberg", tmp_path, topic, values=INFERRED)
    narrow = read_relation(spark, made, "value struct<of: struct<a: string>>, offset bigint", task_bytes=TASK_BYTES)
    texts = [row.value.of.a for row in narrow.where("value is not null").collect()]
    assert sorted(texts) == sorted(2 * [f"x{one}" for one in range(200)])
    spark.conf.set(SETTING, "true")
    try:
        assert spark.sql("SELECT value.id FROM typed WHERE value.id >= 98 AND value.id < 102").count() == 8
        assert spark.sql("SELECT 1 FROM typed WHERE value.of.a = 'x150'").count() == 2
    finally:
        spark.conf.unset(SETTING)


def test_queries_beside_a_running_archiver_have_each_record_once(
    spark: SparkSession, harness: Harness, tmp_path: Path
) -> None:
    kind = "parquet"  # whose files a merge deletes at once
    topic = f"spark_running_{kind}"
    harness.create(topic, 2)
    harness.fill(topic, 50)
    archiver(harness, kind, tmp_path, topic).run(once=True)
    fixed = related(harness, kind, tmp_path, topic)
    running = archiver(harness, kind, tmp_path, topic, freshness_s=0.1)
    threads = [threading.Thread(target=running.run)]
    stopped = threading.Event()

    def produce() -> None:
        producer = Producer(harness.client)
        while not stopped.wait(0.05):
            for number in range(20):
                producer.produce(topic, b"v", b"k", number % 2, timestamp=NOW_MS)
            producer.flush()

    threads.append(threading.Thread(target=produce))
    for one in threads:
        one.start()
    counts = []
    try:
        for _ in range(3):
            found = source(spark, harness, kind, tmp_path, topic).groupBy("partition").agg(
                {"offset": "max", "*": "count"}
            ).collect()  # fmt: skip
            assert all(row["count(1)"] == row["max(offset)"] + 1 for row in found)
            counts.append(sum(row["count(1)"] for row in found))
        distinct = source(spark, harness, kind, tmp_path, topic).select("partition", "offset")
        assert distinct.groupBy("partition", "offset").count().where("count > 1").count() == 0
        assert read_relation(spark, fixed, ["offset"], task_bytes=TASK_BYTES).count() == 50
    finally:
        stopped.set()
        running.stop()
        for one in threads:
            one.join(_DEADLINE_S)
    assert not any(one.is_alive() for one in threads)
    assert counts == sorted(counts) and counts[0] > 50 and counts[-1] > counts[0]


def test_mistakes_are_named_in_a_line(
    spark: SparkSession, harness: Harness, folders: dict[str, Path], tmp_path: Path
) -> None:
    topic, folder = "spark_iceberg", folders["iceberg"]
    with pytest.raises(PySparkException, match=r"a relation of format\(.odradek.\) has no option .startingoffsets"):
        source(spark, harness, "iceberg", folder, topic, startingOffsets="earliest")
    with pytest.raises(PySparkException, match=r"no table kafka\.elsewhere"):
        source(spark, harness, "iceberg", folder, topic, table="elsewhere")
    made = related(harness, "iceberg", folder, topic)
    with pytest.raises(InvalidOptions, match="there is no column 'keys'"):
        read_relation(spark, made, ["keys"])
    with pytest.raises(InvalidOptions, match="the column 'value' is binary, not"):
        read_relation(spark, made, "value struct<a: int>")
    given = {"kafka.bootstrap.servers": harness.process.bootstrap, "subscribe": topic, "warehouse": str(folder)}
    stream = spark.readStream.format("odradek").options(**given).load().writeStream.format("noop")
    with pytest.raises(PySparkException, match="are read in batches"):
        stream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination()
