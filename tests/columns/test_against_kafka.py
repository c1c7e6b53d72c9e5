"""A scan of a running broker's directory equals kafka-python's reading, and Apache's DumpLogSegments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition
from odradek.columns import scan

from tests.columns.harness.world import CODECS, LEVELS, World

pytestmark = pytest.mark.usefixtures("processes")

DUMP = "org.apache.kafka.tools.DumpLogSegments"


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
