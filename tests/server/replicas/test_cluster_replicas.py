"""Three processes and librdkafka: acknowledged records are on every replica, though leaders and coordinators die."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest

from tests.server.harness.cluster_process import COMBINED, DEADLINE_S, Cluster

pytestmark = pytest.mark.usefixtures("processes")

COUNT = 3
ASSIGNMENTS = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(
        tmp_path_factory.mktemp("replicas"),
        [COMBINED] * COUNT,
        offsets_topic_num_partitions="3",
        transaction_state_log_num_partitions="3",
        min_insync_replicas="2",
    ) as cluster:
        yield cluster


def producer(cluster: Cluster, **config: Any) -> Producer:
    return Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0, **config})


def consumer(cluster: Cluster, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )


def send(sending: Producer, topic: str, values: list[bytes]) -> None:
    """Sends the values, and asserts that all are acknowledged."""
    failures: list[Any] = []
    for value in values:
        sending.produce(topic, key=value, value=value, on_delivery=lambda error, _: error and failures.append(error))
    assert sending.flush(DEADLINE_S) == 0
    assert failures == []


def read(reading: Consumer, count: int) -> list[bytes]:
    """Returns the next `count` values that the consumer receives."""
    values: list[bytes] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(values) < count:
        assert time.monotonic() < deadline, f"{len(values)} of {count}"
        message = reading.poll(0.5)
        if message is not None and not message.error():
            values.append(message.value())
    return values


def all_in_sync(cluster: Cluster, topic: str) -> None:
    def are() -> bool:
        partitions = cluster.partitions(topic)
        return bool(partitions) and all(len(one.isr_nodes) == COUNT for one in partitions.values())

    cluster.until(are, f"all replicas of {topic} are in sync")


def replicas_are_equal(cluster: Cluster, topic: str) -> None:
    def files(node: int, index: int) -> list[tuple[str, bytes]]:
        directory = Path(cluster.directory, f"node-{node}", "data", f"{topic}-{index}")
        return [(file.name, file.read_bytes()) for file in sorted(directory.glob("*.log"))]

    for index in cluster.partitions(topic):
        cluster.until(
            lambda index=index: files(1, index) == files(2, index) == files(3, index),
            f"the replicas of {topic}-{index} are equal",
        )
        assert any(content for _, content in files(1, index))


def coordinator(cluster: Cluster, key: str, key_type: int = 0) -> int:
    def found() -> int:
        response = cluster.ask_any(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), 4)
        one = response.coordinators[0]
        return one.node_id if one.error_code == ErrorCode.NONE else 0

    return int(cluster.until(found, f"{key} has a coordinator"))


def test_acknowledged_records_are_equal_on_all_replicas(cluster: Cluster) -> None:
    cluster.create_topic("same", ASSIGNMENTS)
    send(producer(cluster, **{"compression.type": "lz4"}), "same", [b"%d" % n for n in range(2000)])
    all_in_sync(cluster, "same")
    replicas_are_equal(cluster, "same")


def test_a_transaction_reaches_partitions_of_all_leaders(cluster: Cluster) -> None:
    cluster.create_topic("paid", ASSIGNMENTS)
    cluster.create_topic("seen", ASSIGNMENTS)
    source = [b"order %d" % n for n in range(30)]
    send(producer(cluster), "seen", source)
    sending = producer(cluster, **{"transactional.id": "payments"})
    sending.init_transactions(DEADLINE_S)
    reading = consumer(cluster, "payers")
    reading.subscribe(["seen"])
    assert sorted(read(reading, len(source))) == sorted(source)
    for is_committed in (False, True):
        sending.begin_transaction()
        for value in source:
            sending.produce("paid", key=value, value=value + (b" paid" if is_committed else b" dropped"))
        positions = reading.position(reading.assignment())
        sending.send_offsets_to_transaction(positions, reading.consumer_group_metadata(), DEADLINE_S)
        if is_committed:
            sending.commit_transaction(DEADLINE_S)
        else:
            sending.abort_transaction(DEADLINE_S)
    committed = reading.committed([TopicPartition("seen", index) for index in range(3)], DEADLINE_S)
    assert sum(one.offset for one in committed) == len(source)
    reading.close()
    checking = consumer(cluster, "checkers")
    checking.subscribe(["paid"])
    assert sorted(read(checking, len(source))) == sorted(value + b" paid" for value in source)
    checking.close()
    replicas_are_equal(cluster, "paid")


def test_groups_and_producers_carry_on_when_a_leader_and_coordinator_is_killed(cluster: Cluster) -> None:
    cluster.create_topic("orders", ASSIGNMENTS)
    sending = producer(cluster, **{"enable.idempotence": True})
    before, after = [b"b%d" % n for n in range(300)], [b"a%d" % n for n in range(300)]
    send(sending, "orders", before)
    reading = consumer(cluster, "workers")
    reading.subscribe(["orders"])
    assert sorted(read(reading, len(before))) == sorted(before)
    reading.commit(asynchronous=False)
    victim = coordinator(cluster, "workers")
    cluster.nodes[victim].kill()
    send(sending, "orders", after)
    assert sorted(read(reading, len(after))) == sorted(after)
    cluster.until(lambda: coordinator(cluster, "workers") != victim, "another coordinates the group")
    reading.commit(asynchronous=False)
    cluster.start_all()
    all_in_sync(cluster, "orders")
    committed = reading.committed([TopicPartition("orders", index) for index in range(3)], DEADLINE_S)
    assert sum(one.offset for one in committed) == len(before) + len(after)
    reading.close()
    replicas_are_equal(cluster, "orders")
