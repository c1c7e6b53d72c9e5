"""The pipeline, format("odradek") and `odradek archive --spark` through a server of Spark Connect."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from odradek.admin.connection import Connection
from odradek.admin.group_offsets import committed
from odradek.archive import IcebergSource, open_catalog
from pyspark.sql import SparkSession
from revenue_stream import WATERMARK_MINUTES
from session import REMOTE
from topics import read_topic

from compat_tests.recipes import make_topic
from spark_examples.tests.connect_server import ConnectServer
from spark_examples.tests.connect_session import group_of
from spark_examples.tests.counting import (
    closed,
    events,
    revenue_in_table,
    revenue_in_topic,
    revenue_of,
    unique_orders,
    watermark_ms,
)
from spark_examples.tests.late_process import DEADLINE_S, in_time
from spark_examples.tests.programs import EXAMPLES, ORDERS, run_program
from spark_examples.tests.sink_rounds import lose_last_commit, messages

#: Less than the topic's events, so that a query takes several batches.
BATCH = 25_000


def run(server: ConnectServer, program: str, *arguments: str) -> str:
    """Runs a program with the server; again where a Python process of Spark was late."""
    return in_time(lambda: run_program(program, *arguments, environment={REMOTE: server.url}))


def test_revenue_stream_through_a_server_counts_each_order_once(
    server: ConnectServer, spark: SparkSession, bootstrap: str, orders_topic: str, tmp_path: Path,
    unique: Callable[[str], str],
) -> None:  # fmt: skip
    revenue, table = unique("revenue"), tmp_path / "table"
    where = ["--bootstrap", bootstrap, "--topic", orders_topic, "--output-topic", revenue]
    disk = ["--table", str(table), "--checkpoint", str(tmp_path / "checkpoint")]
    printed = run(server, "revenue_stream.py", *where, *disk, "--available-now", "--batch", str(BATCH))
    assert set(re.findall(r"too late: (\d+)", printed)) == {"0"} and printed.count("kafka: batch") >= 2
    arrived = events(ORDERS)
    expected = revenue_of(arrived)
    assert revenue_in_topic(bootstrap, revenue) == expected
    assert revenue_in_table(spark, table) == closed(expected, watermark_ms(arrived, WATERMARK_MINUTES))


def test_three_ways_through_a_server_have_the_totals_of_the_events(
    server: ConnectServer, bootstrap: str, orders_topic: str, tmp_path: Path
) -> None:
    where = ["--bootstrap", bootstrap, "--topic", orders_topic]
    printed = run(server, "three_ways.py", *where, "--warehouse", str(tmp_path))
    found = re.findall(r" ([\d,]+) events, ([\d,]+) orders, ([\d,.]+)$", printed, re.MULTILINE)
    arrived = events(ORDERS)
    cents = sum(event.order.amount_cents for event in arrived)
    assert found == [(f"{ORDERS:,}", f"{len(unique_orders(arrived)):,}", f"{cents / 100:,.2f}")] * 6


def test_batches_in_functions_through_a_server_are_written_once(
    server: ConnectServer, bootstrap: str, orders_topic: str, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    ledger = unique("ledger")
    where = ["--bootstrap", bootstrap, "--topic", orders_topic, "--ledger", ledger, "--batch", str(BATCH)]
    for _ in range(2):  # the second run has the checkpoint of the first
        run(server, "revenue_ledger.py", *where, "--checkpoint", str(tmp_path / "ledger"), "--available-now")
    found: Counter[str] = Counter()
    for message in read_topic(bootstrap, ledger):
        row = json.loads(message.value())
        found[row["region"]] += row["revenue_cents"]
    expected: Counter[str] = Counter()
    for event in events(ORDERS):
        expected[event.order.region] += event.order.amount_cents
    assert found == expected

    copy = ["--subscribe", orders_topic, "--prefix", "connect.", "--checkpoint", str(tmp_path / "copy")]
    run(server, "copy_topic.py", "--bootstrap", bootstrap, *copy, "--available-now")
    assert sum(1 for _ in read_topic(bootstrap, f"connect.{orders_topic}")) == ORDERS


def test_the_source_through_a_server_equals_the_stock_connector(
    server: ConnectServer, bootstrap: str, orders_topic: str, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    script = Path(__file__).with_name("connect_session.py")
    environment = {**os.environ, REMOTE: server.url, "PYTHONPATH": str(EXAMPLES)}

    folders: list[Path] = []

    def session() -> str:
        folders.append(tmp_path / unique("run"))
        done = subprocess.run(
            [sys.executable, str(script), bootstrap, orders_topic, str(folders[-1])],
            env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-8_000:]
        return done.stdout

    found = json.loads(in_time(session))
    assert len(found["kafka"]) == ORDERS and found["odradek"] == found["kafka"] and found["read"] == found["kafka"]
    assert found["amounts"] == [sum(event.order.amount_cents for event in events(ORDERS))] * 2
    assert found["listened"] == 2 * ORDERS
    with Connection({"bootstrap.servers": bootstrap}).admin() as admin:
        for query in ("by-sink", "by-function"):
            offsets = committed(admin, group_of(str(folders[-1]), query))
            assert sum(one.offset for one in offsets.values()) == ORDERS, "the listener runs on the client"


def test_sink_through_a_server_writes_a_batch_that_spark_runs_again_once(
    server: ConnectServer, bootstrap: str, orders_topic: str, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    copies, checkpoint = unique("copies"), tmp_path / "copies"
    # The copies have the timestamps of the orders, which retention would delete.
    make_topic(bootstrap, copies, 3, {"retention.ms": "-1"})
    words = ["--bootstrap", bootstrap, "--source", orders_topic, "--target", copies, "--checkpoint", str(checkpoint)]
    run(server, "copy_once.py", *words, "--batch", str(BATCH), "--available-now")
    lose_last_commit(checkpoint)
    run(server, "copy_once.py", *words, "--batch", str(BATCH), "--available-now")
    source, target = (
        Counter((one.key(), one.value(), one.timestamp()) for one in messages(bootstrap, topic))
        for topic in (orders_topic, copies)
    )
    assert target == source and target.total() == ORDERS


def test_archive_through_a_server_has_all_records(
    server: ConnectServer, bootstrap: str, orders_topic: str, tmp_path: Path
) -> None:
    where = ["--warehouse", str(tmp_path), "--value-format", "json", "--value-schema", "infer", "--once"]
    where += ["-b", bootstrap]
    done = subprocess.run(
        [sys.executable, "-m", "odradek", "archive", orders_topic, *where, "--spark", server.url],
        capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-8_000:]
    source = IcebergSource(open_catalog(tmp_path, {}), f"kafka.{orders_topic.replace('-', '_')}")
    cents = [
        row["amount_cents"] for one in range(3) for row in source.read(one, 0, 1 << 40).column("value").to_pylist()
    ]
    assert (len(cents), sum(cents)) == (ORDERS, sum(event.order.amount_cents for event in events(ORDERS)))
