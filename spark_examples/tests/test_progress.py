"""Offsets of real queries in groups: the lag that Kafka's tools show, limits of batches, and errors as users see them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from odradek.admin.group_offsets import Committed, committed
from odradek.admin.pipeline_progress import newest_progress
from odradek.cli.client.connection import Connection
from odradek.spark.offset_listener import OffsetCommitListener
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from compat_tests.cli.commands import odradek_command
from compat_tests.recipes import eventually
from tests.columns.harness.world import World

#: A batch takes half a minute on a machine with much other work.
_DEADLINE_S = 300.0
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


def started(frame: DataFrame, checkpoint: Path, name: str, **trigger: Any) -> Any:
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


def test_lag_of_a_running_query_is_that_of_its_group(spark: SparkSession, world: World, tmp_path: Path) -> None:
    world.create("running")
    produce(world, "running", 5)
    query = started(stream(spark, world, "odradek", "running"), tmp_path / "c", "running", processingTime="1 second")
    try:
        group = eventually(
            lambda: (tmp_path / "c/commits/0").exists() and group_of(tmp_path / "c"),
            what="a batch",
            deadline_s=_DEADLINE_S,
        )
        eventually(lambda: commits(world, group), what="the commit", deadline_s=_DEADLINE_S)
        assert lag(world, group) == 0
        produce(world, "running", 3)
        eventually(
            lambda: commits(world, group)["running", 0].offset == 8, what="the next batch", deadline_s=_DEADLINE_S
        )
    finally:
        query.stop()
    produce(world, "running", 4)
    assert lag(world, group) == 4 and group.startswith("odradek-query-running-")


def test_query_of_what_is_available_has_no_lag_after_its_end(spark: SparkSession, world: World, tmp_path: Path) -> None:
    """With the wrapper of Spark 4.1, which looks for the end of a next batch. Without, see the listener."""
    world.create("ended")
    produce(world, "ended", 5)
    spark.conf.set(WRAPPER, "true")
    try:
        for expected in (5, 7):
            frame = stream(spark, world, "odradek", "ended", commitGroup="nightly")
            started(frame, tmp_path / "c", "ended").awaitTermination()
            assert commits(world, "nightly")["ended", 0].offset == expected
            produce(world, "ended", 2)
    finally:
        spark.conf.unset(WRAPPER)


def test_listener_commits_the_ends_of_the_stock_connector_and_of_the_source(
    spark: SparkSession, world: World, tmp_path: Path, listener: OffsetCommitListener
) -> None:
    world.create("heard")
    produce(world, "heard", 6)
    for form in ("kafka", "odradek"):
        started(stream(spark, world, form, "heard"), tmp_path / form, f"by-{form}").awaitTermination()
    for group in ("odradek-query-by-kafka", group_of(tmp_path / "odradek")):
        found = eventually(lambda group=group: commits(world, group), what="the commit", deadline_s=_DEADLINE_S)
        assert found["heard", 0].offset == 6 and lag(world, group) == 0
        progress = newest_progress([found["heard", 0].metadata])
        assert progress is not None and progress.batch == 0 and progress.name.startswith("by-")


def test_error_of_a_query_has_one_line_of_ours_and_is_beside_its_offsets(
    spark: SparkSession, world: World, tmp_path: Path, listener: OffsetCommitListener
) -> None:
    world.create("lossy")
    produce(world, "lossy", 6)
    started(
        stream(spark, world, "odradek", "lossy", commitGroup="lossy-query"), tmp_path / "c", "lossy"
    ).awaitTermination()
    offsets = tmp_path / "c/offsets/0"
    offsets.write_text(offsets.read_text(encoding="utf-8").replace('"0": 6', '"0": 60'), encoding="utf-8")
    for one in (tmp_path / "c").rglob(".*.crc"):
        one.unlink()
    (tmp_path / "c/commits/0").unlink()
    again = started(stream(spark, world, "odradek", "lossy", commitGroup="lossy-query"), tmp_path / "c", "lossy")
    with pytest.raises(PySparkException) as raised:
        again.awaitTermination()
    assert own_line(str(raised.value)).startswith(
        "odradek.spark.planning.DataLoss: lossy-0: the log ends at 6, before "
    )


def test_errors_of_reading_and_writing_end_in_one_line_of_ours(
    spark: SparkSession, world: World, tmp_path: Path
) -> None:
    world.create("errors")
    server = {"kafka.bootstrap.servers": world.broker.bootstrap_servers}
    rows = spark.createDataFrame([(b"1",)], "value binary")
    with pytest.raises(PySparkException) as raised:
        stream(spark, world, "odradek", "errors", minOffsetsPerTrigger="0")
    assert own_line(str(raised.value)) == "odradek.spark.options.InvalidOptions: minOffsetsPerTrigger must be positive"
    with pytest.raises(PySparkException) as raised:
        started(stream(spark, world, "odradek", "nowhere"), tmp_path / "c", "nowhere").awaitTermination()
    assert own_line(str(raised.value)).startswith("odradek.columns.cluster.ClusterError: topic nowhere: ")
    with pytest.raises(PySparkException) as raised:
        rows.write.format("odradek").mode("append").options(**server, topic="no topic").save()
    assert own_line(str(raised.value)).startswith("odradek.admin.errors.ResponseError: topic no topic: ")


def own_line(text: str) -> str:
    """The last line of the part of an error that Python has sent; Spark adds a state and a plan."""
    return text.partition("\n SQLSTATE")[0].rstrip().rpartition("\n")[2]


def test_batches_wait_for_their_least_offsets(spark: SparkSession, world: World, tmp_path: Path) -> None:
    world.create("least")
    produce(world, "least", 2)
    frame = stream(spark, world, "odradek", "least", minOffsetsPerTrigger="10", maxTriggerDelay="1h")
    query = started(frame, tmp_path / "c", "least", processingTime="0 seconds")
    try:
        eventually(lambda: (tmp_path / "c/commits/0").exists(), what="the first batch", deadline_s=_DEADLINE_S)
        for _ in range(10):
            produce(world, "least", 1)
        eventually(lambda: (tmp_path / "c/commits/1").exists(), what="the second batch", deadline_s=_DEADLINE_S)
    finally:
        query.stop()
    end = json.loads((tmp_path / "c/offsets/1").read_text(encoding="utf-8").splitlines()[-1])
    assert end["offsets"] == {"least": {"0": 12}} and not (tmp_path / "c/offsets/2").exists()
