"""revenue_stream.py over many events, with kill -9 of the driver and then of the broker.

    SPARK_EVENTS=1000000 pytest spark_examples/tests/test_revenue_crash.py

All figures grow with the number of events: each kill hits a batch, with a large part of the events still to come.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession
from revenue_stream import WATERMARK_MINUTES
from topics import partition_counts, read_topic

from compat_tests.broker_process import BrokerProcess
from spark_examples.tests.counting import (
    closed,
    events,
    revenue_in_table,
    revenue_in_topic,
    revenue_of,
    watermark_ms,
)
from spark_examples.tests.programs import Program, committed_batch, has_open_batch

EVENTS = int(os.environ.get("SPARK_EVENTS", "75000"))
#: The first half comes at once. The second takes 20 s: it is in flight when the broker dies, and must still be written.
HALF, RATE = EVENTS // 2, EVENTS // 40
#: Records that both queries have processed when a process is killed, and records in the topic when the broker is.
DRIVER_DIES_AT, BROKER_DIES_AT, PRODUCED_BY_THEN = (EVENTS * percent // 100 for percent in (15, 30, 60))
#: Records of a batch: small, so that there is one to hit.
BATCH = EVENTS * 8 // 100
QUERIES = ("kafka", "parquet")

Start = Callable[..., Program]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts programs, and kills them at the end."""
    started: list[Program] = []

    def start_program(program: str, *arguments: str) -> Program:
        started.append(Program(tmp_path / f"{program}.log", program, *arguments))
        return started[-1]

    yield start_program
    for program in started:
        program.kill()


@pytest.mark.timeout(1_200 + EVENTS // 500)
def test_events_are_counted_exactly_through_the_death_of_the_driver_and_of_the_broker(
    spark: SparkSession, new_broker: Callable[[dict[str, str]], BrokerProcess], tmp_path: Path, start: Start
) -> None:
    broker = new_broker({})
    table, checkpoint = tmp_path / "table", tmp_path / "checkpoint"
    disk = ["--table", str(table), "--checkpoint", str(checkpoint)]
    fill = ["generate_orders.py", "--bootstrap", broker.bootstrap]
    first_half = start(*fill, "--events", str(HALF))
    first_half.wait_until(lambda: "order-events" in partition_counts(broker.bootstrap), "its topic")
    stream = start_stream(start, broker, disk)

    stream.wait_until(lambda: both_have(checkpoint, DRIVER_DIES_AT), "some batches")
    kill_within_a_batch(stream, checkpoint)
    assert not both_have(checkpoint, HALF), "the driver died after its work"
    stream = start_stream(start, broker, disk)

    stream.wait_until(lambda: both_have(checkpoint, BROKER_DIES_AT), "more batches")
    assert first_half.wait() == 0, first_half.last_words()
    second_half = start(*fill, "--events", str(EVENTS), "--skip", str(HALF), "--rate", str(RATE))
    second_half.wait_until(lambda: produced(broker) >= PRODUCED_BY_THEN, "more events")
    assert stream.is_running and second_half.is_running and not both_have(checkpoint, EVENTS)
    broker.kill()
    assert stream.is_running and second_half.is_running
    broker.start()
    assert second_half.wait() == 0, second_half.last_words()

    arrived = events(EVENTS)
    watermark = watermark_ms(arrived, WATERMARK_MINUTES)
    # The last batch has no records: it writes the minutes that the watermark of the previous batch has closed.
    stream.wait_until(lambda: all(committed_batch(checkpoint / q)[1] == watermark for q in QUERIES), "all of it")
    assert stream.stop() == 0, stream.last_words()

    expected = revenue_of(arrived)
    assert sum(1 for _ in read_topic(broker.bootstrap, "order-events")) == EVENTS
    assert revenue_in_topic(broker.bootstrap, "revenue") == expected
    assert revenue_in_table(spark, table) == closed(expected, watermark)
    assert "too late: 0" in stream.log.read_text() and not dropped(stream)


def start_stream(start: Start, broker: BrokerProcess, disk: list[str]) -> Program:
    return start("revenue_stream.py", "--bootstrap", broker.bootstrap, *disk, "--batch", str(BATCH))


def kill_within_a_batch(stream: Program, checkpoint: Path) -> None:
    """Kills the driver while a query has begun a batch and not committed it."""

    def is_held_within_a_batch() -> bool:
        stream.pause()
        if any(has_open_batch(checkpoint / query) for query in QUERIES):
            return True
        stream.resume()
        return False

    stream.wait_until(is_held_within_a_batch, "a batch that is not committed")
    stream.kill()
    assert any(has_open_batch(checkpoint / query) for query in QUERIES)


def produced(broker: BrokerProcess) -> int:
    reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "ends"})
    try:
        return sum(reader.get_watermark_offsets(TopicPartition("order-events", p), timeout=60)[1] for p in range(3))
    finally:
        reader.close()


def both_have(checkpoint: Path, rows: int) -> bool:
    return all(committed_batch(checkpoint / query)[0] >= rows for query in QUERIES)


def dropped(stream: Program) -> list[str]:
    lines = stream.log.read_text().splitlines()
    return [line for line in lines if "too late: " in line and not line.endswith("too late: 0")]
