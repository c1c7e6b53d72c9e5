"""Offsets of real queries in groups: the lag that Kafka's tools show, limits of batches, and errors as users see them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient
from odradek.admin.connection import Connection
from odradek.admin.group_offsets import Committed, committed
from odradek.admin.pipeline_progress import newest_progress
from odradek.spark.offset_listener import OffsetCommitListener
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from compat_tests.cli.commands import odradek_command
from compat_tests.recipes import eventually
from spark_examples.tests.late_process import DEADLINE_S, error_of, in_time, is_late
from tests.columns.harness.world import World

WRAPPER = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("world"))
    with made.broker:
        yield made


@pytest.fixture
def listener(spark: SparkSession, world: World) -> Iterator[OffsetCommitListener]:
    made = OffsetCommitListener({"kafka.bootstrap.servers": world.broker.bootstrap_servers})
    spark.streams.addListener(made)
    yield made
    spark.streams.removeListener(made)
    made.close()


def produce(world: World, topic: str, count: int) -> None:
    producer = world.producer()
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(30) == 0


def stream(spark: SparkSession, world: World, form: str, topic: str, **options: str) -> DataFrame:
    given = {
        "kafka.bootstrap.servers": world.broker.bootstrap_servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
    }
    return spark.readStream.format(form).options(**(given | options)).load()


def started(frame: DataFrame, checkpoint: Path, name: str, **trigger: Any) -> StreamingQuery:
    sink = frame.writeStream.format("noop").queryName(name).option("checkpointLocation", str(checkpoint))
    return sink.trigger(**(trigger or {"availableNow": True})).start()


def commits(world: World, group: str) -> dict[tuple[str, int], Committed]:
    with Connection({"bootstrap.servers": world.broker.bootstrap_servers}).admin() as admin:
        return committed(admin, group)


def lag(world: World, group: str) -> int:
    words = ("group", "lag", group, "--total", "--output", "json", "-b", world.broker.bootstrap_servers)
    (total,) = odradek_command(*words).json
    return int(total["lag"])


def group_of(checkpoint: Path) -> str:
    """The group that the newest batch of a checkpoint names."""
    newest = max(
        (one for one in (checkpoint / "offsets").iterdir() if one.name.isdecimal()), key=lambda one: int(one.name)
    )
    return str(json.loads(newest.read_text(encoding="utf-8").splitlines()[-1])["group"])


def until(start: Callable[[], StreamingQuery], is_done: Callable[[], object], what: str) -> None:
    """Runs a query until something is done, and stops it; starts it again where a Python process of Spark was late."""
    query = start()

    def is_done_or_active() -> object:
        nonlocal query
        if not query.isActive:
            assert is_late(str(query.exception())), query.exception()
            query = start()
        return is_done()

    try:
        eventually(is_done_or_active, what=what, deadline_s=DEADLINE_S)
    finally:
        query.stop()


def own_line(text: str) -> str:
    """The last line of the part of an error that Python has sent; Spark adds a state and a plan."""
    return text.partition("\n SQLSTATE")[0].rstrip().rpartition("\n")[2]


def test_lag_of_a_running_query_is_that_of_its_group(spark: SparkSession, world: World, tmp_path: Path) -> None:
    world.create("running")
    produce(world, "running", 5)

    def start() -> StreamingQuery:
        return started(stream(spark, world, "odradek", "running"), tmp_path / "c", "running", processingTime="1 second")

    def has_committed(offset: int) -> bool:
        if not (tmp_path / "c/commits/0").exists():
            return False
        found = commits(world, group_of(tmp_path / "c"))
        return found.get(("running", 0), Committed(0, "")).offset == offset

    until(start, lambda: has_committed(5), "the first batch is committed")
    group = group_of(tmp_path / "c")
    assert lag(world, group) == 0 and group.startswith("odradek-query-running-")
    produce(world, "running", 3)
    assert lag(world, group) == 3
    until(start, lambda: has_committed(8), "the next batch is committed")
    assert lag(world, group) == 0


def test_query_of_what_is_available_has_no_lag_after_its_end(spark: SparkSession, world: World, tmp_path: Path) -> None:
    """With the wrapper of Spark 4.1, which looks for the end of a next batch. Without, see the listener."""
    world.create("ended")
    produce(world, "ended", 5)
    frame = stream(spark, world, "odradek", "ended", commitGroup="nightly")
    spark.conf.set(WRAPPER, "true")
    try:
        in_time(lambda: started(frame, tmp_path / "c", "ended").awaitTermination())
    finally:
        spark.conf.unset(WRAPPER)
    assert commits(world, "nightly")["ended", 0].offset == 5


def test_listener_commits_the_ends_of_the_stock_connector_and_of_the_source(
    spark: SparkSession, world: World, tmp_path: Path, listener: OffsetCommitListener
) -> None:
    world.create("heard")
    produce(world, "heard", 6)
    for form in ("kafka", "odradek"):
        frame = stream(spark, world, form, "heard")
        in_time(lambda frame=frame, form=form: started(frame, tmp_path / form, f"by-{form}").awaitTermination())
    for group in ("odradek-query-by-kafka", group_of(tmp_path / "odradek")):
        found = eventually(lambda group=group: commits(world, group), what="the commit", deadline_s=DEADLINE_S)
        assert found["heard", 0].offset == 6 and lag(world, group) == 0
        progress = newest_progress([found["heard", 0].metadata])
        assert progress is not None and progress.batch == 0 and progress.name.startswith("by-")


def test_error_that_ends_a_query_is_in_one_line_beside_its_offsets(
    spark: SparkSession, world: World, tmp_path: Path, listener: OffsetCommitListener
) -> None:
    """The topic is created again after the first batch."""
    world.create("lossy")
    produce(world, "lossy", 6)
    frame = stream(spark, world, "odradek", "lossy", commitGroup="lossy-query")
    in_time(lambda: started(frame, tmp_path / "c", "lossy").awaitTermination())
    eventually(lambda: commits(world, "lossy-query"), what="the commit", deadline_s=DEADLINE_S)
    admin = KafkaAdminClient(bootstrap_servers=world.broker.bootstrap_servers)
    admin.delete_topics(["lossy"])
    admin.close()
    world.create("lossy")
    text = error_of(lambda: started(frame, tmp_path / "c", "lossy").awaitTermination())
    message = "topic lossy was created again: the checkpoint is of the topic with the id "
    assert own_line(text).startswith(f"odradek.spark.planning.DataLoss: {message}")

    def error() -> str:
        progress = newest_progress(one.metadata for one in commits(world, "lossy-query").values())
        return "" if progress is None else progress.error

    eventually(lambda: error().startswith(message), what="the error is committed", deadline_s=DEADLINE_S)


def test_errors_of_reading_and_writing_end_in_one_line_of_ours(
    spark: SparkSession, world: World, tmp_path: Path
) -> None:
    world.create("errors")
    server = {"kafka.bootstrap.servers": world.broker.bootstrap_servers}
    rows = spark.createDataFrame([(b"1",)], "value binary")
    text = error_of(lambda: stream(spark, world, "odradek", "errors", minOffsetsPerTrigger="0"))
    assert own_line(text) == "odradek.spark.options.InvalidOptions: minOffsetsPerTrigger must be positive"
    nowhere = stream(spark, world, "odradek", "nowhere")
    text = error_of(lambda: started(nowhere, tmp_path / "c", "nowhere").awaitTermination())
    assert own_line(text).startswith("odradek.columns.cluster_errors.ClusterError: topic nowhere: ")
    text = error_of(lambda: rows.write.format("odradek").mode("append").options(**server, topic="no topic").save())
    assert own_line(text).startswith("odradek.admin.errors.ResponseError: topic no topic: ")


def test_batches_wait_for_their_least_offsets(spark: SparkSession, world: World, tmp_path: Path) -> None:
    world.create("least")
    produce(world, "least", 2)
    frame = stream(spark, world, "odradek", "least", minOffsetsPerTrigger="10", maxTriggerDelay="1h")
    sent = 0

    def has_two_batches() -> bool:
        nonlocal sent
        if sent < 10 and (tmp_path / "c/commits/0").exists():
            produce(world, "least", 1)
            sent += 1
        return (tmp_path / "c/commits/1").exists()

    until(
        lambda: started(frame, tmp_path / "c", "least", processingTime="0 seconds"),
        has_two_batches,
        "it has two batches",
    )
    end = json.loads((tmp_path / "c/offsets/1").read_text(encoding="utf-8").splitlines()[-1])
    assert end["offsets"] == {"least": {"0": 12}} and not (tmp_path / "c/offsets/2").exists()
