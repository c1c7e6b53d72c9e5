"""Numbers of one cluster in commands, console, metrics and test kit, compared with each other and with Apache Kafka's tools.

The cluster has compaction, transactions, empty partitions, a reader of the newest records and a restored group.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import odradek
import pytest
from confluent_kafka import Consumer, Producer
from odradek.console.formats import NONE

from compat_tests.broker_process import free_ports
from compat_tests.cli.commands import odradek_command
from compat_tests.cli.three_node_cluster import three_nodes
from compat_tests.console.process import ConsoleProcess, Visitor
from compat_tests.java.tool import ToolHost
from compat_tests.recipes import eventually

PARTITIONS, RECORDS, KEYS = 12, 6_000, 11
#: Keyed records that compaction reduces to the newest of each key, and those of the segment that it leaves alone.
COMPACTED = 3_000
_QUICK = {
    "log.cleaner.backoff.ms": "200",
    "log.retention.check.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
}
_FLUSH_S = 60
#: Class of each tool, and the words before its options.
_GROUPS = ("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--describe", "--all-groups")
_OFFSETS = ("org.apache.kafka.tools.GetOffsetShell",)
_LOG_DIRS = ("org.apache.kafka.tools.LogDirsCommand", "--describe")
_QUORUM = ("org.apache.kafka.tools.MetadataQuorumCommand",)
_TOPICS = ("org.apache.kafka.tools.TopicCommand", "--describe")
#: Roles in the metadata quorum: Apache Kafka's words, and those of `cluster quorum`.
_ROLES = {"Leader": "leader", "Follower": "voter", "Observer": "observer"}
Place = tuple[str, int]
GroupRows = dict[tuple[str, str, int], tuple[int | None, int | None, int | None]]


@dataclass
class Seen:
    """A cluster, and what shows it. `kit` is None where the brokers are processes."""

    bootstrap: str
    #: Ports of the brokers' metrics: a broker serves the groups that it coordinates.
    metrics: range
    visitor: Visitor
    kit: odradek.Broker | None

    def command(self, *words: str) -> Any:
        done = odradek_command(*words, "--output", "json", "-b", self.bootstrap)
        assert done.status == 0, done.err
        return done.json

    def samples(self) -> dict[str, float]:
        found = {}
        for port in self.metrics:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as response:
                lines = [line for line in response.read().decode().splitlines() if line.startswith("odradek_group_lag")]
            found |= {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}
        return found


@pytest.fixture(scope="module", params=["one", "three"])
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    folder, count = tmp_path_factory.mktemp(request.param), 1 if request.param == "one" else 3
    ports = range(first := free_ports(count), first + count)
    config = {**_QUICK, "odradek.metrics.port": str(ports[0])}
    with contextlib.ExitStack() as stack:
        kit = None
        if request.param == "one":
            kit = stack.enter_context(odradek.Broker(config=config))
            bootstrap = kit.bootstrap_servers
        else:
            bootstrap = stack.enter_context(three_nodes(folder / "nodes", *(f"{k}={v}" for k, v in config.items())))
        fill(bootstrap, folder)
        stack.enter_context(newest_reader(bootstrap))
        console = ConsoleProcess(bootstrap, folder)
        stack.callback(console.stop)
        yield Seen(bootstrap, ports, Visitor(console.address), kit)


def fill(bootstrap: str, folder: Path) -> None:
    def run(*words: str) -> None:
        done = odradek_command(*words, "-b", bootstrap)
        assert done.status == 0, done.err

    run("topic", "create", "orders", "--partitions", str(PARTITIONS))
    run("topic", "create", "payments", "saved", "--partitions", "3")
    compacting = ("cleanup.policy=compact", "min.cleanable.dirty.ratio=0.001", "segment.ms=500")
    run("topic", "create", "compacted", *(word for one in compacting for word in ("--config", one)))
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for number in range(RECORDS):  # the last three partitions stay empty
        producer.produce("orders", b"%d" % number, partition=number % (PARTITIONS - 3))
        producer.produce("saved", b"%d" % number, partition=number % 2)
    began_ms = int(time.time() * 1000) - COMPACTED * 10
    for number in range(COMPACTED):  # a new segment begins by the times of records
        key = b"key-%d" % (number % KEYS)
        producer.produce("compacted", b"%d" % number, key, timestamp=began_ms + number * 10)
        if number % 100 == 99:
            assert producer.flush(_FLUSH_S) == 0
    assert producer.flush(_FLUSH_S) == 0
    pay(bootstrap)
    run("group", "reset", "one-commit", "--create", "--to", "7", "--topic", "orders:4")
    run("group", "reset", "restored", "--create", "--to", "100", "--topic", "saved:0,1")
    read_all(bootstrap, "billing", "orders", RECORDS)
    read_all(bootstrap, "ledger", "payments", 40)
    # As librdkafka commits: before the marker.
    run("group", "reset", "ledger", "--create", "--to", "-1", "--topic", "payments:0,1")
    read_all(bootstrap, "compactor", "compacted", 5)
    run("backup", str(folder / "backup"), "--topic", "saved", "--group", "restored")
    run("topic", "delete", "saved", "--yes")
    eventually(lambda: odradek_command("topic", "describe", "saved", "-b", bootstrap).status != 0, what="it is deleted")
    run("group", "delete", "restored", "--yes")
    run("restore", str(folder / "backup"))


def pay(bootstrap: str) -> None:
    """Committed and aborted transactions, and one that stays open is not among them: its records would move the ends."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "payments"})
    producer.init_transactions(_FLUSH_S)
    for number in range(5):
        producer.begin_transaction()
        for partition in (0, 1):
            for _ in range(5):
                producer.produce("payments", b"%d" % number, partition=partition)
        producer.flush(_FLUSH_S)
        (producer.abort_transaction if number == 0 else producer.commit_transaction)(_FLUSH_S)


