"""batch_report.py and backfill.py: parts of the topic, and the whole of it, exact to the cent."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from backfill import replay
from batch_report import revenue_by_region
from confluent_kafka import Producer
from orders import START
from pyspark.sql import SparkSession
from topics import between_offsets, between_times, ensure_table, ensure_topic, read_topic

from spark_examples.tests.counting import (
    Sum,
    by_region,
    events,
    revenue_in_table,
    revenue_in_topic,
    revenue_of,
    unique_orders,
)
from spark_examples.tests.programs import ORDERS, command
from spark_examples.tests.quick_jvm import QUICK_JVM

FROM, TO = START + timedelta(minutes=20), START + timedelta(minutes=50)


def reported(text: str) -> dict[str, Sum]:
    return {row["region"]: Sum(row["orders"], row["revenue_cents"]) for row in json.loads(text)}


def arrived_between(start: datetime, end: datetime) -> dict[str, Sum]:
    first, last = start.timestamp() * 1000, end.timestamp() * 1000
    return by_region(unique_orders(event for event in events(ORDERS) if first <= event.arrived_ms < last))


def test_a_report_between_times_has_what_arrived_between_them(
    run_in_session: Callable[..., str], bootstrap: str, orders_topic: str
) -> None:
    times = ["--from-time", FROM.isoformat(), "--to-time", TO.isoformat()]
    printed = run_in_session("batch_report.py", "--bootstrap", bootstrap, "--topic", orders_topic, "--json", *times)
    assert reported(printed) == arrived_between(FROM, TO)


def test_a_report_between_offsets_has_those_records(
    run_in_session: Callable[..., str], bootstrap: str, orders_topic: str
) -> None:
    start, end = {"0": 100, "1": 0, "2": 5_000}, {"0": 9_000, "1": 1, "2": 5_000}
    kept = [
        json.loads(record.value())
        for record in read_topic(bootstrap, orders_topic)
        if start[str(record.partition())] <= record.offset() < end[str(record.partition())]
    ]
    assert len(kept) == 8_901
    offsets = ["--from-offsets", json.dumps(start), "--to-offsets", json.dumps(end)]
    printed = run_in_session("batch_report.py", "--bootstrap", bootstrap, "--topic", orders_topic, "--json", *offsets)
    amounts = {order["order_id"]: (order["region"], order["amount_cents"]) for order in kept}
    orders = Counter(region for region, _ in amounts.values())
    cents = {region: sum(amount for home, amount in amounts.values() if home == region) for region in orders}
    assert reported(printed) == {region: Sum(orders[region], cents[region]) for region in orders}


@pytest.mark.parametrize(
    ("start", "end"),
    [(None, None), (FROM, None), (None, TO), (FROM, FROM), (FROM, datetime(2026, 1, 1, tzinfo=UTC))],
    ids=["everything", "to-the-last", "from-the-first", "nothing", "an-end-that-has-not-come"],
)
def test_times_may_lie_outside_of_the_topic(
    spark: SparkSession, bootstrap: str, orders_topic: str, start: datetime | None, end: datetime | None
) -> None:
    rows = revenue_by_region(spark, bootstrap, orders_topic, between_times(start, end))
    expected = arrived_between(start or START, end or START + timedelta(days=400))
    assert {row.region: Sum(row.orders, row.revenue_cents) for row in rows} == expected


def test_a_partition_without_a_record_at_the_start_time_or_after_is_empty(
    spark: SparkSession, bootstrap: str, unique: Callable[[str], str]
) -> None:
    topic = unique("uneven")
    ensure_topic(bootstrap, topic, 2)
    producer = Producer({"bootstrap.servers": bootstrap})
    now = int(datetime.now(UTC).timestamp() * 1000)
    for partition, age_ms in ((0, 60_000), (0, 50_000), (1, 60_000), (1, 10_000), (1, 0)):
        producer.produce(topic, b"%d" % age_ms, partition=partition, timestamp=now - age_ms)
    producer.flush()
    start = datetime.fromtimestamp((now - 10_000) / 1000, UTC)
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    rows = source.options(**between_times(start)).load().collect()
    assert sorted((row.partition, row.offset, bytes(row.value)) for row in rows) == [(1, 1, b"10000"), (1, 2, b"0")]


def test_a_backfill_counts_everything_and_corrects_the_topic(
    spark: SparkSession, run_in_session: Callable[..., str], bootstrap: str, orders_topic: str, tmp_path: Path,
    unique: Callable[[str], str],
) -> None:  # fmt: skip
    topic, table = unique("revenue"), tmp_path / "revenue.parquet"
    ensure_table(bootstrap, topic)
    expected = revenue_of(events(ORDERS))
    wrong = {"window_start": "2025-03-03 00:01:00", "region": "europe", "orders": 1, "revenue_cents": 1}
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, json.dumps(wrong), key="2025-03-03 00:01:00|europe")
    producer.flush()
    assert revenue_in_topic(bootstrap, topic) != expected
    table.mkdir()
    (table / "of-an-earlier-run.parquet").touch()

    to = ["--table", str(table), "--output-topic", topic]
    run_in_session("backfill.py", "--bootstrap", bootstrap, "--topic", orders_topic, *to)
    assert revenue_in_table(spark, table) == expected
    assert revenue_in_topic(bootstrap, topic) == expected


def test_min_partitions_reads_a_partition_in_pieces_that_fit_together(
    spark: SparkSession, bootstrap: str, orders_topic: str
) -> None:
    whole, pieces = (replay(spark, bootstrap, orders_topic, count) for count in (1, 12))
    assert whole.rdd.getNumPartitions() == 3
    assert pieces.rdd.getNumPartitions() == pytest.approx(12, abs=2)
    read = pieces.selectExpr("partition", "offset", "spark_partition_id() as piece").collect()
    assert len({(row.partition, row.offset) for row in read}) == len(read) == ORDERS
    assert len({row.piece for row in read}) == pieces.rdd.getNumPartitions()


def test_a_range_of_offsets_is_exact_also_inside_of_batches(
    spark: SparkSession, bootstrap: str, orders_topic: str
) -> None:
    piece = between_offsets(orders_topic, {"0": 1_234, "1": 7, "2": 19}, {"0": 1_241, "1": 8, "2": 19})
    source = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    rows = source.option("subscribe", orders_topic).options(**piece).load().collect()
    assert sorted((row.partition, row.offset) for row in rows) == [*((0, at) for at in range(1_234, 1_241)), (1, 7)]


def test_a_program_prints_no_warning_of_spark(bootstrap: str, orders_topic: str) -> None:
    quick = {**os.environ, **QUICK_JVM}
    report = command("batch_report.py", "--bootstrap", bootstrap, "--topic", orders_topic, "--json")
    done = subprocess.run(report, capture_output=True, text=True, timeout=360, env=quick, check=True)
    # Java prints these before Spark starts: the options of QUICK_JVM, and a module that Spark uses.
    of_java = ("Picked up JAVA_TOOL_OPTIONS", "WARNING: Using incubator modules")
    assert [line for line in done.stderr.splitlines() if line and not line.startswith(of_java)] == []
    assert json.loads(done.stdout)
