"""Two real brokers, one of which follows the other, and what tests read of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import odradek
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import TopicPartition
from odradek.admin import group_offsets, mirrors
from odradek.admin.session import Admin
from odradek.client.cluster import Address, Cluster
from odradek.protocol.records.batch import iter_headers
from odradek.replication.mirror.progress import MirrorProgress

from tests.server.harness.data_path import wait_until


def admin_of(broker: odradek.Broker | odradek.Cluster) -> Admin:
    host, _, port = broker.bootstrap_servers.split(",")[0].rpartition(":")
    return Admin(Cluster([Address(host, int(port))], "tests", 30.0), 30.0, 30.0)


@dataclass
class Pair:
    """A source, and a broker that follows it with the link `dr`."""

    source: odradek.Broker
    here: odradek.Broker
    there: Admin
    admin: Admin

    def create_link(self, name: str = "dr", **properties: str) -> None:
        given = {key.replace("_", "."): value for key, value in properties.items()}
        mirrors.create_link(
            self.admin, name, {"bootstrap.servers": self.source.bootstrap_servers} | given, dry_run=False
        )

    def progress(self, topic: str, index: int = 0, link: str = "dr") -> MirrorProgress | None:
        return mirrors.read_progress(self.admin, link).get((topic, index))

    def wait_for(self, topic: str, holds: Callable[[MirrorProgress], bool], index: int = 0, link: str = "dr") -> None:
        def found() -> bool:
            progress = self.progress(topic, index, link)
            return progress is not None and holds(progress)

        wait_until(found, f"{topic}-{index}: {self.progress(topic, index, link)}")

    def wait_equal(self, topic: str, index: int = 0) -> None:
        wait_until(lambda: batches(self.here, topic, index) == batches(self.source, topic, index))


def data_of(broker: odradek.Broker) -> Path:
    (directory,) = broker.server.config.log_dirs
    return Path(directory)


def batches(broker: odradek.Broker, topic: str, index: int = 0) -> list[tuple[int, ...]]:
    """All of each batch on the disk but the leader's epoch: the CRC covers the records."""
    found = []
    for segment in sorted(Path(data_of(broker), f"{topic}-{index}").glob("*.log")):
        data = segment.read_bytes()
        found += [(*header[:2], *header[3:]) for _, header in iter_headers(data)]
    return found


def produce(broker: odradek.Broker, topic: str, count: int, **settings: Any) -> None:
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap_servers, **settings)) as producer:
        for number in range(count):
            producer.send(
                topic, b"value %d" % number, key=b"key %d" % (number % 5), headers=[("h", b"%d" % number), ("n", b"")]
            )
        producer.flush()


def values(broker: odradek.Broker, topic: str, isolation: str = "read_committed") -> list[tuple[int, bytes]]:
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers, isolation_level=isolation, enable_auto_commit=False
    )
    with closing(consumer):
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        end = consumer.end_offsets([place])[place]
        found = []
        while consumer.position(place) < end:
            for records in consumer.poll(timeout_ms=500).values():
                found += [(record.offset, record.value) for record in records]
    return found


def odradek_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "odradek.cli.main", *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def offsets(pair: Pair, group: str) -> dict[tuple[str, int], int]:
    return {place: one.offset for place, one in group_offsets.committed(pair.admin, group).items()}
