"""A scan of a running broker's directory equals kafka-python's reading, and Apache's DumpLogSegments."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from confluent_kafka import Producer
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import NewTopic
from odradek.columns import scan

from tests.columns.logs import NOW_MS, Row

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DUMP = "org.apache.kafka.tools.DumpLogSegments"
LEVELS = ("read_uncommitted", "read_committed")


class World:
    """A broker with topics of every kind, each with one partition."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.broker = odradek.Broker(data_dir=directory, config={"log.cleaner.backoff.ms": "100"})

    def create(self, topic: str, **configs: str) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self.broker.bootstrap_servers)
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        admin.create_topics([NewTopic(topic, 1, 1, topic_configs=settings)])
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


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("columns"))
    with made.broker:
        for seed, codec in enumerate(CODECS):
            made.create(codec, internal_segment_bytes="6000")
            made.fill(codec, 800, seed, compression_type=codec)
        made.create("appended", message_timestamp_type="LogAppendTime", internal_segment_bytes="6000")
        made.fill("appended", 300, 8)
        made.create("transactions", internal_segment_bytes="2000")
        made.fill_transactions("transactions")
        yield made


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("topic", [*CODECS, "appended", "transactions"])
def test_scan_equals_kafka_python(world: World, topic: str, level: str) -> None:
    expected = world.by_kafka_python(topic, level)
    assert len(expected) >= 40
    assert world.by_scan(topic, level) == expected
    assert scan(world.directory / topic, isolation_level=level).count() == len(expected)


def test_open_transaction_ends_a_committed_scan_at_the_last_stable_offset(world: World) -> None:
    world.create("open", internal_segment_bytes="2000")
    world.fill_transactions("open")
    stuck = world.producer(transactional_id="stuck")
    stuck.init_transactions(30)
    stuck.begin_transaction()
    stuck.produce("open", b"open", partition=0)
    assert stuck.flush(30) == 0
    world.fill_transactions("open")
    for level in LEVELS:
        assert world.by_scan("open", level) == world.by_kafka_python("open", level)
    stable = scan(world.directory / "open", isolation_level="read_committed").offsets[0][1]
    assert stable < scan(world.directory / "open").offsets[0][1]
    stuck.abort_transaction(30)
    for level in LEVELS:
        assert world.by_scan("open", level) == world.by_kafka_python("open", level)


def test_deleted_records_are_those_that_kafka_python_cannot_read(world: World) -> None:
    world.create("deleted", internal_segment_bytes="20000")
    world.fill("deleted", 500, 20)
    admin = KafkaAdminClient(bootstrap_servers=world.broker.bootstrap_servers)
    admin.delete_records({TopicPartition("deleted", 0): 203})
    admin.close()
    expected = world.by_kafka_python("deleted", "read_uncommitted")
    assert expected[0].offset == 203
    found = scan(world.directory / "deleted", start_offsets=203).to_table()
    assert found.column("offset").to_pylist() == [row.offset for row in expected]


@pytest.mark.parametrize("topic", [*CODECS, "transactions"])
def test_scan_equals_dump_log_segments(world: World, topic: str, tools: Any) -> None:
    files = sorted(str(path) for path in (world.directory / f"{topic}-0").glob("*.log"))
    assert len(files) > 1
    shown = tools.run(DUMP, "--files", ",".join(files), "--deep-iteration", "--print-data-log").checked().out
    dumped = []
    for line in shown.splitlines():
        found = re.match(
            r"\| offset: (\d+) (?:isValid: \w+ crc: \w+ )?keySize: (-?\d+) valueSize: (-?\d+) CreateTime: (-?\d+) .*",
            line,
        )
        if found is None:
            found = re.match(r"\| offset: (\d+) CreateTime: (-?\d+) keySize: (-?\d+) valueSize: (-?\d+) (.*)", line)
            assert found is not None or not line.startswith("| offset"), line
            if found is None or "endTxnMarker" in line:
                continue
            offset, stamp, key_size, value_size, rest = found.groups()
            payload = re.search(r" payload: (.*)", rest)
            dumped.append((int(offset), int(stamp), int(key_size), int(value_size), payload[1] if payload else None))
    expected = [
        (row.offset, row.timestamp, -1 if row.key is None else len(row.key), -1 if row.value is None else len(row.value),
         None if row.value is None else row.value.decode())
        for row in world.by_scan(topic, "read_uncommitted")
    ]  # fmt: skip
    assert len(dumped) >= 40
    assert dumped == expected
