"""`__consumer_offsets` in both directions: Odradek loads Apache Kafka's records, and Kafka's tools read Odradek's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata
from odradek.coordinator.groups.group_records import group_record, offset_record
from odradek.coordinator.groups.shard import GroupShard
from odradek.coordinator.groups_config import GroupsConfig
from odradek.coordinator.record_framing import UnknownRecord
from odradek.protocol.codec import encode
from odradek.protocol.internal.consumer_offsets import GroupMetadataValue, MemberMetadata, OffsetCommitValue
from odradek.protocol.internal.consumer_protocol import ConsumerProtocolSubscription
from odradek.protocol.records.batch import iter_headers
from odradek.protocol.records.record import Record, decode_batch, encode_batch

from compat_tests.java.tool import run_tool
from compat_tests.oracle import ApacheKafka
from tests.coordinator.harness.kinds import decode_record, encode_record, new_loader

pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("java_tools")]

CONSUMER = {
    "group_id": "abandoned",
    "group_instance_id": "instance",
    "client_id": "client",
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "session_timeout_ms": 10_000,
}


@pytest.fixture(scope="module")
def log_of_kafka(java_tools: None, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Returns all record batches of `__consumer_offsets` that Apache Kafka wrote for some groups."""
    directory = tmp_path_factory.mktemp("kafka")
    with ApacheKafka(directory, {"offsets.topic.num.partitions": "1"}) as kafka:
        with_groups(kafka.bootstrap)
    segments = sorted((kafka.data_dir / "__consumer_offsets-0").glob("*.log"))
    return b"".join(segment.read_bytes() for segment in segments)


def with_groups(bootstrap: str) -> None:
    """Creates groups with a static member that stops without LeaveGroup, a member that leaves, and only commits."""
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for _ in range(10):
        producer.send("topic", b"value", partition=0).get(timeout=30)
    place = TopicPartition("topic", 0)
    simple = KafkaConsumer(bootstrap_servers=bootstrap, group_id="simple", enable_auto_commit=False)
    simple.assign([place])
    simple.commit({place: OffsetAndMetadata(3, "so far", -1)})
    simple.close()
    for settings in (CONSUMER, CONSUMER | {"group_id": "left", "group_instance_id": None}):
        consumer = KafkaConsumer("topic", bootstrap_servers=bootstrap, **settings)
        assert next(iter(consumer)).value == b"value"
        consumer.commit({place: OffsetAndMetadata(5, "", 0)})
        consumer.close()
    producer.close()


def loaded(log: bytes) -> GroupShard:
    loader = new_loader(GroupsConfig(), "__consumer_offsets-0")
    loader.feed(log)
    return loader.loaded(1 << 30, now_ms=1_700_000_000_000)


def records_of(log: bytes) -> list[Record]:
    return [
        record
        for position, header in iter_headers(log)
        if not header.is_control
        for record in decode_batch(log, position, header)
    ]


def test_groups_that_kafka_wrote_are_loaded(log_of_kafka: bytes) -> None:
    shard = loaded(log_of_kafka)
    state = shard.state
    assert state.groups.keys() == {"abandoned", "left", "simple"}
    simple = state.groups["simple"]
    assert (simple.protocol_type, simple.state.value, simple.members) == (None, "Empty", {})  # type: ignore[attr-defined]
    assert state.groups["left"].state.value == "Empty"
    assert state.groups["left"].protocol_type == "consumer"
    abandoned = state.groups["abandoned"]
    (member,) = abandoned.members.values()  # type: ignore[attr-defined]
    assert abandoned.state.value == "Stable"
    assert abandoned.generation_id >= 1  # type: ignore[attr-defined]
    assert abandoned.leader_id == member.member_id  # type: ignore[attr-defined]
    assert (member.group_instance_id, member.client_id, member.client_host) == ("instance", "client", "/127.0.0.1")
    assert member.assignment
    assert abandoned.subscribed_topics == {"topic"}  # type: ignore[attr-defined]


