"""failOnDataLoss: Spark's reaction to records that are deleted before it has read them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from copy_topic import copier
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from topics import ensure_topic, read_topic

from compat_tests.broker_process import BrokerProcess

_DEADLINE_S = 60
#: The smallest segment size that Kafka allows.
SEGMENT = 1_048_576


def fill(bootstrap: str, topic: str, numbers: range, config: dict[str, str] | None = None) -> None:
    ensure_topic(bootstrap, topic, 1, config)
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 50})
    for number in numbers:
        producer.produce(topic, b"%01000d" % number)
    producer.flush()


def delete_before(bootstrap: str, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (done,) = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    assert done.result(30).low_watermark == offset


def values(bootstrap: str, topic: str) -> list[int]:
    return [int(message.value()) for message in read_topic(bootstrap, topic)]


def copy_now(spark: SparkSession, bootstrap: str, topic: str, checkpoint: Path, fail_on_data_loss: bool) -> None:
    options = {"startingOffsets": "earliest", "failOnDataLoss": str(fail_on_data_loss).lower()}
    query = copier(spark, bootstrap, {"subscribe": topic}, options, "copy-of-")
    query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()


def batch(spark: SparkSession, bootstrap: str, topic: str, fail_on_data_loss: bool, **options: str) -> DataFrame:
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    return source.option("failOnDataLoss", fail_on_data_loss).options(**options).load()


def test_stream_fails_at_lost_records_unless_fail_on_data_loss_is_false(
    spark: SparkSession, bootstrap: str, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    topic = unique("lossy")
    fill(bootstrap, topic, range(100))
    copy_now(spark, bootstrap, topic, tmp_path, fail_on_data_loss=True)
    fill(bootstrap, topic, range(100, 300))
    delete_before(bootstrap, topic, 150)

    with pytest.raises(PySparkException, match=r"data (was|may have been) lost|failOnDataLoss|DATA_LOSS"):
        copy_now(spark, bootstrap, topic, tmp_path, fail_on_data_loss=True)
    assert values(bootstrap, f"copy-of-{topic}") == list(range(100))

    copy_now(spark, bootstrap, topic, tmp_path, fail_on_data_loss=False)
    assert values(bootstrap, f"copy-of-{topic}") == [*range(100), *range(150, 300)]


def test_records_that_are_deleted_while_a_job_runs_end_it_or_are_left_out(
    spark: SparkSession, bootstrap: str, unique: Callable[[str], str]
) -> None:
    """Spark plans the offsets first; the tasks then find them out of range."""
    topic = unique("vanishing")
    fill(bootstrap, topic, range(500))
    # As numbers: Spark resolves names (earliest, latest) only as a task begins.
    asked = {"startingOffsets": f'{{"{topic}":{{"0":0}}}}', "endingOffsets": f'{{"{topic}":{{"0":500}}}}'}
    careful, easy = (
        batch(spark, bootstrap, topic, fail_on_data_loss, **asked).selectExpr("cast(value as string) as value").rdd
        for fail_on_data_loss in (True, False)
    )
    assert careful.getNumPartitions() == easy.getNumPartitions() == 1
    delete_before(bootstrap, topic, 120)
    assert [int(row.value) for row in easy.collect()] == list(range(120, 500))
    with pytest.raises(Py4JJavaError, match="data may have been lost"):
        careful.collect()


def test_a_batch_from_the_earliest_offset_begins_after_what_was_deleted(
    spark: SparkSession, bootstrap: str, unique: Callable[[str], str]
) -> None:
    topic = unique("shortened")
    fill(bootstrap, topic, range(200))
    delete_before(bootstrap, topic, 33)
    rows = batch(spark, bootstrap, topic, fail_on_data_loss=True).collect()
    assert [row.offset for row in rows] == list(range(33, 200))


def test_retention_takes_records_from_a_job_that_asks_for_them_by_offset(
    spark: SparkSession, new_broker: Callable[[dict[str, str]], BrokerProcess], unique: Callable[[str], str]
) -> None:
    bootstrap = new_broker({"log.retention.check.interval.ms": "200"}).bootstrap
    topic = unique("expiring")
    fill(bootstrap, topic, range(4_000), {"retention.bytes": str(SEGMENT), "segment.bytes": str(SEGMENT)})
    wait_until_it_begins_after(bootstrap, topic, 0)
    asked = {"startingOffsets": f'{{"{topic}":{{"0":0}}}}'}
    before = begins_at(bootstrap, topic)
    offsets = [row.offset for row in batch(spark, bootstrap, topic, fail_on_data_loss=False, **asked).collect()]
    assert before <= offsets[0] <= begins_at(bootstrap, topic)
    assert offsets == list(range(offsets[0], 4_000))
    with pytest.raises(Py4JJavaError, match="data may have been lost"):
        batch(spark, bootstrap, topic, fail_on_data_loss=True, **asked).collect()


def begins_at(bootstrap: str, topic: str) -> int:
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "retention"})
    try:
        return reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)[0]
    finally:
        reader.close()


def wait_until_it_begins_after(bootstrap: str, topic: str, offset: int) -> None:
    give_up = time.monotonic() + _DEADLINE_S
    while begins_at(bootstrap, topic) <= offset:
        assert time.monotonic() < give_up, "retention deletes nothing"
        time.sleep(0.1)
