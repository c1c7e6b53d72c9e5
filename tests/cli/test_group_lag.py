"""Lag of partitions that have no commit: the same number in each command, in the metrics and in the console."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import odradek
import pytest
from confluent_kafka import Consumer

from compat_tests.broker_process import free_port
from compat_tests.cli.commands import Done, odradek_command
from compat_tests.console.process import ConsoleProcess, Visitor
from compat_tests.recipes import eventually

pytestmark = pytest.mark.usefixtures("sockets")

PARTITIONS, RECORDS, COMMITTED = 5, 10, 4
LAG = PARTITIONS * RECORDS - COMMITTED
UNCOMMITTED = (PARTITIONS - 1) * RECORDS


@pytest.fixture(scope="module")
def metrics_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def broker(metrics_port: int) -> Iterator[odradek.Broker]:
    # Members learn of their partitions by heartbeats, every 5 s by default.
    kinds = ("consumer", "consumer.min", "share", "share.min")
    heartbeats = {f"group.{kind}.heartbeat.interval.ms": 500 for kind in kinds} | {
        "group.share.assignment.interval.ms": 0
    }
    with odradek.Broker(config={"odradek.metrics.port": metrics_port, **heartbeats}) as running:
        words = ("topic", "create", "orders", "--partitions", str(PARTITIONS), "-b", running.bootstrap_servers)
        assert odradek_command(*words).status == 0
        for partition in range(PARTITIONS):
            running.topic("orders").send(*[b"x"] * RECORDS, partition=partition)
        yield running


def run(broker: odradek.Broker, *words: str) -> Done:
    return odradek_command(*words, "-b", broker.bootstrap_servers)


@pytest.fixture(scope="module", params=["classic", "consumer"])
def group(request: pytest.FixtureRequest, broker: odradek.Broker) -> Iterator[str]:
    """A group whose one member has all partitions, and a commit in one."""
    name = f"billing-{request.param}"
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": name, "group.protocol": request.param}
    consumer = Consumer(settings | {"enable.auto.commit": False, "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    try:
        eventually(lambda: consumer.poll(0.1) and len(consumer.assignment()) == PARTITIONS, what="all are assigned")
        (first, *_) = sorted(consumer.assignment(), key=lambda one: one.partition)
        first.offset = COMMITTED
        consumer.commit(offsets=[first], asynchronous=False)
        yield name
    finally:
        consumer.close()


def test_partitions_without_a_commit_are_rows_and_count(broker: odradek.Broker, group: str) -> None:
    rows = run(broker, "group", "lag", group, "--output", "json").json
    assert [(row["partition"], row["committed"], row["lag"]) for row in rows] == [
        (0, COMMITTED, RECORDS - COMMITTED),
        *((partition, None, RECORDS) for partition in range(1, PARTITIONS)),
    ]
    (described,) = run(broker, "group", "describe", group, "--output", "json").json
    assert described["offsets"] == [{key: row[key] for key in row if key != "group"} for row in rows]
    (total,) = run(broker, "group", "lag", group, "--total", "--output", "json").json
    assert total == {
        "group": group, "partitions": PARTITIONS, "lag": LAG, "uncommitted": UNCOMMITTED, "unknown": 0,
    }  # fmt: skip
    shown = run(broker, "group", "lag", group)
    heading, row, *_ = shown.out.splitlines()
    # Numbers stand at the right, below their heading, also where one is missing.
    assert heading.index("COMMITTED") + len("COMMITTED") == re.search(rf"\b{COMMITTED}\b", row).end()  # type: ignore[union-attr]
    assert f"{UNCOMMITTED} records of its lag are in partitions without a commit" in shown.err


def test_max_compares_the_whole_lag(broker: odradek.Broker, group: str) -> None:
    assert run(broker, "group", "lag", group, "--max", str(LAG)).status == 0
    over = run(broker, "group", "lag", group, "--max", str(LAG - 1))
    assert over.status == 1 and f"{group} by {LAG}" in over.err


@pytest.mark.usefixtures("processes")
def test_metrics_and_console_have_the_same_number(
    broker: odradek.Broker, metrics_port: int, group: str, tmp_path: Path
) -> None:
    kind = group.removeprefix("billing-")
    (at_top,) = [one for one in run(broker, "top", "--iterations", "1", "--output", "json").json[0]["groups"]
                 if one["group"] == group]  # fmt: skip
    assert at_top["lag"] == LAG
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=30) as response:
        lines = response.read().decode().splitlines()
    assert f'odradek_group_lag_sum{{group="{group}",kind="{kind}"}} {LAG:.1f}' in lines
    assert f'odradek_group_lag_uncommitted{{group="{group}",kind="{kind}"}} {UNCOMMITTED:.1f}' in lines
    assert "odradek_group_lag_unknown 0.0" in lines
    console = ConsoleProcess(broker.bootstrap_servers, tmp_path)
    try:
        visitor = Visitor(console.address)

        def row() -> str:
            found = re.search(rf'<td data-label="Group">.*?{group}.*?</tr>', visitor.get("/groups"), re.DOTALL)
            return found[0] if found else ""

        eventually(lambda: f">{LAG}</td>" in row(), what="the list has the lag")
        page = visitor.get(f"/groups/{group}")
        assert f"<dt>Lag</dt><dd>{LAG}" in page and page.count('data-label="Partition"') == PARTITIONS
    finally:
        console.stop()


def test_empty_group_keeps_its_lag(broker: odradek.Broker) -> None:
    words = ("consume", "orders", "-p", "0", "--group", "gone")
    assert run(broker, *words).status == 2, "a member gets its partitions from the group"
    consumed = run(broker, "consume", "orders", "--group", "gone", "--from-beginning", "-c", "1")
    assert consumed.status == 0
    (total,) = run(broker, "group", "lag", "gone", "--total", "--output", "json").json
    assert total["lag"] == PARTITIONS * RECORDS - 1


def test_partitions_assigned_by_hand_are_the_only_ones(broker: odradek.Broker) -> None:
    assert run(broker, "group", "reset", "by-hand", "--to", "3", "--topic", "orders:2").status == 0
    (row,) = run(broker, "group", "lag", "by-hand", "--output", "json").json
    assert (row["partition"], row["lag"]) == (2, RECORDS - 3)


def test_share_group_that_begins_at_the_end_has_no_lag_in_partitions_it_has_not_begun(broker: odradek.Broker) -> None:
    from confluent_kafka import ShareConsumer

    for name, reset in (("late", "latest"), ("early", "earliest")):
        assert run(broker, "config", "set", "group", name, f"share.auto.offset.reset={reset}").status == 0
        consumer = ShareConsumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": name})
        try:
            consumer.subscribe(["orders"])

            def described(name: str = name, consumer: ShareConsumer = consumer) -> bool:
                consumer.poll(0.1)
                found = run(broker, "group", "describe", name, "--output", "json")
                members = found.json[0]["members"] if found.status == 0 else []
                return bool(members and len(members[0]["partitions"]) == PARTITIONS)

            eventually(described, what="the member has all partitions")
        finally:
            consumer.close()
        (total,) = run(broker, "group", "lag", name, "--total", "--output", "json").json
        assert (total["lag"] == 0) if name == "late" else (total["lag"] > 0), total
        assert total["unknown"] == 0
