"""revenue_stream.py over a million events, with kill -9 of the driver and then of the broker."""

from __future__ import annotations

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
from spark_examples.tests.programs import Program, committed_batch

EVENTS = 1_000_000
#: The first half comes at once. The second is in flight when the broker dies, and must still be written.
HALF, RATE = EVENTS // 2, 25_000
#: Records that both queries have processed when a process is killed, and records in the topic when the broker is.
DRIVER_DIES_AT, BROKER_DIES_AT, PRODUCED_BY_THEN = 150_000, 300_000, 600_000
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


def test_a_million_events_are_counted_exactly_through_the_death_of_the_driver_and_of_the_broker(
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
    stream.kill()
    stream = start_stream(start, broker, disk)

    stream.wait_until(lambda: both_have(checkpoint, BROKER_DIES_AT), "more batches")
    assert first_half.wait() == 0, first_half.last_words()
    second_half = start(*fill, "--events", str(EVENTS), "--skip", str(HALF), "--rate", str(RATE))
    second_half.wait_until(lambda: produced(broker) >= PRODUCED_BY_THEN, "more events")
    assert stream.is_running and second_half.is_running and not both_have(checkpoint, EVENTS)
    broker.kill()
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
    """Starts the stream with small batches, so that a kill hits one."""
    return start("revenue_stream.py", "--bootstrap", broker.bootstrap, *disk, "--batch", "80000")


def produced(broker: BrokerProcess) -> int:
    reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "ends"})
    try:
        return sum(reader.get_watermark_offsets(TopicPartition("order-events", p), timeout=10)[1] for p in range(3))
    finally:
        reader.close()


def both_have(checkpoint: Path, rows: int) -> bool:
    return all(committed_batch(checkpoint / query)[0] >= rows for query in QUERIES)


def dropped(stream: Program) -> list[str]:
    lines = stream.log.read_text().splitlines()
    return [line for line in lines if "too late: " in line and not line.endswith("too late: 0")]
