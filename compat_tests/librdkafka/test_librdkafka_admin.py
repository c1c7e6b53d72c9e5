"""librdkafka's admin client."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

from compat_tests.librdkafka.conftest import ProducerOf
from compat_tests.librdkafka.steps import send
from compat_tests.recipes import eventually, make_topic


def error_of(future: Callable[..., object] | object) -> int:
    with pytest.raises(KafkaException) as raised:
        future.result()  # type: ignore[union-attr]
    code: int = raised.value.args[0].code()
    return code


def test_topics_are_created_described_grown_and_deleted(topic: str, admin: AdminClient) -> None:
    admin.create_topics([NewTopic(topic, 2, 1, config={"retention.ms": "1000"})])[topic].result()
    described = eventually(lambda: described_topic(admin, topic, 2), what="the topic has two partitions")
    assert [part.leader.id for part in described.partitions] == [0, 0]  # type: ignore[attr-defined]
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result()
    eventually(lambda: described_topic(admin, topic, 3), what="the topic has three partitions")
    assert error_of(admin.create_topics([NewTopic(topic, 1, 1)])[topic]) == KafkaError.TOPIC_ALREADY_EXISTS
    admin.delete_topics([topic])[topic].result()
    eventually(lambda: topic not in admin.list_topics(timeout=60).topics, what="the topic is gone")
    assert error_of(admin.delete_topics([topic])[topic]) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_access_rules_need_an_authorizer(topic: str, admin: AdminClient) -> None:
    rule = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    assert error_of(admin.create_acls([rule])[rule]) == KafkaError.SECURITY_DISABLED


def described_topic(admin: AdminClient, topic: str, partitions: int) -> object:
    try:
        found = admin.describe_topics(TopicCollection([topic]))[topic].result()
    except KafkaException:
        return None
    return found if len(found.partitions) == partitions else None


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"num_partitions": 0}, KafkaError.INVALID_PARTITIONS),
        ({"replication_factor": 9}, KafkaError.INVALID_REPLICATION_FACTOR),
        ({"config": {"retention.ms": "soon"}}, KafkaError.INVALID_CONFIG),
        ({"config": {"no.such": "1"}}, KafkaError.INVALID_CONFIG),
    ],
)
def test_a_bad_topic_is_refused(settings: dict[str, object], code: int, topic: str, admin: AdminClient) -> None:
    wanted = NewTopic(topic, **{"num_partitions": 1, "replication_factor": 1, **settings})
    assert error_of(admin.create_topics([wanted])[topic]) == code


def test_a_trial_creates_nothing(topic: str, admin: AdminClient) -> None:
    admin.create_topics([NewTopic(topic, 1, 1)], validate_only=True)[topic].result()
    assert topic not in admin.list_topics(timeout=60).topics


def test_configs_of_a_topic_are_described_and_changed(bootstrap: str, topic: str, admin: AdminClient) -> None:
    make_topic(bootstrap, topic)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    before = admin.describe_configs([resource])[resource].result()
    assert before["cleanup.policy"].value == "delete"
    assert before["cleanup.policy"].is_default
    change = ConfigEntry("retention.ms", "12345", incremental_operation=AlterConfigOpType.SET)
    update = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    admin.incremental_alter_configs([update])[update].result()
    eventually(
        lambda: admin.describe_configs([resource])[resource].result()["retention.ms"].value == "12345",
        what="the change is there",
    )


def test_all_configs_of_a_topic_are_replaced(bootstrap: str, topic: str, admin: AdminClient) -> None:
    make_topic(bootstrap, topic, configs={"retention.ms": "777"})
    update = ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.ms": "99999"})
    admin.alter_configs([update])[update].result()
    resource = ConfigResource(ResourceType.TOPIC, topic)
    now = eventually(
        lambda: (
            found
            if (found := admin.describe_configs([resource])[resource].result())["segment.ms"].value == "99999"
            else {}
        ),
        what="the change is there",
    )
    assert now["retention.ms"].is_default


def test_configs_of_a_broker_are_described(admin: AdminClient) -> None:
    resource = ConfigResource(ResourceType.BROKER, "0")
    found = admin.describe_configs([resource])[resource].result()
    assert found["num.partitions"].value == "4"
    assert found["log.dirs"].is_read_only


def test_records_are_deleted(bootstrap: str, topic: str, producer_of: ProducerOf, admin: AdminClient) -> None:
    make_topic(bootstrap, topic)
    send(producer_of(), topic, [b"x"] * 10, partition=0)
    part = TopicPartition(topic, 0, 6)
    assert admin.delete_records([part])[part].result().low_watermark == 6
    beyond = TopicPartition(topic, 0, 60)
    assert error_of(admin.delete_records([beyond])[beyond]) == KafkaError.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("spec", "offset"),
    [
        (OffsetSpec.earliest(), 0),
        (OffsetSpec.latest(), 3),
        (OffsetSpec.max_timestamp(), 1),
        (OffsetSpec.for_timestamp(0), 0),
    ],
    ids=["earliest", "latest", "max timestamp", "by time"],
)
def test_offsets_are_listed(
    spec: OffsetSpec, offset: int, bootstrap: str, topic: str, producer_of: ProducerOf, admin: AdminClient
) -> None:
    make_topic(bootstrap, topic)
    producer = producer_of()
    for timestamp in (1_700_000_000_000, 1_700_000_009_000, 1_700_000_005_000):
        send(producer, topic, [b"x"], timestamp=timestamp, partition=0)
    part = TopicPartition(topic, 0)
    assert admin.list_offsets({part: spec})[part].result().offset == offset


def test_the_cluster_is_described(admin: AdminClient) -> None:
    found = admin.describe_cluster().result()
    assert [node.id for node in found.nodes] == [0]
    assert found.controller.id == 0
    assert found.cluster_id


def test_unneeded_election_returns_election_not_needed(bootstrap: str, topic: str, admin: AdminClient) -> None:
    make_topic(bootstrap, topic)
    part = TopicPartition(topic, 0)
    found = admin.elect_leaders(ElectionType.PREFERRED, [part]).result()
    assert found[part].code() == KafkaError.ELECTION_NOT_NEEDED