def test_offsets_that_kafka_wrote_are_loaded(log_of_kafka: bytes) -> None:
    offsets = loaded(log_of_kafka).state.offsets
    simple, left = offsets.get("simple", "topic", 0), offsets.get("left", "topic", 0)
    assert simple is not None and left is not None
    assert (simple.offset, simple.metadata, simple.leader_epoch, left.offset) == (3, "so far", -1, 5)
    assert simple.topic_id == left.topic_id != bytes(16)


def test_records_of_kafka_are_encoded_to_the_same_bytes(log_of_kafka: bytes) -> None:
    seen = set()
    for record in records_of(log_of_kafka):
        assert record.key is not None
        try:
            decoded = decode_record(record.key, record.value)
        except UnknownRecord:
            continue
        assert encode_record(decoded) == (record.key, record.value)
        remade = remake(decoded)
        assert encode_record(remade) == (record.key, record.value), "the version is the one that Kafka chooses too"
        seen.add((type(decoded.key).__name__, record.value is None))
    assert seen >= {("OffsetCommitKey", False), ("GroupMetadataKey", False)}


def remake(decoded: Any) -> Any:
    """Returns the record as the coordinator makes it: the coordinator chooses the version of the value."""
    key, value, *_ = decoded
    if isinstance(value, OffsetCommitValue):
        return offset_record(key.group, key.topic, key.partition, value)
    assert value is None or isinstance(value, GroupMetadataValue)
    return group_record(key.group, value)


def dumped(log: Path) -> list[tuple[Any, Any]]:
    """Returns key and value of each record, as decoded by Kafka's offsets decoder."""
    out = run_tool("org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(log)).checked().out
    found = re.findall(r" key: (\{.*?\}) payload: (.*)$", out, re.MULTILINE)
    assert len(found) == out.count("| offset:"), out
    return [(json.loads(key), json.loads(value) if value.startswith("{") else None) for key, value in found]


@pytest.fixture
def write_log(tmp_path: Path) -> Callable[..., Path]:
    def write(*records: Any) -> Path:
        path = tmp_path / "00000000000000000000.log"
        pairs = [encode_record(record) for record in records]
        path.write_bytes(encode_batch([Record(i, 1_000, key, value) for i, (key, value) in enumerate(pairs)]))
        return path

    return write


def test_kafkas_tools_read_what_we_write(write_log: Callable[..., Path]) -> None:
    subscription = b"\0\0" + encode(ConsumerProtocolSubscription(topics=["topic"]), 0)
    member = MemberMetadata(
        member_id="m",
        group_instance_id="i",
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout=1,
        session_timeout=2,
        subscription=subscription,
        assignment=b"",
    )
    group = GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader="m",
        current_state_timestamp=4,
        members=[member],
    )
    reported = OffsetCommitValue(offset=5, leader_epoch=6, metadata="so far", commit_timestamp=7, topic_id=b"i" * 16)
    expiring = OffsetCommitValue(offset=5, metadata="", commit_timestamp=7, expire_timestamp=8)
    log = write_log(
        group_record("g", group),
        offset_record("g", "topic", 1, reported),
        offset_record("g", "topic", 2, expiring),
        offset_record("g", "topic", 1, None),
        group_record("g", None),
    )
    (_, g), (key, v4), (_, v1), (_, gone), (group_key, gone_too) = dumped(log)
    assert key == {"type": "1", "data": {"group": "g", "topic": "topic", "partition": 1}}
    assert group_key == {"type": "2", "data": {"group": "g"}}
    assert g["version"] == "3"
    assert (g["data"]["generation"], g["data"]["members"][0]["groupInstanceId"]) == (3, "i")
    assert v4["version"] == "4"
    assert (v4["data"]["offset"], v4["data"]["leaderEpoch"], v4["data"]["metadata"]) == (5, 6, "so far")
    assert (v1["version"], v1["data"]["expireTimestamp"]) == ("1", 8)
    assert gone is None and gone_too is None
