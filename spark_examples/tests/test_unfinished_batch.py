"""A stream of what is available, whose driver was killed in a batch: all records, or an error that names what reads them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.spark.source import HAS_ADMISSION_CONTROL
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_examples.tests.quick_jvm import QUICK_SPARK
from tests.columns.harness.world import World

ROOT = Path(__file__).resolve().parents[2]
WRAPPER = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"
#: For the attempts of a query: a busy machine misses the ten seconds that Spark gives a Python process to start.
DEADLINE_S = 600
LATE_PROCESS = "failed to connect back"
#: Kills its JVM while it writes a batch.
KILLED = """
import os, signal, sys
from pathlib import Path
from session import spark_session
spark = spark_session("killed", Path(sys.argv[1]) / "tables")
jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
def write(batch, number):
    assert batch.count() == 40
    os.kill(jvm, signal.SIGKILL)
source = spark.readStream.format("odradek").option("kafka.bootstrap.servers", sys.argv[2])
source = source.option("subscribe", sys.argv[3]).option("startingOffsets", "earliest").load()
sink = source.writeStream.foreachBatch(write).option("checkpointLocation", sys.argv[1] + "/checkpoint")
sink.trigger(availableNow=True).start().awaitTermination()
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("world"))
    with made.broker:
        yield made


def produce(world: World, first: int, after: int, topic: str) -> None:
    producer = world.producer()
    for number in range(first, after):
        producer.produce(topic, b"%d" % number, partition=0)
    producer.flush()


def kill_a_driver(world: World, topic: str, folder: Path) -> None:
    """Runs a driver that dies in its first batch, which is in the log of offsets and has no commit."""
    variables = os.environ | QUICK_SPARK | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'spark_examples'}"}
    words = [sys.executable, "-c", KILLED, str(folder), world.broker.bootstrap_servers, topic]
    deadline = time.monotonic() + DEADLINE_S
    errors = LATE_PROCESS
    while LATE_PROCESS in errors and time.monotonic() < deadline:
        with subprocess.Popen(
            words, env=variables, stderr=subprocess.PIPE, text=True, start_new_session=True
        ) as driver:
            try:
                _, errors = driver.communicate(timeout=DEADLINE_S)
            finally:
                if driver.poll() is None:
                    os.killpg(driver.pid, signal.SIGKILL)
    assert [file.name for file in (folder / "checkpoint" / "offsets").glob("[0-9]*")] == ["0"], errors
    assert not list((folder / "checkpoint" / "commits").glob("[0-9]*"))


def available_now(spark: SparkSession, world: World, topic: str, folder: Path, **options: str) -> dict[int, list[int]]:
    """Offsets by batch, of a query that continues the checkpoint and ends."""
    given = {
        "kafka.bootstrap.servers": world.broker.bootstrap_servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
    }
    deadline = time.monotonic() + DEADLINE_S
    while True:
        batches: dict[int, list[int]] = {}

        def take(batch: DataFrame, number: int, batches: dict[int, list[int]] = batches) -> None:
            batches[number] = sorted(row.offset for row in batch.select("offset").collect())

        source = spark.readStream.format("odradek").options(**given, **options).load()
        sink = source.writeStream.foreachBatch(take).option("checkpointLocation", str(folder / "checkpoint"))
        try:
            sink.trigger(availableNow=True).start().awaitTermination()
            return batches
        except PySparkException as error:
            if LATE_PROCESS not in str(error) or time.monotonic() > deadline:
                raise


def test_query_after_a_kill_reads_what_is_available_or_fails_with_the_reason(
    spark: SparkSession, world: World, tmp_path: Path
) -> None:
    world.create("killed")
    produce(world, 0, 40, "killed")
    kill_a_driver(world, "killed", tmp_path)
    produce(world, 40, 100, "killed")
    if not HAS_ADMISSION_CONTROL:
        with pytest.raises(PySparkException, match=r"not finished, and there are records after it.*Use Spark 4\.2"):
            available_now(spark, world, "killed", tmp_path)
        spark.conf.set(WRAPPER, "true")
    try:
        batches = available_now(spark, world, "killed", tmp_path)
        produce(world, 100, 120, "killed")
        later = available_now(spark, world, "killed", tmp_path)
    finally:
        spark.conf.unset(WRAPPER)
    assert batches[0] == list(range(40)), "the batch that was begun has the same records"
    assert sorted(offset for batch in batches.values() for offset in batch) == list(range(100))
    assert sorted(offset for batch in later.values() for offset in batch) == list(range(100, 120))


def test_a_batch_with_the_last_records_is_finished_without_an_error(
    spark: SparkSession, world: World, tmp_path: Path
) -> None:
    world.create("last")
    produce(world, 0, 40, "last")
    kill_a_driver(world, "last", tmp_path)
    assert available_now(spark, world, "last", tmp_path) == {0: list(range(40))}
