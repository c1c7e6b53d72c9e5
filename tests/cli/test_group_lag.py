"""Partitions without a commit: rows without a number in each command, in no total, and counted in each total."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import odradek
import pytest
from confluent_kafka import Consumer, Producer

from compat_tests.broker_process import free_port
from compat_tests.cli.commands import Done, odradek_command
from compat_tests.console.process import ConsoleProcess, Visitor
from compat_tests.recipes import eventually

pytestmark = pytest.mark.usefixtures("sockets")

PARTITIONS, RECORDS, COMMITTED = 5, 10, 4
LAG = RECORDS - COMMITTED
UNCOMMITTED = PARTITIONS - 1
FROM_START = PARTITIONS * RECORDS - COMMITTED


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


def test_partitions_without_a_commit_are_rows_without_a_number(broker: odradek.Broker, group: str) -> None:
    rows = run(broker, "group", "lag", group, "--output", "json").json
    assert [(row["partition"], row["committed"], row["lag"]) for row in rows] == [
        (0, COMMITTED, RECORDS - COMMITTED),
        *((partition, None, None) for partition in range(1, PARTITIONS)),
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
    assert f"group {group}: {UNCOMMITTED} of {PARTITIONS} partitions without a commit" in shown.err


def test_from_start_counts_partitions_without_a_commit_from_their_first_record(
    broker: odradek.Broker, group: str
) -> None:
    rows = run(broker, "group", "lag", group, "--from-start", "--output", "json").json
    assert [(row["committed"], row["lag"]) for row in rows] == [(COMMITTED, LAG), *[(None, RECORDS)] * UNCOMMITTED]
    (total,) = run(broker, "group", "lag", group, "--from-start", "--total", "--output", "json").json
    assert (total["lag"], total["uncommitted"], total["unknown"]) == (FROM_START, UNCOMMITTED, 0)
    assert run(broker, "group", "lag", group, "--from-start", "--max", str(FROM_START)).status == 0
    over = run(broker, "group", "lag", group, "--from-start", "--max", str(LAG))
    assert over.status == 1 and f"{group} has {FROM_START}" in over.err


def test_max_compares_the_lag_of_partitions_with_a_commit(broker: odradek.Broker, group: str) -> None:
    assert run(broker, "group", "lag", group, "--max", str(LAG)).status == 0
    over = run(broker, "group", "lag", group, "--max", str(LAG - 1))
    assert over.status == 1 and f"lag of more than {LAG - 1} records: {group} has {LAG}" in over.err


def test_test_kit_has_the_same_numbers(broker: odradek.Broker, group: str) -> None:
    view = broker.group(group)
    assert (view.lag, view.lags, view.uncommitted) == (LAG, {("orders", 0): LAG}, UNCOMMITTED)
    view.wait_for(lag=LAG)
    with pytest.raises(TimeoutError):
        view.wait_for(lag=LAG, from_start=True, timeout=0.2)
    view.wait_for(lag=FROM_START, from_start=True)


def test_reader_of_the_newest_records_has_no_lag_before_its_first_commit(
    broker: odradek.Broker, metrics_port: int
) -> None:
    """A consumer with the defaults of its library: latest, and nothing to commit yet."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "newest"})
    consumer.subscribe(["orders"])
    try:
        eventually(
            lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == PARTITIONS, what="all are assigned"
        )
        rows = run(broker, "group", "lag", "newest", "--output", "json").json
        assert [(row["committed"], row["end"], row["lag"]) for row in rows] == [(None, RECORDS, None)] * PARTITIONS
        (total,) = run(broker, "group", "lag", "newest", "--total", "--output", "json").json
        assert (total["lag"], total["uncommitted"]) == (None, PARTITIONS)
        assert run(broker, "group", "lag", "newest", "--max", "0").status == 0
        assert broker.group("newest").lag is None
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=30) as response:
            lines = [line for line in response.read().decode().splitlines() if 'group="newest"' in line]
        assert lines == [f'odradek_group_lag_uncommitted{{group="newest",kind="classic"}} {PARTITIONS:.1f}']
    finally:
        consumer.close()


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
    each = [line for line in lines if line.startswith(f'odradek_group_lag{{group="{group}"')]
    assert each == [f'odradek_group_lag{{group="{group}",kind="{kind}",partition="0",topic="orders"}} {LAG:.1f}']
    assert "odradek_group_lag_unknown 0.0" in lines
    console = ConsoleProcess(broker.bootstrap_servers, tmp_path)
    try:
        visitor = Visitor(console.address)

        def row() -> str:
            found = re.search(rf'<td data-label="Group">.*?{group}.*?</tr>', visitor.get("/groups"), re.DOTALL)
            return found[0] if found else ""

        def has(column: str, number: int) -> bool:
            return f'data-label="{column}" class="number"><span class="cell">{number}</span></td>' in row()

        eventually(lambda: has("Lag", LAG), what="the list has the lag")
        assert has("Without commit", UNCOMMITTED)
        page = visitor.get(f"/groups/{group}")
        assert f"<dt>Lag</dt><dd>{LAG}</dd>" in page and f"Lag <b>{LAG} records</b>" in page
        assert f"<dt>Partitions without a commit</dt><dd>{UNCOMMITTED}</dd>" in page
        assert page.count('data-label="Partition"') == PARTITIONS
    finally:
        console.stop()


