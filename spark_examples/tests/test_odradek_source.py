"""`format("odradek")` and `pyspark_odradek.read`: the rows of the stock connector, in batches and in streams."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition
from odradek.columns import ClusterError
from odradek.protocol.records.batch import iter_headers
from odradek.spark.options import InvalidOptions
from odradek.spark.planning import DataLoss
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from pyspark_odradek import read
from tests.columns.harness.logs import NOW_MS
from tests.columns.harness.world import CODECS, World

TOPICS = [*CODECS, "append-time", "transactions"]
COMMITTED = {"kafka.isolation.level": "read_committed"}
PRUNED = "timestampType int, value binary, offset bigint"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("world"))
    with made.broker:
        for seed, codec in enumerate(CODECS):
            made.create(codec, internal_segment_bytes="6000")
            made.fill(codec, 300, seed, compression_type=codec)
        made.create("append-time", message_timestamp_type="LogAppendTime")
        made.fill("append-time", 100, 8)
        made.create("transactions", internal_segment_bytes="2000")
        made.fill_transactions("transactions")
        yield made


def reading(spark: SparkSession, world: World, form: str, **options: Any) -> DataFrame:
    given = {"kafka.bootstrap.servers": world.broker.bootstrap_servers, "includeHeaders": "true"} | options
    return read(spark, **given) if form == "read" else spark.read.format(form).options(**given).load()


def rows(frame: DataFrame) -> list[Row]:
    return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))


@pytest.mark.parametrize("isolation", [{}, COMMITTED], ids=["uncommitted", "committed"])
def test_rows_equal_those_of_the_stock_connector(spark: SparkSession, world: World, isolation: dict[str, str]) -> None:
    stock, ours, frame = (
        reading(spark, world, form, subscribe=",".join(TOPICS), **isolation) for form in ("kafka", "odradek", "read")
    )
    assert frame.schema == ours.schema == stock.schema
    expected = rows(stock)
    assert rows(ours) == expected
    assert rows(frame) == expected
    assert {row.topic for row in expected} == set(TOPICS) and {row.timestampType for row in expected} == {0, 1}
    assert {row.headers is None for row in expected} == {row.value is None for row in expected} == {True, False}


@pytest.mark.parametrize(
    "options",
    [
        {
            "assign": '{"zstd":[0],"lz4":[0]}',
            "startingOffsets": '{"zstd":{"0":17},"lz4":{"0":-2}}',
            "endingOffsets": '{"zstd":{"0":-1},"lz4":{"0":230}}',
        },
        {
            "subscribePattern": "^(z|l)",
            "startingTimestamp": str(NOW_MS + 900_000),
            "startingOffsetsByTimestampStrategy": "latest",
            "endingOffsetsByTimestamp": json.dumps({"zstd": {"0": NOW_MS + 950_000}, "lz4": {"0": NOW_MS * 2}}),
        },
    ],
    ids=["offsets", "times"],
)
def test_ranges_equal_those_of_the_stock_connector(spark: SparkSession, world: World, options: dict[str, str]) -> None:
    expected = rows(reading(spark, world, "kafka", **options))
    assert expected and rows(reading(spark, world, "odradek", **options)) == expected
    assert rows(reading(spark, world, "read", **options)) == expected


def test_columns_of_the_schema_are_read_in_parts_that_fit_together(spark: SparkSession, world: World) -> None:
    given = {"kafka.bootstrap.servers": world.broker.bootstrap_servers, "subscribe": "none", "minPartitions": "6"}
    source = spark.read.format("odradek").schema(PRUNED).options(**given).load()
    for frame in (source, read(spark, PRUNED, **given), read(spark, ["timestampType", "value", "offset"], **given)):
        found = frame.selectExpr("*", "spark_partition_id() as part").collect()
        assert frame.schema == source.schema and frame.columns == ["timestampType", "value", "offset"]
        assert sorted(row.offset for row in found) == list(range(300)) and 4 <= len({row.part for row in found}) <= 8


def test_json_values_are_decoded_into_columns(spark: SparkSession, world: World) -> None:
    world.create("orders")
    producer = world.producer()
    for value in (b'{"id":1,"name":"a"}', b"no order", b'{"id":3}', None):
        producer.produce("orders", value, partition=0)
    producer.flush()
    given = {"kafka.bootstrap.servers": world.broker.bootstrap_servers, "subscribe": "orders", "valueFormat": "json"}
    schema = "value struct<id:bigint,name:string>, offset bigint"
    source = spark.read.format("odradek").schema(schema).options(**given)
    for frame in (source.load(), read(spark, schema, **given)):
        found = {row.offset: row.value and tuple(row.value) for row in frame.collect()}
        assert found == {0: (1, "a"), 1: None, 2: (3, None), 3: None}
    for frame in (source.option("mode", "FAILFAST").load(), read(spark, schema, mode="FAILFAST", **given)):
        with pytest.raises(PySparkException, match="orders-0: offset 1: the value does not decode"):
            frame.collect()


def test_an_error_of_the_options_reaches_the_user(spark: SparkSession, world: World) -> None:
    with pytest.raises(PySparkException, match="has no option 'startingoffset'; did you mean 'startingOffsets'"):
        reading(spark, world, "odradek", subscribe="none", startingOffset="latest")
    with pytest.raises(PySparkException, match="topic nowhere"):
        reading(spark, world, "odradek", subscribe="nowhere").collect()


def test_read_raises_the_errors_of_the_data_source_before_a_job(spark: SparkSession, world: World) -> None:
    mistakes: dict[str, dict[str, Any]] = {
        "has no option 'startingoffset'; did you mean": {"subscribe": "none", "startingOffset": "latest"},
        "starting offset can't be latest": {"subscribe": "none", "startingOffsets": "latest"},
        "there is no column 'keys'": {"subscribe": "none", "schema": ["keys"]},
        "a column is named twice": {"subscribe": "none", "schema": ["key", "key"]},
        "'headers' needs the option includeHeaders": {"subscribe": "none", "schema": ["headers"]},
        "'value' is binary, not string": {"subscribe": "none", "schema": "value string"},
        "'valueFormat' needs .schema": {"subscribe": "none", "valueFormat": "json"},
    }
    server = {"kafka.bootstrap.servers": world.broker.bootstrap_servers}
    for message, given in mistakes.items():
        with pytest.raises(InvalidOptions, match=message):
            read(spark, **server, **given)
    with pytest.raises(ClusterError, match="topic nowhere"):
        read(spark, subscribe="nowhere", **server)
    with pytest.raises(DataLoss, match="none-0: the log ends at 300, before offset 301"):
        read(spark, subscribe="none", endingOffsets='{"none":{"0":301}}', **server)


def test_actions_on_what_read_returns_have_the_same_records(spark: SparkSession, world: World) -> None:
    world.create("fixed")
    assert reading(spark, world, "read", subscribe="fixed").count() == 0
    produce(world, "fixed", 0, 20)
    frame = reading(spark, world, "read", subscribe="fixed", failOnDataLoss=True, minPartitions=2, endingOffsets=None)
    assert frame.count() == 20
    produce(world, "fixed", 20, 40)
    assert [row.value for row in rows(frame)] == values(0, 20)
    assert reading(spark, world, "read", subscribe="fixed").count() == 40


def test_records_that_vanish_or_are_damaged_fail_a_task_or_are_left_out(spark: SparkSession, world: World) -> None:
    world.create("lossy", internal_segment_bytes="500")
    for first in range(0, 200, 10):
        produce(world, "lossy", first, first + 10)
    segments = sorted(world.directory.glob("lossy-0/*.log"))
    strict, lenient = (
        [reading(spark, world, form, subscribe="lossy", failOnDataLoss=one) for form in ("odradek", "read")]
        for one in (True, False)
    )
    damaged = segments[2]
    content = bytearray(damaged.read_bytes())
    _, header = next(iter_headers(content))
    content[70] ^= 1
    damaged.write_bytes(content)
    lost = f"lossy-0: offsets? {header.base_offset} .*cannot be read: .*{damaged.name} at position 0: the CRC is"
    for frame in strict:
        with pytest.raises(PySparkException, match=lost):
            frame.collect()
    for frame in lenient:
        found = [row.value for row in rows(frame)]
        assert found == values(0, header.base_offset) + values(header.next_offset, 200)

    start = int(segments[3].stem)
    admin = KafkaAdminClient(bootstrap_servers=world.broker.bootstrap_servers)
    admin.delete_records({TopicPartition("lossy", 0): start})
    admin.close()
    for segment in segments[:3]:  # what retention does some minutes later
        segment.unlink(missing_ok=True)
    # The data source makes a new plan, that of `read` is from before.
    assert [[row.value for row in rows(frame)] for frame in lenient] == [values(start, 200)] * 2
    with pytest.raises(PySparkException, match=f"lossy-0: offsets 0 to {start - 1} cannot be read: .*: removed by"):
        strict[1].collect()


#: Without a pause the query asks for the end of the topic all the time.
PACE = {"processingTime": "100 milliseconds"}
#: Spark gives the driver's Python process 10 s to start, whatever else the machine does.
LATE_PROCESS = "Python worker failed to connect back"
DEADLINE_S = 300


class Interrupted(Exception):
    """A failure of the sink."""


class Stream:
    """A query with one checkpoint. It keeps its rows by batch: a batch that was not committed before a stop comes again."""

    def __init__(self, spark: SparkSession, world: World, topic: str, checkpoint: Path) -> None:
        self._spark = spark
        self._options = {"kafka.bootstrap.servers": world.broker.bootstrap_servers, "subscribe": topic}
        self._checkpoint = checkpoint
        self.batches: dict[int, list[bytes]] = {}
        #: The batch that the sink fails to take, once.
        self.failing: int | None = None

    @property
    def found(self) -> list[bytes]:
        return [value for _, values in sorted(self.batches.items()) for value in values]

    def has_committed(self, rows: int) -> bool:
        """Returns whether so many rows are there, the last ones committed: a stop before the commit has them repeated."""
        return len(self.found) >= rows and (self._checkpoint / "commits" / str(max(self.batches))).exists()

    def run(self, trigger: dict[str, Any], until: int | None = None, **options: str) -> None:
        """Runs until the query ends, or `until` rows are committed. A query whose Python process is late starts again."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                self._run_once(trigger, until, deadline, options)
                return
            except PySparkException as failed:
                if LATE_PROCESS not in str(failed) or time.monotonic() > deadline:
                    raise

    def _run_once(self, trigger: dict[str, Any], until: int | None, deadline: float, options: dict[str, str]) -> None:
        def take(batch: DataFrame, number: int) -> None:
            if number == self.failing:
                self.failing = None
                raise Interrupted
            self.batches[number] = [bytes(row.value) for row in batch.orderBy("offset").collect()]

        source = self._spark.readStream.format("odradek").options(**self._options | options).load()
        sink = source.writeStream.foreachBatch(take).option("checkpointLocation", str(self._checkpoint))
        running = sink.trigger(**trigger).start()
        try:
            if until is None:
                running.awaitTermination()
            while until is not None and not self.has_committed(until) and time.monotonic() < deadline:
                if (failure := running.exception()) is not None:
                    raise failure
                time.sleep(0.05)
        finally:
            running.stop()


