"""kafka-python beyond its own tests: parts of its admin client that they do not cover, pipelining, errors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import MemberToRemove, UpdateFeatureType
from kafka.errors import KafkaError, MessageSizeTooLargeError, TopicAlreadyExistsError, UnknownTopicOrPartitionError
from kafka.structs import OffsetAndMetadata

from compat_tests.recipes import make_topic


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


@pytest.fixture
def producer(bootstrap: str) -> Iterator[KafkaProducer]:
    client = KafkaProducer(bootstrap_servers=bootstrap)
    yield client
    client.close()


def test_many_sends_in_flight_keep_their_order(bootstrap: str, topic: str, producer: KafkaProducer) -> None:
    make_topic(bootstrap, topic)
    sent = [producer.send(topic, str(n).encode(), partition=0) for n in range(500)]
    assert [one.get(30).offset for one in sent] == list(range(500))
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=30_000)
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    assert [int(next(consumer).value) for _ in range(500)] == list(range(500))
    consumer.close()


def test_keys_headers_and_nulls_are_kept(bootstrap: str, topic: str, producer: KafkaProducer) -> None:
    make_topic(bootstrap, topic)
    producer.send(topic, None, key=b"k", headers=[("h", b"1")], timestamp_ms=1_600_000_000_123).get(30)
    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    record = next(consumer)
    assert (record.key, record.value, record.headers, record.timestamp) == (
        b"k",
        None,
        [("h", b"1")],
        1_600_000_000_123,
    )
    consumer.close()


def test_errors_are_raised_by_their_names(
    bootstrap: str, topic: str, admin: KafkaAdminClient, producer: KafkaProducer
) -> None:
    make_topic(bootstrap, topic, configs={"max.message.bytes": "500"})
    with pytest.raises(MessageSizeTooLargeError):
        producer.send(topic, b"x" * 1000).get(30)
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([f"{topic}-none"])


def test_offsets_of_a_group_are_altered_and_deleted(
    bootstrap: str, topic: str, group: str, admin: KafkaAdminClient
) -> None:
    make_topic(bootstrap, topic, partitions=2)
    parts = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    admin.alter_group_offsets(group, {part: OffsetAndMetadata(5, "m", -1) for part in parts})
    assert {part: found.offset for part, found in admin.list_group_offsets(group)[group].items()} == dict.fromkeys(
        parts, 5
    )
    admin.delete_group_offsets(group, parts[:1])
    left = admin.list_group_offsets(group)[group]
    assert {part for part, found in left.items() if found.offset >= 0} == {parts[1]}


def test_a_producers_state_is_described(bootstrap: str, topic: str, admin: KafkaAdminClient) -> None:
    make_topic(bootstrap, topic)
    producer = KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True)
    for value in (b"a", b"b"):
        producer.send(topic, value, partition=0).get(30)
    part = TopicPartition(topic, 0)
    (state,) = admin.describe_producers([part])[part].active_producers
    assert state.last_sequence == 1
    producer.close()


def test_features_are_described_and_an_impossible_level_is_refused(admin: KafkaAdminClient) -> None:
    assert "metadata.version" in str(admin.describe_features())
    with pytest.raises(KafkaError):
        admin.update_features({"metadata.version": (UpdateFeatureType.UPGRADE, 9999)})


def test_a_member_can_be_removed_from_its_group(
    bootstrap: str, topic: str, group: str, admin: KafkaAdminClient, producer: KafkaProducer
) -> None:
    make_topic(bootstrap, topic)
    producer.send(topic, b"v").get(30)
    settings = {"group_instance_id": "i", "heartbeat_interval_ms": 200, "auto_offset_reset": "earliest"}
    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, **settings)
    # One poll covers the whole join and ends with the record: a join that outlives its poll never completes (FINDINGS.md).
    assert consumer.poll(60_000), "the member has its partition"
    admin.remove_group_members(group, [MemberToRemove(group_instance_id="i")])
    assert admin.describe_groups([group])[group]["members"] == []
    consumer.close()
