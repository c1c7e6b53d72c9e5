"""A broker in this process with topics of every kind, and readings of them by kafka-python and by a scan."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import odradek
from confluent_kafka import Producer
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import NewTopic
from odradek.columns import scan

from tests.columns.harness.logs import NOW_MS, Row

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LEVELS = ("read_uncommitted", "read_committed")


class World:
    """A broker with topics of every kind, each with one partition."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        # Some records have old timestamps, and retention would find them after five minutes.
        config = {"log.cleaner.backoff.ms": "100", "log.retention.ms": "-1"}
        self.broker = odradek.Broker(data_dir=directory, config=config)

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self.broker.bootstrap_servers)
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=settings)])
        admin.close()

    def producer(self, **settings: Any) -> Producer:
        own = {"bootstrap.servers": self.broker.bootstrap_servers, "linger.ms": 2}
        return Producer(own | {name.replace("_", "."): value for name, value in settings.items()})

    def fill(self, topic: str, count: int, seed: int, **settings: Any) -> None:
        rng, producer = random.Random(seed), self.producer(batch_size=4000, **settings)
        for number in range(count):
            headers = [
                (rng.choice(["a", "größe"]), rng.choice([None, b"", b"v"])) for _ in range(rng.choice([0, 0, 2]))
            ]
            producer.produce(
                topic, rng.choice([None, b"", b"value %d" % number, b"x" * rng.randrange(900)]),
                rng.choice([None, b"", b"k%d" % rng.randrange(9)]), 0,
                timestamp=NOW_MS + rng.randrange(10**6), headers=headers,
            )  # fmt: skip
            producer.poll(0)
        assert producer.flush(30) == 0

    def fill_transactions(self, topic: str) -> None:
        producer = self.producer(transactional_id=f"of-{topic}")
        producer.init_transactions(30)
        for number in range(12):
            producer.begin_transaction()
            for one in range(5):
                producer.produce(topic, b"%d-%d" % (number, one), partition=0, timestamp=NOW_MS + number * 9)
            if number % 3 == 1:
                producer.flush(30)
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)

    def by_kafka_python(self, topic: str, level: str) -> list[Row]:
        where = TopicPartition(topic, 0)
        consumer = KafkaConsumer(
            bootstrap_servers=self.broker.bootstrap_servers, auto_offset_reset="earliest", isolation_level=level,
            enable_auto_commit=False,
        )  # fmt: skip
        consumer.assign([where])
        consumer.seek_to_beginning(where)
        end, found = consumer.end_offsets([where])[where], []
        while consumer.position(where) < end:
            for one in consumer.poll(500).get(where, ()):
                stamp = None if one.timestamp == -1 else one.timestamp
                found.append(Row(one.offset, stamp, one.timestamp_type, one.key, one.value, tuple(one.headers)))
        consumer.close()
        return found

    def by_scan(self, topic: str, level: str) -> list[Row]:
        table = scan(self.directory / topic, isolation_level=level).to_table()
        table.validate(full=True)
        stamps = table.column("timestamp").cast("int64").to_pylist()
        return [
            Row(one["offset"], stamp, one["timestamp_type"], one["key"], one["value"],
                tuple((pair["key"], pair["value"]) for pair in one["headers"]))
            for one, stamp in zip(table.to_pylist(), stamps, strict=True)
        ]  # fmt: skip