def read_all(bootstrap: str, group: str, topic: str, count: int) -> None:
    """A group of librdkafka that commits after so many records, at the least."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings | {"enable.auto.commit": False})
    consumer.subscribe([topic])
    found = 0
    try:
        while found < count:
            found += len(consumer.consume(count - found, 1.0))
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()


@contextlib.contextmanager
def newest_reader(bootstrap: str) -> Iterator[None]:
    """A member with the defaults of its library: it reads the newest records, and has nothing to commit."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "newest"})
    consumer.subscribe(["orders"])
    try:
        eventually(
            lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == PARTITIONS, what="all are assigned"
        )
        yield
    finally:
        consumer.close()


# ---- what each shows


@pytest.fixture
def apache(seen: Seen, tools: ToolHost) -> Callable[..., str]:
    def run(tool: tuple[str, ...], *arguments: str) -> str:
        address = "--bootstrap-server"
        if tool is _QUORUM:
            return tools.run(tool[0], address, seen.bootstrap, *arguments).checked().out
        return tools.run(tool[0], address, seen.bootstrap, *tool[1:], *arguments).checked().out

    return run


def rows_of(text: str, first: str) -> list[dict[str, str]]:
    """The rows of each table of a tool whose heading begins with a word."""
    rows, heading = [], []
    for line in text.splitlines():
        words = line.split()
        if words[:1] == [first]:
            heading = words
        elif heading and len(words) >= len(heading) - 3:
            rows.append(dict(zip(heading, words, strict=False)))
    return rows


def known(text: str) -> int | None:
    return None if text == "-" else int(text)


def groups_of_apache(apache: Callable[..., str]) -> GroupRows:
    return {
        (row["GROUP"], row["TOPIC"], int(row["PARTITION"])): (
            known(row["CURRENT-OFFSET"]),
            known(row["LOG-END-OFFSET"]),
            known(row["LAG"]),
        )
        for row in rows_of(apache(_GROUPS), "GROUP")
    }


def groups_of_commands(seen: Seen) -> GroupRows:
    return {
        (row["group"], row["topic"], row["partition"]): (row["committed"], row["end"], row["lag"])
        for row in seen.command("group", "lag")
    }


def sums(rows: GroupRows) -> dict[str, int | None]:
    """The lag of each group; None where no partition has one."""
    made: dict[str, int | None] = {}
    for group, of_group in itertools.groupby(sorted(rows), key=lambda one: one[0]):
        lags = [lag for one in of_group if (lag := rows[one][2]) is not None]
        made[group] = sum(lags) if lags else None
    return made


def fact(page: str, name: str) -> str:
    found = re.search(rf"<dt>{name}</dt><dd>(.*?)</dd>", page)
    assert found, (name, page)
    return re.sub("<[^>]*>", "", found[1]).replace("\N{NARROW NO-BREAK SPACE}", "")


