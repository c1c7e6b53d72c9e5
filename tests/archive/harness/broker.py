"""A broker process with topics, and their records read by kafka-python."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import NewPartitions, NewTopic

from compat_tests.odradek_process import OdradekProcess

#: A day before the end of 2026-03-04: records of a topic have two days.
NOW_MS = 1_772_600_000_000
Row = tuple[int, int, int | None, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


class Harness:
    """A broker, and clients of it."""

    def __init__(self, directory: Path, more: dict[str, str] | None = None) -> None:
        # The records are old: a broker that lives longer than the interval of retention would delete them.
        properties = {"log.message.timestamp.after.max.ms": str((1 << 63) - 1), "log.retention.ms": "-1"}
        self.process = OdradekProcess(directory, properties | (more or {}))

    @property
    def client(self) -> dict[str, str]:
        return {"bootstrap.servers": self.process.bootstrap}

    def create(self, topic: str, partitions: int = 1, **configs: Any) -> None:
        settings = {name.replace("_", "."): str(value) for name, value in configs.items()}
        self._with_admin(lambda admin: admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=settings)]))

    def delete(self, topic: str) -> None:
        self._with_admin(lambda admin: admin.delete_topics([topic]))

    def grow(self, topic: str, partitions: int) -> None:
        self._with_admin(lambda admin: admin.create_partitions({topic: NewPartitions(partitions)}))

    def delete_records(self, topic: str, before: dict[int, int]) -> None:
        wanted = {TopicPartition(topic, one): offset for one, offset in before.items()}
        self._with_admin(lambda admin: admin.delete_records(wanted))

    def _with_admin(self, step: Any) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self.process.bootstrap)
        try:
            step(admin)
        finally:
            admin.close()

    def producer(self, **settings: Any) -> Producer:
        own = {name.replace("_", "."): value for name, value in settings.items()}
        return Producer(self.client | {"linger.ms": 5} | own)

    def write(self, topic: str, values: list[bytes | None], partition: int = 0, **settings: Any) -> None:
        producer = self.producer(**settings)
        for number, value in enumerate(values):
            producer.produce(topic, value, b"k%d" % (number % 7), partition, timestamp=NOW_MS + number * 1000)
            producer.poll(0)
        assert producer.flush(30) == 0

    def fill(self, topic: str, count: int, partition: int = 0, **settings: Any) -> None:
        """Writes records of all shapes."""
        rng, producer = random.Random(count + partition), self.producer(**settings)
        for number in range(count):
            headers = [(rng.choice("ab"), rng.choice([None, b"", b"v"])) for _ in range(rng.choice([0, 0, 2]))]
            value = rng.choice([None, b"", b"value %d" % number, rng.randbytes(900)])
            stamp = NOW_MS + rng.randrange(100_000_000)
            key = rng.choice([None, b"", b"k%d" % rng.randrange(9)])
            producer.produce(topic, value, key, partition, timestamp=stamp, headers=headers)
            producer.poll(0)
        assert producer.flush(30) == 0

    def fill_transactions(self, topic: str, count: int = 9) -> None:
        """Writes transactions of five records; each third one aborts."""
        producer = self.producer(transactional_id=f"of-{topic}")
        producer.init_transactions(30)
        for number in range(count):
            producer.begin_transaction()
            for one in range(5):
                producer.produce(topic, b"%d-%d" % (number, one), partition=0, timestamp=NOW_MS + number)
            if number % 3 == 1:
                producer.flush(30)
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)

    def read(self, topic: str) -> list[Row]:
        """The committed records of a topic, by partition and offset."""
        consumer = KafkaConsumer(
            bootstrap_servers=self.process.bootstrap, isolation_level="read_committed", enable_auto_commit=False,
            auto_offset_reset="earliest",
        )  # fmt: skip
        places = [TopicPartition(topic, one) for one in sorted(consumer.partitions_for_topic(topic))]
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        ends, found = consumer.end_offsets(places), []
        while any(consumer.position(place) < ends[place] for place in places):
            for records in consumer.poll(500).values():
                found += [
                    (
                        one.partition, one.offset, None if one.timestamp == -1 else one.timestamp, one.timestamp_type,
                        one.key, one.value, tuple(one.headers),
                    )
                    for one in records
                ]  # fmt: skip
        consumer.close()
        return sorted(found)


def rows_of_table(table: Any) -> list[Row]:
    """The rows of a raw table, as `Harness.read` returns them."""
    table.validate(full=True)
    stamps = table.column("timestamp").cast(pa.timestamp("ms", "UTC")).cast("int64").to_pylist()
    found = []
    for row, stamp in zip(table.to_pylist(), stamps, strict=True):
        headers = tuple((one["key"], one["value"]) for one in row["headers"])
        found.append((row["partition"], row["offset"], stamp, row["timestamp_type"], row["key"], row["value"], headers))
    return sorted(found)
