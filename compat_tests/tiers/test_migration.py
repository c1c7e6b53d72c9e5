"""A migration carries tiered topics across: nodes of Apache Kafka become Odradek on the same directories and with the same
store, and go back, while a producer writes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from compat_tests.cli.commands import odradek_command
from compat_tests.oracle import SINGLE_NODE
from compat_tests.recipes import eventually

from . import tiered
from .cluster import TieredCluster, await_local_start, bootstrap, tiered_cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.oracle]

PLAIN, LIVE = "plain", 1
#: Records of one transaction, more than a segment has.
COUNT = 1200
_THREE_NODES = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "2"}
_STOP_S = 120
_READ_S = 120
_LIVE_PAUSE_S = 0.01
_PRODUCER = tiered.ORDERED | {"linger.ms": 5, "batch.size": 20_000, "reconnect.backoff.max.ms": 500}


@pytest.fixture(params=[1, 3])
def cluster(java_tools: None, tmp_path: Path, folder: Path, request: pytest.FixtureRequest) -> Iterator[TieredCluster]:
    """Nodes of Apache Kafka."""
    count = request.param
    overrides = SINGLE_NODE if count == 1 else _THREE_NODES
    made = tiered_cluster(tmp_path, folder, count=count, apache=range(1, count + 1), **overrides)
    for node in made.nodes.values():
        node.stop_deadline_s = _STOP_S
    with made:
        yield made


class History:
    """The acknowledged records of partition 0, with their offsets; `aborted` has the offsets of aborted transactions."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._entries: list[tuple[int, bytes]] = []
        self._aborted: set[int] = set()

    def append(self, count: int = COUNT) -> None:
        self._send(Producer(_PRODUCER | {"bootstrap.servers": self._address}), count)

    def append_in_transaction(self, *, commits: bool, count: int = COUNT) -> None:
        settings = {"bootstrap.servers": self._address, "transactional.id": "migrating"}
        producer = Producer(_PRODUCER | settings)
        producer.init_transactions(60)
        producer.begin_transaction()
        first = self._send(producer, count)
        if commits:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)
            self._aborted |= {offset for offset, _ in self._entries[first:]}

    def _send(self, producer: Producer, count: int) -> int:
        """Returns the number of entries before."""
        before = len(self._entries)

        def delivered(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            self._entries.append((message.offset(), message.value()))

        for value in tiered.values_of(count, before):
            producer.produce(tiered.TOPIC, value, partition=0, on_delivery=delivered)
        assert producer.flush(60) == 0 and len(self._entries) == before + count
        return before

    @property
    def end(self) -> int:
        return self._entries[-1][0] + 1

    def expected(self, isolation: str) -> list[tuple[int, bytes]]:
        hidden = self._aborted if isolation == "read_committed" else ()
        return [one for one in self._entries if one[0] not in hidden]


class LiveProducer(threading.Thread):
    """Writes to the partition LIVE until `end`, across all changes of nodes."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer(_PRODUCER | {"bootstrap.servers": address})
        self._is_over = threading.Event()
        self.acknowledged: list[bytes] = []
        self.failures: list[KafkaError] = []

    def run(self) -> None:
        number = 0
        while not self._is_over.wait(_LIVE_PAUSE_S):
            for value in tiered.values_of(1, number):
                self._producer.produce(tiered.TOPIC, value, partition=LIVE, on_delivery=self._delivered)
            number += 1
            self._producer.poll(0)
        self._producer.flush(_READ_S)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged.append(message.value())
        else:
            self.failures.append(error)

    def await_more(self) -> None:
        """Waits until records that were sent after this call are acknowledged."""
        before = len(self.acknowledged)
        eventually(
            lambda: self.failures or len(self.acknowledged) > before + 50,
            what="the producer has more records acknowledged",
            deadline_s=_READ_S,
        )
        assert not self.failures, self.failures[:3]

    def end(self) -> None:
        self._is_over.set()
        self.join(_READ_S)
        assert not self.is_alive() and not self.failures, self.failures[:3]


def read(
    address: str, *, topic: str = tiered.TOPIC, partition: int = 0, isolation: str = "read_uncommitted"
) -> list[tuple[int, bytes]]:
    """Returns (offset, value) of all records from offset 0 to the end."""
    consumer = Consumer({
        "bootstrap.servers": address, "group.id": "reader", "enable.auto.commit": False, "auto.offset.reset": "error",
        "enable.partition.eof": True, "isolation.level": isolation,
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    found: list[tuple[int, bytes]] = []

    def is_at_the_end() -> bool:
        for message in consumer.consume(500, 0.1):
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                return True
            assert error is None, error
            found.append((message.offset(), message.value()))
        return False

    try:
        eventually(is_at_the_end, what=f"{topic}-{partition} is read to its end", deadline_s=_READ_S)
    finally:
        consumer.close()
    return found


def await_remote_reads(address: str) -> None:
    """Waits until a new leader reads the store: Apache Kafka responds with an error until it has read the metadata."""

    def are_served() -> bool:
        try:
            return all(tiered.consume(address, 1, partition=partition, deadline_s=10) for partition in (0, LIVE))
        except AssertionError:
            return False

    eventually(are_served, what="the store is read", deadline_s=_READ_S)


def check_records(address: str, history: History, plain: list[bytes]) -> None:
    await_remote_reads(address)
    for isolation in ("read_uncommitted", "read_committed"):
        assert read(address, isolation=isolation) == history.expected(isolation)
    assert read(address, topic=PLAIN) == tiered.numbered(plain)


def command(cluster: TieredCluster, *words: str) -> Any:
    done = odradek_command(*words, "-b", bootstrap(cluster), "--output", "json")
    assert done.status == 0, f"{done.out}{done.err}"
    return done.json


def change_nodes(cluster: TieredCluster, live: LiveProducer, to: str) -> None:
    """Changes the nodes in the order of the plan."""
    configs = [word for node in cluster.nodes.values() for word in ("--config", str(node.file))]
    (plan,) = command(cluster, "migrate", "plan", "--to", to, *configs)
    assert [one for one in plan["findings"] if one["verdict"] == "stops"] == []
    assert sorted(plan["order"]) == sorted(cluster.nodes)
    for changed, node_id in enumerate(plan["order"], 1):
        cluster.node(node_id).becomes(apache=to == "apache")
        (check,) = command(cluster, "migrate", "check", "--to", to, "--wait", str(_READ_S))
        assert (check["ready"], check["changed"]) == (True, changed)
        live.await_more()


def await_only_in_store(cluster: TieredCluster, offset: int) -> None:
    for node_id in cluster.nodes:
        await_local_start(cluster, node_id, offset)


def check_store(cluster: TieredCluster, folder: Path) -> None:
    """The metadata of both programs names every object of the store, and every part that it names is there."""
    eventually(
        lambda: not any(row["unfinished"] for row in command(cluster, "tier", "list", tiered.TOPIC)),
        what="no copy is unfinished",
        deadline_s=_READ_S,
    )
    rows = command(cluster, "tier", "list", tiered.TOPIC)
    stored = [len(tiered.remote_segments(folder, partition=row["partition"])) for row in rows]
    assert [(row["start"], row["segments"]) for row in rows] == [(0, count) for count in stored]
    assert command(cluster, "tier", "check", "--config", str(cluster.node(1).file)) == []


def fill(cluster: TieredCluster, history: History) -> None:
    """Returns when a committed and an aborted transaction are in the store only; another aborted one is in the local log."""
    history.append()
    history.append_in_transaction(commits=True)
    history.append_in_transaction(commits=False)
    only_in_store = history.end
    history.append(2 * COUNT)
    await_only_in_store(cluster, only_in_store)
    history.append_in_transaction(commits=False, count=20)


def test_migration_and_the_way_back_keep_remote_and_local_records(cluster: TieredCluster, folder: Path) -> None:
    address, plain = bootstrap(cluster), tiered.values_of(300)
    tiered.make_topic(address, replication=len(cluster.nodes), partitions=2)
    cluster.create_topic(PLAIN, num_partitions=1, replication_factor=len(cluster.nodes))
    tiered.produce(address, plain, topic=PLAIN)
    history, live = History(address), LiveProducer(address)
    live.start()
    try:
        fill(cluster, history)
        for to in ("odradek", "apache"):
            change_nodes(cluster, live, to)
            check_records(address, history, plain)
            fill(cluster, history)
            check_records(address, history, plain)
    finally:
        live.end()
    assert [value for _, value in read(address, partition=LIVE)] == live.acknowledged
    check_store(cluster, folder)
