"""Uses of Spark's connector that the programs lack and that reach the broker in a different way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, Row, SparkSession
from topics import ensure_topic, partition_counts, read_topic

COUNT = 400
FIRST_MS = 1_741_000_000_000


@pytest.fixture
def numbers(bootstrap: str, unique: Callable[[str], str]) -> str:
    """A topic of two partitions with the numbers from 0 on in turn, a millisecond apart."""
    topic = unique("numbers")
    ensure_topic(bootstrap, topic, 2, {"retention.ms": "-1"})
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 30})
    for number in range(COUNT):
        producer.produce(topic, b"%d" % number, partition=number % 2, timestamp=FIRST_MS + number)
    producer.flush()
    return topic


def read(spark: SparkSession, bootstrap: str, **options: str) -> list[int]:
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).options(**options)
    return sorted(int(row.value) for row in source.load().collect())


def written(rows: DataFrame, bootstrap: str, topic: str, **options: str) -> list[bytes]:
    rows.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", topic).options(
        **options
    ).save()
    return [message.value() for message in read_topic(bootstrap, topic)]


@pytest.fixture
def offsets_by_consumer(spark: SparkSession) -> Iterator[None]:
    """Switches to the way of Spark before 3.4: the driver joins a group to get partitions and their ends."""
    name = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
    spark.conf.set(name, "true")
    yield
    spark.conf.unset(name)


@pytest.mark.parametrize("choice", ["subscribe", "subscribePattern"])
@pytest.mark.usefixtures("offsets_by_consumer")
def test_a_driver_that_finds_offsets_by_a_consumer_in_a_group(
    spark: SparkSession, bootstrap: str, numbers: str, tmp_path: Path, choice: str
) -> None:
    assert read(spark, bootstrap, **{choice: numbers}) == list(range(COUNT))
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option(choice, numbers)
    rows: list[Row] = []
    sink = source.option("startingOffsets", "earliest").load().writeStream.option("checkpointLocation", str(tmp_path))
    query = sink.foreachBatch(lambda batch, _: rows.extend(batch.collect())).trigger(availableNow=True).start()
    query.awaitTermination()
    assert sorted(int(row.value) for row in rows) == list(range(COUNT))


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_either_isolation_reads_what_no_transaction_wrote(
    spark: SparkSession, bootstrap: str, numbers: str, level: str
) -> None:
    assert read(spark, bootstrap, subscribe=numbers, **{"kafka.isolation.level": level}) == list(range(COUNT))


def test_each_partition_may_begin_and_end_at_a_time_of_its_own(
    spark: SparkSession, bootstrap: str, numbers: str
) -> None:
    times = {
        "startingOffsetsByTimestamp": f'{{"{numbers}":{{"0":{FIRST_MS + 101},"1":{FIRST_MS}}}}}',
        "endingOffsetsByTimestamp": f'{{"{numbers}":{{"0":{FIRST_MS + 200},"1":{FIRST_MS + 51}}}}}',
    }
    expected = [*range(102, 200, 2), *range(1, 51, 2)]
    assert read(spark, bootstrap, subscribe=numbers, **times) == sorted(expected)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_spark_and_librdkafka_read_batches_compressed_by_spark(
    spark: SparkSession, bootstrap: str, unique: Callable[[str], str], codec: str
) -> None:
    topic = unique("compressed")
    ensure_topic(bootstrap, topic, 1)
    rows = spark.range(COUNT).selectExpr("cast(id as string) as value").coalesce(1)
    values = written(rows, bootstrap, topic, **{"kafka.compression.type": codec})
    assert [int(value) for value in values] == list(range(COUNT))
    assert read(spark, bootstrap, subscribe=topic) == list(range(COUNT))


def test_a_topic_that_is_not_there_is_made_when_spark_writes_to_it(
    spark: SparkSession, bootstrap: str, unique: Callable[[str], str]
) -> None:
    topic = unique("automatic")
    rows = spark.range(50).selectExpr("cast(id as string) as value")
    assert sorted(int(value) for value in written(rows, bootstrap, topic)) == list(range(50))
    assert partition_counts(bootstrap)[topic] == 4


def test_a_record_of_nearly_a_megabyte_goes_through(
    spark: SparkSession, bootstrap: str, unique: Callable[[str], str]
) -> None:
    topic = unique("large")
    ensure_topic(bootstrap, topic, 1)
    (value,) = written(spark.range(1).selectExpr("repeat('x', 1000000) as value"), bootstrap, topic)
    assert value == b"x" * 1_000_000
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    assert [len(row.value) for row in source.load().collect()] == [1_000_000]
