"""Three processes in three racks: a consumer with a rack id reads from the replica in its rack (KIP-392)."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from tests.server.harness.cluster_process import COMBINED, DEADLINE_S, Cluster

pytestmark = pytest.mark.usefixtures("processes")

TOPIC = "orders"
LEADER, NEAR = 1, 3
RECORDS = 500


class Reader:
    """A consumer of librdkafka, whose statistics name the broker that it fetches from."""

    def __init__(self, cluster: Cluster) -> None:
        self.fetches_from: int | None = None
        self.seen: list[int] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "readers",
                "client.rack": f"rack-{NEAR}",
                "auto.offset.reset": "earliest",
                "statistics.interval.ms": 100,
                "stats_cb": self._reported,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([TOPIC])

    def _reported(self, statistics: str) -> None:
        partition: dict[str, Any] = json.loads(statistics)["topics"].get(TOPIC, {}).get("partitions", {}).get("0", {})
        self.fetches_from = partition.get("broker")

    def read_until(self, count: int) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while len(self.seen) < count:
            assert time.monotonic() < deadline, f"{len(self.seen)} of {count}"
            self._poll()

    def turns_to(self, *brokers: int) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while self.fetches_from not in brokers:
            assert time.monotonic() < deadline, f"it fetches from {self.fetches_from}"
            self._poll()

    def _poll(self) -> None:
        message = self._consumer.poll(0.1)
        if message is not None and message.error() is None:
            self.seen.append(int(message.value()))

    def close(self) -> None:
        self._consumer.close()


def send(cluster: Cluster, first: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for number in range(first, first + RECORDS):
        producer.produce(TOPIC, b"%d" % number)
    assert producer.flush(DEADLINE_S) == 0


def test_a_consumer_reads_from_the_replica_in_its_rack_and_from_another_when_that_dies(tmp_path: Path) -> None:
    rack_aware = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    cluster = Cluster(tmp_path, [COMBINED] * 3, replica_selector_class=rack_aware)
    for node_id, node in cluster.nodes.items():
        node.properties["broker.rack"] = f"rack-{node_id}"
    with cluster:
        cluster.create_topic(TOPIC, [[LEADER, 2, NEAR]])
        send(cluster, 0)
        reader = Reader(cluster)
        reader.read_until(RECORDS)
        reader.turns_to(NEAR)
        assert cluster.partitions(TOPIC)[0].leader_id == LEADER
        send(cluster, RECORDS)
        reader.read_until(2 * RECORDS)
        assert reader.fetches_from == NEAR
        cluster.nodes[NEAR].kill()
        send(cluster, 2 * RECORDS)
        reader.read_until(3 * RECORDS)
        reader.turns_to(LEADER, 2)
        reader.close()
    assert reader.seen == list(range(3 * RECORDS))
