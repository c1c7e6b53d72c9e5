"""Brokers with tiered storage in a folder, and clients of their topics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from compat_tests.recipes import eventually

STORE_CLASS = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
TOPIC = "tiered"
#: A producer's records are each in the log once, in order, also across changes of leaders. With a second request in flight
#: while the first one is rejected, Apache Kafka may lose or repeat a batch, see docs/development/faults.md.
ORDERED = {"acks": "all", "enable.idempotence": True, "max.in.flight.requests.per.connection": 1}
TIERED_TOPIC = {
    "remote.storage.enable": "true",
    "segment.bytes": str(1 << 20),
    "local.retention.bytes": "1",
    "file.delete.delay.ms": "100",
}


def properties(folder: Path, replication: int = 1, listener: str = "PLAINTEXT") -> dict[str, str]:
    """Returns what enables tiered storage in a folder, with short intervals."""
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": STORE_CLASS,
        "remote.log.metadata.manager.listener.name": listener,
        "rsm.config.dir": str(folder),
        "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
        "rlmm.config.remote.log.metadata.topic.replication.factor": str(replication),
        "rlmm.config.remote.log.metadata.topic.min.isr": "1",
        "remote.log.manager.task.interval.ms": "200",
        "log.retention.check.interval.ms": "200",
        "log.flush.offset.checkpoint.interval.ms": "200",
        "log.flush.scheduler.interval.ms": "200",  # a rolled segment is uploaded once it is flushed
        "log.initial.task.delay.ms": "200",
    }


def make_topic(bootstrap: str, *, replication: int = 1, partitions: int = 1, name: str = TOPIC, **config: str) -> None:
    configs = TIERED_TOPIC | {key.replace("_", "."): value for key, value in config.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (made,) = admin.create_topics([NewTopic(name, partitions, replication, config=configs)]).values()
    made.result(30)


def alter(bootstrap: str, **config: str) -> None:
    """Sets configs of the topic."""
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in config.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (done,) = admin.incremental_alter_configs([resource]).values()
    done.result(30)


def produce(bootstrap: str, values: list[bytes], *, topic: str = TOPIC, partition: int = 0, **config: Any) -> None:
    """Produces values in batches of 20 kB, in order and each once, and waits until all are acknowledged."""
    failures: list[Any] = []
    settings = ORDERED | {"bootstrap.servers": bootstrap, "linger.ms": 5, "batch.size": 20_000}
    producer = Producer(settings | {k.replace("_", "."): v for k, v in config.items()})
    for value in values:
        while True:
            try:
                producer.produce(
                    topic, value, partition=partition, on_delivery=lambda e, m: failures.append(e) if e else None
                )
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0 and not failures, failures[:3]


def consume(
    bootstrap: str, count: int, *, topic: str = TOPIC, partition: int = 0, offset: int = OFFSET_BEGINNING,
    deadline_s: float = 60, **config: Any,
) -> list[tuple[int, bytes]]:  # fmt: skip
    """Returns (offset, value) of `count` records from an offset on."""
    settings = {
        "bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False,
        "auto.offset.reset": "error", "isolation.level": "read_uncommitted",
    }  # fmt: skip
    consumer = Consumer(settings | {k.replace("_", "."): v for k, v in config.items()})
    consumer.assign([TopicPartition(topic, partition, offset)])
    found: list[tuple[int, bytes]] = []

    def has_all() -> bool:
        for message in consumer.consume(500, 0.5):
            assert message.error() is None, message.error()
            found.append((message.offset(), message.value()))
        return len(found) >= count

    try:
        eventually(has_all, what=f"{count} records of {topic}-{partition} are read", deadline_s=deadline_s)
    finally:
        consumer.close()
    return found


def local_bases(data_dir: Path, *, topic: str = TOPIC, partition: int = 0) -> list[int]:
    """Returns the base offsets of the segments on the disk."""
    return sorted(int(one.stem) for one in (data_dir / f"{topic}-{partition}").glob("*.log"))


def remote_segments(folder: Path, *, topic: str = TOPIC, partition: int = 0) -> list[Path]:
    return sorted((folder / "kafka-tiered-storage").glob(f"{topic}-{partition}-*/*.log"))


def stored_bytes(folder: Path) -> int:
    """The size of the segments in the store; those that are deleted meanwhile count 0."""
    total = 0
    for segment in remote_segments(folder):
        with suppress(FileNotFoundError):
            total += segment.stat().st_size
    return total


def values_of(count: int, first: int = 0, size: int = 1000) -> list[bytes]:
    """Returns distinct values of a size."""
    return [b"%09d" % number + bytes(size - 9) for number in range(first, first + count)]


def numbered(values: Iterator[bytes] | list[bytes], first: int = 0) -> list[tuple[int, bytes]]:
    return list(enumerate(values, first))


def differences(found: list[tuple[int, bytes]], values: list[bytes], shown: int = 5) -> list[str]:
    """Returns how the first records that differ from these values, from offset 0 on, differ; by offset and number."""
    pairs = zip_longest(found, numbered(values), fillvalue=(None, b"nothing"))
    wrong = (f"({a}, {x[:9]!r}) instead of ({b}, {y[:9]!r})" for (a, x), (b, y) in pairs if (a, x) != (b, y))
    return list(islice(wrong, shown))


def await_remote(folder: Path, count: int, *, topic: str = TOPIC, partition: int = 0) -> None:
    """Waits until the store has segments of a partition."""
    eventually(
        lambda: len(remote_segments(folder, topic=topic, partition=partition)) >= count,
        what=f"the store has {count} segments of {topic}-{partition}",
        deadline_s=60,
    )


def await_local_start(data_dir: Path, at_least: int, *, topic: str = TOPIC, partition: int = 0) -> int:
    """Waits until the segments before an offset are in the store only. Returns the local log start offset."""
    return eventually(
        lambda: (
            (start := min(local_bases(data_dir, topic=topic, partition=partition), default=0)) >= at_least and start
        ),
        what=f"the local log of {topic}-{partition} starts at {at_least} or later",
        deadline_s=60,
    )
