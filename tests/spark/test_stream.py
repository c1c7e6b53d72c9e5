"""The streaming reader without Spark's JVM: calls in the order in which Spark 4.0 and 4.2 make them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from confluent_kafka import Consumer
from kafka import KafkaAdminClient, TopicPartition
from odradek.admin.connection import Connection
from odradek.admin.group_offsets import committed
from odradek.admin.pipeline_progress import newest_progress
from odradek.spark.planning import DataLoss
from odradek.spark.source import OdradekSource, StreamReader
from pyspark.sql.types import BinaryType, LongType, StructType

from compat_tests.recipes import eventually
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


def test_a_log_that_ends_before_the_start_of_a_batch_is_an_error(world: World) -> None:
    """An unclean election or an old backup has cut the log: records after its end are not read again in silence."""
    world.create("cut")
    produce(world, "cut", 3)
    made = reader(world, "cut", startingOffsets='{"cut":{"0":7}}')
    start, end = made.initialOffset(), made.latestOffset()
    with pytest.raises(DataLoss, match="cut-0: the log ends at 3, before offset 7"):
        made.partitions(start, end)
    made.stop()
    careless = reader(world, "cut", startingOffsets='{"cut":{"0":7}}', failOnDataLoss="false")
    assert offsets(careless, careless.initialOffset(), end) == []
    produce(world, "cut", 1)
    assert offsets(careless, end, careless.latestOffset(end)) == [3]
    careless.stop()


def group_offset(world: World, group: str, topic: str) -> int | None:
    """The offset that a group has committed for the first partition of a topic."""
    with Connection({"bootstrap.servers": world.broker.bootstrap_servers}).admin() as admin:
        found = committed(admin, group).get((topic, 0))
    return None if found is None else found.offset


def test_batch_is_committed_to_the_group_of_the_checkpoint_when_it_is_done(world: World) -> None:
    world.create("grouped")
    produce(world, "grouped", 5)
    first = reader(world, "grouped", startingOffsets="earliest")
    begin = first.initialOffset()
    end = first.latestOffset()
    group = end["group"]
    assert group == begin["group"] and group.startswith("odradek-query-grouped-")
    first.partitions(begin, end)
    assert group_offset(world, group, "grouped") is None, "the batch may fail"
    assert first.latestOffset()["offsets"] == end["offsets"]
    assert group_offset(world, group, "grouped") == 5, "an idle query has no lag"
    first.stop()

    produce(world, "grouped", 3)
    again = reader(world, "grouped", startingOffsets="earliest")
    assert again.initialOffset()["group"] != group
    again.partitions(stored(end), stored(end))
    following = again.latestOffset()
    assert following["group"] == group, "the checkpoint names it"
    again.partitions(stored(end), stored(following))
    again.latestOffset()
    assert group_offset(world, group, "grouped") == 8
    again.stop()


def test_batch_that_a_crash_interrupted_is_not_committed_before_it_is_repeated(world: World) -> None:
    world.create("interrupted")
    produce(world, "interrupted", 5)
    first = reader(world, "interrupted", startingOffsets="earliest")
    begin, end = first.initialOffset(), first.latestOffset()
    first.partitions(begin, end)
    first.stop()
    again = reader(world, "interrupted", startingOffsets="earliest")
    again.partitions(stored(end), stored(end))
    again.partitions(stored(again.initialOffset()), stored(end))
    assert group_offset(world, end["group"], "interrupted") is None
    again.stop()
    assert group_offset(world, end["group"], "interrupted") is None


def test_group_has_the_name_of_the_option_or_there_are_no_commits(world: World) -> None:
    world.create("named")
    produce(world, "named", 2)
    for name in ("report of today", "none"):
        made = reader(world, "named", startingOffsets="earliest", commitGroup=name)
        begin, end = made.initialOffset(), made.latestOffset()
        assert end.get("group") == (None if name == "none" else name)
        made.partitions(begin, end)
        made.latestOffset()
        made.stop()
        assert group_offset(world, name, "named") == (None if name == "none" else 2)


def test_checkpoint_of_an_earlier_release_gets_a_group_with_its_next_batch(world: World) -> None:
    world.create("earlier")
    produce(world, "earlier", 2)
    made = reader(world, "earlier", startingOffsets="earliest")
    end = made.latestOffset()
    del end["group"]
    made.stop()
    again = reader(world, "earlier", startingOffsets="earliest")
    again.partitions(end, end)
    assert again.latestOffset() == end, "no batch for the sake of a group"
    produce(world, "earlier", 1)
    following = again.latestOffset()
    assert following["group"].startswith("odradek-query-earlier-")
    again.partitions(end, following)
    again.latestOffset()
    assert group_offset(world, following["group"], "earlier") == 3
    again.stop()


def test_query_continues_where_its_group_has_members(world: World) -> None:
    world.create("members")
    produce(world, "members", 3)
    consumer = Consumer(
        {"bootstrap.servers": world.broker.bootstrap_servers, "group.id": "app", "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe(["members"])
        eventually(lambda: consumer.poll(0.1), what="the member reads")
        made = reader(world, "members", startingOffsets="earliest", commitGroup="app")
        begin, end = made.initialOffset(), made.latestOffset()
        assert offsets(made, begin, end) == [0, 1, 2]
        made.latestOffset()
        assert made.latestOffset()["offsets"] == end["offsets"]
        made.stop()
        assert group_offset(world, "app", "members") is None
    finally:
        consumer.close()


def test_error_that_ends_a_query_is_beside_its_offsets(world: World) -> None:
    world.create("fails")
    produce(world, "fails", 5)
    made = reader(world, "fails", startingOffsets="earliest")
    begin, end = made.initialOffset(), made.latestOffset()
    made.partitions(begin, end)
    made.latestOffset()
    admin = KafkaAdminClient(bootstrap_servers=world.broker.bootstrap_servers)
    admin.delete_topics(["fails"])
    world.create("fails")
    admin.close()
    with pytest.raises(DataLoss) as raised:
        made.latestOffset()
    made.stop()
    with Connection({"bootstrap.servers": world.broker.bootstrap_servers}).admin() as session:
        (one,) = committed(session, end["group"]).values()
    assert newest_progress([one.metadata]).error == str(raised.value)[:500]


def test_batch_waits_for_its_least_offsets_or_for_the_delay(world: World) -> None:
    world.create("least")
    produce(world, "least", 2)
    given = {"startingOffsets": "earliest", "minOffsetsPerTrigger": "10"}
    made = reader(world, "least", maxTriggerDelay="1h", **given)
    begin, first = made.initialOffset(), made.latestOffset()
    assert offsets(made, begin, first) == [0, 1], "the first batch does not wait"
    produce(world, "least", 9)
    assert made.latestOffset() == first, "9 are fewer than 10"
    assert made.latestOffset(first, AllAvailable()) == first
    produce(world, "least", 1)
    second = made.latestOffset()
    assert offsets(made, first, second) == list(range(2, 12))
    made.stop()

    hasty = reader(world, "least", maxTriggerDelay="200ms", **given)
    produce(world, "least", 1)
    third = hasty.latestOffset()
    offsets(hasty, second, third)
    produce(world, "least", 1)
    following = eventually(lambda: (end := hasty.latestOffset()) != third and end, what="the delay is over")
    assert offsets(hasty, third, following) == [13]
    hasty.stop()


def test_query_that_takes_what_is_available_waits_for_nothing(world: World) -> None:
    world.create("all")
    produce(world, "all", 6)
    made = reader(
        world, "all", startingOffsets="earliest", minOffsetsPerTrigger="4", maxOffsetsPerTrigger="4",
        processingTimeOnly="true",
    )  # fmt: skip
    made.prepareForTriggerAvailableNow()
    begin = made.initialOffset()
    first = made.latestOffset(begin, MaxRows(4))
    assert offsets(made, begin, first) == [0, 1, 2, 3]
    second = made.latestOffset(first, MaxRows(4))
    assert offsets(made, first, second) == [4, 5]
    made.stop()


def test_relative_start_begins_that_long_before_now(world: World) -> None:
    world.create("recent")
    produce(world, "recent", 3)
    made = reader(world, "recent", startingTimestamp="-1h")
    assert made.initialOffset()["offsets"] == {"recent": {"0": 0}}
    made.stop()
    later = reader(world, "recent", startingTimestamp="-0s")
    assert later.initialOffset()["offsets"] == {"recent": {"0": 3}}, "no record is as new: the end"
    later.stop()