def produce(world: World, topic: str, first: int, after: int) -> None:
    producer = world.producer()
    for value in values(first, after):
        producer.produce(topic, value, partition=0)
    producer.flush()


def values(first: int, after: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, after)]


def test_a_stream_continues_after_a_restart_and_reports_lost_records(
    spark: SparkSession, world: World, tmp_path: Path
) -> None:
    world.create("stream")
    produce(world, "stream", 0, 100)
    stream = Stream(spark, world, "stream", tmp_path)
    stream.run(PACE, 100, startingOffsets="earliest", maxOffsetsPerTrigger="40", processingTimeOnly="true")
    assert stream.found == values(0, 100) and max(map(len, stream.batches.values())) == 40
    produce(world, "stream", 100, 150)
    stream.run({"availableNow": True})
    assert stream.found == values(0, 150)

    produce(world, "stream", 150, 200)
    admin = KafkaAdminClient(bootstrap_servers=world.broker.bootstrap_servers)
    admin.delete_records({TopicPartition("stream", 0): 170})
    admin.close()
    lost = "stream-0: offset 150 is gone: the log starts at 170. Some data may have been lost"
    with pytest.raises(PySparkException, match=lost):
        stream.run({"availableNow": True})
    stream.run({"availableNow": True}, failOnDataLoss="false")
    assert stream.found == values(0, 150) + values(170, 200)


def test_a_batch_without_a_commit_comes_again_with_the_same_rows(
    spark: SparkSession, world: World, tmp_path: Path
) -> None:
    world.create("interrupted")
    produce(world, "interrupted", 0, 60)
    stream = Stream(spark, world, "interrupted", tmp_path)
    stream.failing = 1
    with pytest.raises(PySparkException, match="Interrupted"):
        stream.run(PACE, startingOffsets="earliest", maxOffsetsPerTrigger="40", processingTimeOnly="true")
    assert stream.found == values(0, 40)
    produce(world, "interrupted", 60, 100)
    stream.run(PACE, 100, processingTimeOnly="true")
    assert stream.batches[1] == values(40, 60)
    assert stream.found == values(0, 100)