# ---- groups


def test_lag_of_each_partition_is_that_of_apache_kafkas_tool(seen: Seen, apache: Callable[..., str]) -> None:
    """Where only markers follow the commit, Apache Kafka counts them: the end less the commit."""
    theirs, ours = groups_of_apache(apache), groups_of_commands(seen)
    assert {one[0] for one in theirs} == {"newest", "one-commit", "billing", "ledger", "compactor", "restored"}
    marked = {one for one in theirs if one[0] == "ledger" and theirs[one][2] == 1}
    assert len(marked) == 2 and all(ours[one][2] == 0 and ours[one][:2] == theirs[one][:2] for one in marked)
    assert {one: ours[one] for one in theirs if one not in marked} == {
        one: row for one, row in theirs.items() if one not in marked
    }
    assert all(ours[one][0] is None and ours[one][2] is None for one in ours.keys() - theirs.keys())


def test_lag_of_groups_is_the_same_everywhere(seen: Seen) -> None:
    expected = sums(groups_of_commands(seen))
    uncommitted = {row["group"]: row["uncommitted"] for row in seen.command("group", "lag", "--total")}
    assert expected["newest"] is None and uncommitted["newest"] == PARTITIONS
    assert (expected["ledger"], expected["billing"]) == (0, 0)
    assert {row["group"]: row["lag"] for row in seen.command("group", "lag", "--total")} == expected
    assert {row["group"]: row["lag"] for row in seen.command("top", "--iterations", "1")[0]["groups"]} == expected
    samples = seen.samples()
    for group, lag in expected.items():
        labelled = [one for one in samples if one.startswith("odradek_group_lag_sum{") and f'group="{group}"' in one]
        assert [samples[one] for one in labelled] == ([] if lag is None else [lag]), group
        page = seen.visitor.get(f"/groups/{group}")
        assert fact(page, "Lag") == (NONE if lag is None else str(lag)), group
        if seen.kit is not None:
            assert (seen.kit.group(group).lag, seen.kit.group(group).uncommitted) == (lag, uncommitted[group])
    whole = sum(lag or 0 for lag in expected.values())
    eventually(lambda: f"Lag of all groups <b>{whole} records" in numbers(seen.visitor.get("/")), what="it is polled")
    over = odradek_command("group", "lag", "--max", "10", "-b", seen.bootstrap)
    assert over.status == 1 and f"one-commit has {expected['one-commit']}" in over.err and "newest has" not in over.err


def numbers(page: str) -> str:
    return page.replace("\N{NARROW NO-BREAK SPACE}", "")


# ---- topics


def test_offsets_are_those_of_apache_kafkas_tool(seen: Seen, apache: Callable[..., str]) -> None:
    def offsets(time: str) -> dict[Place, int]:
        found = (line.rsplit(":", 2) for line in apache(_OFFSETS, "--time", time).splitlines())
        return {(name, int(index)): int(offset) for name, index, offset in found if not name.startswith("__")}

    first, last = offsets("earliest"), offsets("latest")
    counts: dict[str, int] = {}
    for (name, index), end in last.items():
        counts[name] = counts.get(name, 0) + end - first[name, index]
    assert {one["name"]: one["offsets"] for one in seen.command("topic", "list", "--sizes")} == counts
    for topic in seen.command("topic", "describe", *counts):
        places = [(topic["name"], one["partition"]) for one in topic["partitions"]]
        assert [one["end_offset"] for one in topic["partitions"]] == [last[place] for place in places]
        assert [one["first_offset"] for one in topic["partitions"]] == [first[place] for place in places]
        page = seen.visitor.get(f"/topics/{topic['name']}/partitions")
        assert int(fact(page, "Offsets in these partitions")) == counts[topic["name"]]
        if seen.kit is not None:
            ends = seen.kit.topic(topic["name"]).end_offsets
            assert ends == {index: end for (name, index), end in last.items() if name == topic["name"]}


def test_records_are_counted_by_the_headers_of_their_batches(seen: Seen) -> None:
    def counted() -> dict[str, dict[str, int]]:
        return {one["name"]: one for one in seen.command("topic", "list", "--sizes", "--count")}

    eventually(lambda: counted()["compacted"]["records"] < COMPACTED / 2, what="the topic is compacted")
    found = counted()
    assert found["compacted"]["offsets"] == COMPACTED and found["compacted"]["records"] >= KEYS
    # Five transactions of five records in two partitions, and a marker of each.
    assert (found["payments"]["records"], found["payments"]["offsets"]) == (50, 60)
    assert (found["orders"]["records"], found["orders"]["offsets"]) == (RECORDS, RECORDS)
    if seen.kit is not None:
        assert len(seen.kit.topic("payments").records()) == 50


