"""The streaming reader without Spark's JVM: calls in the order in which Spark 4.0 and 4.2 make them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from kafka import KafkaAdminClient, TopicPartition
from odradek.spark.planning import DataLoss
from odradek.spark.source import OdradekSource, StreamReader
from pyspark.sql.types import BinaryType, LongType, StructType

from tests.columns.harness.world import World

pytestmark = pytest.mark.usefixtures("processes")

SCHEMA = StructType().add("offset", LongType()).add("value", BinaryType())


class MaxRows(NamedTuple):
    """Stands for ReadMaxRows of Spark 4.2."""

    max_rows: int


class AllAvailable:
    """Stands for ReadAllAvailable of Spark 4.2."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("stream"))
    with made.broker:
        yield made


def produce(world: World, topic: str, count: int) -> None:
    producer = world.producer()
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0)
    producer.flush()


def reader(world: World, topic: str, **options: str) -> StreamReader:
    given = {"kafka.bootstrap.servers": world.broker.bootstrap_servers, "subscribe": topic} | options
    return OdradekSource(given).streamReader(SCHEMA)


def stored(offset: dict[str, Any]) -> dict[str, Any]:
    """An offset as it comes back from the checkpoint."""
    found: dict[str, Any] = json.loads(json.dumps(offset))
    return found


def offsets(made: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    """The offsets of a batch, read by a reader that was sent to a task."""
    found: list[int] = []
    for one in made.partitions(stored(start), stored(end)):
        task = StreamReader(made._options, SCHEMA)
        for batch in task.read(pickle.loads(pickle.dumps(one))):
            assert batch.schema.names == SCHEMA.names and isinstance(batch, pa.RecordBatch)
            found += batch.column("offset").to_pylist()
    return sorted(found)


def test_a_crash_in_the_first_batch_changes_no_start(world: World) -> None:
    """Spark keeps only the end of the first batch, and asks for `latest` again after the crash."""
    world.create("crash")
    produce(world, "crash", 5)
    first = reader(world, "crash", startingOffsets="latest")
    begin = first.initialOffset()
    produce(world, "crash", 3)
    end = first.latestOffset()
    assert offsets(first, begin, end) == [5, 6, 7]
    first.stop()

    again = reader(world, "crash", startingOffsets="latest")
    assert again.partitions(stored(end), stored(end)) == []
    assert offsets(again, again.initialOffset(), end) == [5, 6, 7]
    assert again.latestOffset() == end, "a batch without records"
    produce(world, "crash", 2)
    following = again.latestOffset()
    assert "initial" not in following and offsets(again, end, following) == [8, 9]
    again.stop()


def test_limits_of_spark_4_2_are_kept(world: World) -> None:
    world.create("limits")
    produce(world, "limits", 100)
    made = reader(world, "limits", startingOffsets="earliest", maxOffsetsPerTrigger="30", processingTimeOnly="true")
    start = made.initialOffset()
    end = made.latestOffset(start, MaxRows(30))
    assert offsets(made, start, end) == list(range(30))
    assert made.latestOffset(end, AllAvailable())["offsets"] == {"limits": {"0": 100}}
    assert made.reportLatestOffset()["offsets"] == {"limits": {"0": 100}}

    made.prepareForTriggerAvailableNow()
    produce(world, "limits", 50)
    taken = list(range(30))
    while (following := made.latestOffset(end, MaxRows(30))) != end:
        taken += offsets(made, end, following)
        end = following
    assert taken == list(range(100))
    made.stop()


def test_a_topic_that_was_created_again_is_not_read_at_old_offsets(world: World) -> None:
    world.create("again")
    produce(world, "again", 5)
    made = reader(world, "again", startingOffsets="earliest")
    end = made.latestOffset()
    made.stop()
    admin = KafkaAdminClient(bootstrap_servers=world.broker.bootstrap_servers)
    admin.delete_topics(["again"])
    world.create("again")
    produce(world, "again", 9)

    restarted = reader(world, "again")
    restarted.partitions(end, end)
    with pytest.raises(DataLoss, match="topic again was created again: the checkpoint is of the topic with the id"):
        restarted.latestOffset()
    restarted.stop()
    careless = reader(world, "again", failOnDataLoss="false")
    careless.partitions(end, end)
    assert offsets(careless, end, careless.latestOffset()) == list(range(9))
    careless.stop()
    admin.close()


def test_new_partitions_are_read_from_their_first_record(world: World) -> None:
    world.create("grows")
    made = reader(world, "grows")
    start = made.initialOffset()
    admin = KafkaAdminClient(bootstrap_servers=world.broker.bootstrap_servers)
    admin.create_partitions({"grows": 2})
    producer = world.producer()
    producer.produce("grows", b"new", partition=1)
    producer.flush()
    end = made.latestOffset()
    assert end["offsets"] == {"grows": {"0": 0, "1": 1}} and offsets(made, start, end) == [0]
    made.stop()
    admin.close()


def test_a_log_that_is_shorter_than_a_planned_batch_is_an_error(world: World) -> None:
    world.create("shorter")
    produce(world, "shorter", 5)
    made = reader(world, "shorter", startingOffsets="earliest")
    start, end = made.initialOffset(), made.latestOffset()
    end["offsets"]["shorter"]["0"] = 9
    with pytest.raises(DataLoss, match="shorter-0: the log ends at 5, before offset 9"):
        made.partitions(start, end)
    admin = KafkaAdminClient(bootstrap_servers=world.broker.bootstrap_servers)
    admin.delete_records({TopicPartition("shorter", 0): 2})
    end["offsets"]["shorter"]["0"] = 5
    with pytest.raises(DataLoss, match="offset 0 is gone: the log starts at 2"):
        made.partitions(start, end)
    made.stop()
    admin.close()
