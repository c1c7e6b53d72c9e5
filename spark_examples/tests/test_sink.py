"""`format("odradek")` writes each row once, with all columns, through restarts and kill -9; Spark's own sink repeats."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import odradek
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from odradek.protocol.murmur2 import partition_of
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter
from topics import ensure_topic

from compat_tests.broker_process import BrokerProcess
from spark_examples.tests.sink_rounds import Copies, committed, fill, lose_last_commit, messages

ROWS, PARTITIONS = 200, 3


@pytest.fixture(scope="module")
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker(schema_registry=True) as running:
        fill(running.bootstrap_servers, "in", PARTITIONS, ROWS)
        yield running


def records(spark: SparkSession, broker: odradek.Broker) -> DataFrame:
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    source = source.option("subscribe", "in").option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 60)
    return source.load().select("key", "value")


def sink(
    frame: DataFrame, broker: odradek.Broker, topic: str, checkpoint: Path, kind: str = "odradek"
) -> DataStreamWriter:
    ensure_topic(broker.bootstrap_servers, topic, PARTITIONS)
    writer = frame.writeStream.format(kind).option("kafka.bootstrap.servers", broker.bootstrap_servers)
    return writer.option("topic", topic).option("checkpointLocation", str(checkpoint))


def copy_all(writer: DataStreamWriter) -> None:
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(300)


@pytest.mark.parametrize(("kind", "times"), [("odradek", 1), ("kafka", 2)])
def test_batch_that_spark_runs_again_is_there_once_and_twice_by_the_stock_sink(
    spark: SparkSession, broker: odradek.Broker, tmp_path: Path, kind: str, times: int
) -> None:
    topic = f"again-{kind}"
    copy_all(sink(records(spark, broker), broker, topic, tmp_path, kind))
    lose_last_commit(tmp_path)
    copy_all(sink(records(spark, broker), broker, topic, tmp_path, kind))
    counts = [list(committed(broker.bootstrap_servers, topic)).count(b"%d" % number) for number in range(ROWS)]
    assert set(counts) == ({1} if times == 1 else {1, 2})


def test_batch_query_writes_all_columns_where_java_would(spark: SparkSession, broker: odradek.Broker) -> None:
    for topic in ("left", "right"):
        ensure_topic(broker.bootstrap_servers, topic, PARTITIONS)
    frame = spark.range(0, 100, 1, 2).selectExpr(
        "if(id % 2 = 0, 'left', 'right') AS topic",
        "cast(if(id % 5 = 0, NULL, id) AS string) AS key",
        "if(id % 7 = 0, NULL, cast(cast(id AS string) AS binary)) AS value",
        "if(id % 3 = 0, NULL, array(struct('a' AS key, cast('b' AS binary) AS value))) AS headers",
        "timestamp_millis(1700000000000 + id) AS timestamp",
        "if(id = 99, 2, NULL) AS partition",
    )
    frame.write.format("odradek").mode("append").option("kafka.bootstrap.servers", broker.bootstrap_servers).save()
    found = {}
    for topic in ("left", "right"):
        for record in messages(broker.bootstrap_servers, topic):
            number, key = record.timestamp()[1] - 1_700_000_000_000, record.key()
            found[number] = (topic, key, record.value(), record.headers() or [])
            if number == 99:
                assert record.partition() == 2
            elif key is not None:
                assert record.partition() == partition_of(key, PARTITIONS)
    assert found == {
        number: (
            "left" if number % 2 == 0 else "right",
            None if number % 5 == 0 else b"%d" % number,
            None if number % 7 == 0 else b"%d" % number,
            [] if number % 3 == 0 else [("a", b"b")],
        )
        for number in range(100)
    }


def test_stream_of_typed_columns_is_read_back_by_the_source(
    spark: SparkSession, broker: odradek.Broker, tmp_path: Path
) -> None:
    url = broker.schema_registry_url
    fields = [
        {"name": "number", "type": "long"},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ]
    schema = json.dumps({"type": "record", "name": "Number", "fields": fields})
    SchemaRegistryClient({"url": url}).register_schema("typed-value", Schema(schema, "AVRO"))
    frame = records(spark, broker).selectExpr(
        "cast(value AS string) AS key",
        """if(cast(cast(value AS string) AS long) % 5 = 0, NULL, named_struct(
            'number', cast(cast(value AS string) AS long),
            'at', timestamp_millis(cast(cast(value AS string) AS long)),
            'tags', array(cast(value AS string), 'ä')
        )) AS value""",
    )
    writer = sink(frame, broker, "typed", tmp_path)
    copy_all(writer.options(valueFormat="avro", schemaRegistry=url))
    source = spark.read.format("odradek").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    source = source.options(subscribe="typed", valueFormat="avro", schemaRegistry=url)
    source = source.schema("key binary, value struct<number: bigint, at: timestamp, tags: array<string>>")
    found = source.load().selectExpr(
        "cast(key AS string) AS key", "value.number AS number", "unix_millis(value.at) AS at", "value.tags AS tags"
    )
    wanted = {
        (str(n), None, None, None) if n % 5 == 0 else (str(n), n, n, (str(n), "ä")) for n in range(ROWS)
    }  # fmt: skip
    rows = [(row.key, row.number, row.at, row.tags and tuple(row.tags)) for row in found.collect()]
    assert len(rows) == ROWS and set(rows) == wanted


def test_typed_columns_that_do_not_fit_are_an_error_before_a_record_is_written(
    spark: SparkSession, broker: odradek.Broker
) -> None:
    url = broker.schema_registry_url
    schema = '{"type": "record", "name": "Misfit", "fields": [{"name": "id", "type": "int"}]}'
    SchemaRegistryClient({"url": url}).register_schema("misfits-value", Schema(schema, "AVRO"))
    ensure_topic(broker.bootstrap_servers, "misfits", PARTITIONS)
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "misfits", "valueFormat": "avro"}
    for columns, words in (
        ("cast(id AS string) AS id", "the column value.id is string, and the schema has int"),
        (
            "if(id = 90, shiftleft(1L, 40), id) AS id",
            "the column value does not fit its schema: id is 1099511627776, not int",
        ),
    ):
        writer = spark.range(0, 100, 1, 2).selectExpr(columns).write.format("odradek").mode("append")
        with pytest.raises(PySparkException, match=words):
            writer.options(**given, schemaRegistry=url).save()
    assert list(committed(broker.bootstrap_servers, "misfits")) == []


def test_failed_batch_query_leaves_no_record(spark: SparkSession, broker: odradek.Broker) -> None:
    ensure_topic(broker.bootstrap_servers, "failing", PARTITIONS)
    frame = spark.range(0, 1000, 1, 2).selectExpr("cast(id AS string) AS value", "if(id = 990, 77, NULL) AS partition")
    writer = frame.write.format("odradek").mode("append").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    with pytest.raises(PySparkException, match="a row has the partition 77, and the topic failing has 3"):
        writer.option("topic", "failing").save()
    assert list(committed(broker.bootstrap_servers, "failing")) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"topic": "x", "valueFromat": "json"}, "has no option 'valuefromat'"),
        ({"topic": "x", "kafka.acks": "1"}, "They are always 'all'"),
        ({"topic": "x", "partitioner": "random"}, "takes java or librdkafka"),
        ({"topic": "x", "kafka.compression.type": "rar"}, "takes none, gzip, snappy, lz4, zstd"),
        ({}, "topic option required when no 'topic' attribute is present"),
    ],
)
def test_wrong_options_are_named_in_one_line(
    spark: SparkSession, broker: odradek.Broker, options: dict[str, str], words: str
) -> None:
    writer = spark.range(1).selectExpr("cast(id AS string) AS value").write.format("odradek").mode("append")
    writer = writer.option("kafka.bootstrap.servers", broker.bootstrap_servers)
    with pytest.raises(PySparkException, match=words):
        writer.options(**options).save()


def test_records_are_there_once_through_kills_of_driver_and_broker(
    spark: SparkSession,
    new_broker: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
) -> None:
    """`make nightly` has two rounds of random kills, `make test` one that kills both."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
    running: BrokerProcess = new_broker({})  # type: ignore[operator]
    copies = Copies(running, tmp_path, seed=int(os.environ.get("ODRADEK_SEED", "1")))
    # Each run ends with a comparison of the partitions of both topics.
    if pytestconfig.pluginmanager.has_plugin("without_nightly"):
        copies.run(rounds=1, kills=("both",))
    else:
        copies.run(rounds=2)