def test_sizes_are_those_of_apache_kafkas_tool(seen: Seen, apache: Callable[..., str]) -> None:
    found = apache(_LOG_DIRS, "--topic-list", "orders,payments,saved")
    described = json.loads(next(line for line in found.splitlines() if line.startswith("{")))
    replicas = [
        (one["partition"], one["size"])
        for broker in described["brokers"]
        for directory in broker["logDirs"]
        for one in directory["partitions"]
    ]
    largest: dict[str, int] = {}
    for name, count in replicas:
        largest[name] = max(largest.get(name, 0), count)
    listed = {one["name"]: one["bytes"] for one in seen.command("topic", "list", "--sizes")}
    for topic in ("orders", "payments", "saved"):
        (shown,) = seen.command("topic", "describe", topic)
        assert {f"{topic}-{one['partition']}": one["bytes"] for one in shown["partitions"]} == {
            name: count for name, count in largest.items() if name.rpartition("-")[0] == topic
        }
        assert listed[topic] == sum(one["bytes"] for one in shown["partitions"])
        rows = seen.command("cluster", "log-dirs", "--topic", topic)
        assert sum(row["bytes"] for row in rows) == sum(
            count for name, count in replicas if name.rpartition("-")[0] == topic
        )


# ---- the cluster


def test_controller_and_quorum_are_those_of_apache_kafkas_tool(seen: Seen, apache: Callable[..., str]) -> None:
    status = dict(re.findall(r"^(\w+):\s+(\S+)", apache(_QUORUM, "describe", "--status"), re.MULTILINE))
    leader = int(status["LeaderId"])
    (described,) = seen.command("cluster", "describe")
    assert described["controller"] == leader
    assert [one["broker"] for one in described["brokers"] if one["controller"]] == [leader]
    (quorum,) = seen.command("cluster", "quorum")
    assert (quorum["leader"], quorum["epoch"]) == (leader, int(status["LeaderEpoch"]))
    eventually(lambda: f"node {leader}" in fact(seen.visitor.get("/"), "Active controller"), what="it is polled")

    def replicas() -> bool:
        theirs = rows_of(apache(_QUORUM, "describe", "--replication"), "NodeId")
        ours = {one["node"]: (one["lag"], one["role"]) for one in seen.command("cluster", "quorum")[0]["replicas"]}
        return ours == {int(one["NodeId"]): (int(one["Lag"]), _ROLES[one["Status"]]) for one in theirs}

    eventually(replicas, what="no record is on its way to a follower of the metadata log")


def test_partitions_are_those_of_apache_kafkas_tool(seen: Seen, apache: Callable[..., str]) -> None:
    pattern = re.compile(r"Topic: (\S+)\s+Partition: (\d+)\s+Leader: (\d+)\s+Replicas: (\S+)\s+Isr: (\S+)")

    def theirs() -> dict[Place, tuple[int, list[int], list[int]]]:
        return {
            (name, int(index)): (int(leader), [*map(int, replicas.split(","))], sorted(map(int, isr.split(","))))
            for name, index, leader, replicas, isr in pattern.findall(apache(_TOPICS))
            if not name.startswith("__")
        }

    names = [one["name"] for one in seen.command("topic", "list")]
    ours = {
        (topic["name"], one["partition"]): (one["leader"], one["replicas"], sorted(one["isr"]))
        for topic in seen.command("topic", "describe", *names)
        for one in topic["partitions"]
    }
    assert ours == theirs()
    short = len(pattern.findall(apache(_TOPICS, "--under-replicated-partitions")))
    (described,) = seen.command("cluster", "describe")
    assert (
        described["under_replicated"] == short == sum(one["under_replicated"] for one in seen.command("topic", "list"))
    )
    leads = [leader for leader, _, _ in theirs().values()]
    internal = seen.command("topic", "list", "--internal")
    assert described["partitions"] == sum(one["partitions"] for one in internal) >= len(leads)
    assert all(one["leads"] >= leads.count(one["broker"]) for one in described["brokers"])