def test_empty_group_keeps_its_lag(broker: odradek.Broker) -> None:
    words = ("consume", "orders", "-p", "0", "--group", "gone")
    assert run(broker, *words).status == 2, "a member gets its partitions from the group"
    consumed = run(broker, "consume", "orders", "--group", "gone", "--from-beginning", "-c", "1")
    assert consumed.status == 0
    (total,) = run(broker, "group", "lag", "gone", "--total", "--output", "json").json
    assert (total["lag"], total["partitions"], total["unknown"]) == (RECORDS - 1, PARTITIONS, 0)
    assert total["uncommitted"] == PARTITIONS - 1


def test_partitions_assigned_by_hand_are_the_only_ones(broker: odradek.Broker) -> None:
    assert run(broker, "group", "reset", "by-hand", "--create", "--to", "3", "--topic", "orders:2").status == 0
    (row,) = run(broker, "group", "lag", "by-hand", "--output", "json").json
    assert (row["partition"], row["lag"]) == (2, RECORDS - 3)


def test_share_group_has_no_lag_in_partitions_that_it_has_not_begun(broker: odradek.Broker) -> None:
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
        rows = run(broker, "group", "lag", name, "--output", "json").json
        assert all((row["lag"] is None) == (row["committed"] is None) for row in rows), rows
        assert not total["lag"] if name == "late" else total["lag"] > 0, total
        assert total["uncommitted"] == sum(row["committed"] is None for row in rows)
        assert total["unknown"] == 0


def test_lag_is_none_where_only_markers_of_transactions_follow_the_commit(
    broker: odradek.Broker, metrics_port: int
) -> None:
    """librdkafka commits the offset after the last record, and never the one behind the marker."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "payments"})
    producer.init_transactions(30)
    for committed in (True, False):
        producer.begin_transaction()
        for value in (b"1", b"2") if committed else (b"3",):
            producer.produce("payments", value)
        producer.flush(30)  # an abort drops what is not sent
        (producer.commit_transaction if committed else producer.abort_transaction)(30)
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "ledger", "enable.auto.commit": False}
    consumer = Consumer(settings | {"auto.offset.reset": "earliest"})
    consumer.subscribe(["payments"])
    try:
        read = eventually(lambda: consumer.consume(2, 1.0), what="records are read")
        assert [message.value() for message in read] == [b"1", b"2"]
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()

    def lags() -> tuple[list[tuple[int, int, int]], int | None, list[str]]:
        rows = run(broker, "group", "lag", "ledger", "--output", "json").json
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=30) as response:
            lines = [line for line in response.read().decode().splitlines() if '_lag_sum{group="ledger"' in line]
        shown = [(row["committed"], row["end"], row["lag"]) for row in rows]
        return shown, broker.group("ledger").lag, [line.rpartition(" ")[2] for line in lines]

    # The aborted record waits, too: Apache Kafka counts it, and a reader decides whether it skips it.
    assert lags() == ([(2, 5, 3)], 3, ["3.0"])
    assert run(broker, "group", "reset", "ledger", "--create", "--to", "4", "--topic", "payments").status == 0
    assert lags() == ([(4, 5, 0)], 0, ["0.0"])
    assert run(broker, "group", "lag", "ledger", "--max", "0").status == 0
    producer.begin_transaction()
    producer.produce("payments", b"4")
    producer.flush(30)
    assert lags() == ([(4, 6, 2)], 2, ["2.0"])
    producer.abort_transaction(30)
