"""`odradek bench` and `odradek top` on three nodes of Odradek and on Apache Kafka."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from compat_tests.broker_process import free_port
from compat_tests.cli.commands import Run, odradek_command
from compat_tests.odradek_process import OdradekProcess


@pytest.mark.parametrize("kind", ["produce", "consume"])
def test_throughput_is_measured_beside_another_cluster(run: Run, cluster: str, kind: str) -> None:
    done = run("bench", kind, "-c", "2000", "--rounds", "1", "--against", cluster, "--output", "json")
    assert done.status == 0, done.err
    ours, theirs, ratio = done.json
    assert ours["records"] == theirs["records"] == 2000
    assert ratio["records_per_s"] == pytest.approx(
        ours["records_per_s"] / theirs["records_per_s"], rel=0.01, abs=0.0005
    )
    assert run("topic", "list", "odradek-bench-*", "--output", "json").json == [], "the topics are deleted"


def test_latency_is_measured_to_the_acknowledgement_and_the_consumer(run: Run) -> None:
    (found,) = run("bench", "latency", "-c", "20", "--rate", "200", "--rounds", "1", "--output", "json").json
    assert found["records"] == 20
    assert 0 < found["ack_ms_p50"] <= found["ack_ms_p99"] <= found["ack_ms_max"]
    assert found["end_to_end_ms_p50"] > 0
    assert run("bench", "latency", "--rate", "0").status == 2


def test_top_shows_throughput_and_lag(run: Run, topic: str, group: str) -> None:
    run("topic", "create", topic, "--partitions", "1")
    run("produce", topic, stdin="1\n2\n3\n")
    run("consume", topic, "-g", group, "-o", "beginning", "-c", "1")
    first, second = run("top", "-i", "2", "-n", "0.05", "--output", "jsonl").lines
    row = {one["topic"]: one for one in first["topics"]}[topic]
    assert (row["records_per_s"], row["partitions"]) == (None, 1)
    assert {one["topic"]: one for one in second["topics"]}[topic]["records_per_s"] == 0.0
    assert {one["group"]: one["lag"] for one in first["groups"]}[group] == 2
    tables = run("top", "-i", "1").out
    assert "LAG" in tables and "RECORDS/S" in tables


def test_top_shows_slow_requests_of_a_node(tmp_path: Path) -> None:
    port = free_port()
    with OdradekProcess(tmp_path, {"odradek.metrics.port": str(port)}) as broker:
        with socket.create_connection(("127.0.0.1", port)):
            pass
        metrics = f"http://127.0.0.1:{port}/metrics"
        words = ("top", "-i", "2", "-n", "0.05", "-b", broker.bootstrap, "--metrics", metrics, "--output", "jsonl")
        found = odradek_command(*words).lines
    # The node measures one request in 64, the first of each kind among them.
    assert "Metadata" in {one["request"] for one in found[0]["requests"]}
    assert all(one["mean_ms"] >= 0 and one["count"] > 0 for one in found[0]["requests"])
