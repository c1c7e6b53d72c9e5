"""librdkafka's consumers in groups of KIP-848 (`group.protocol=consumer`): the broker assigns."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from compat_tests.librdkafka.conftest import ConsumerOf, ProducerOf
from compat_tests.librdkafka.harness.groups import PARTITIONS, settle
from compat_tests.librdkafka.steps import DEADLINE_S, poll_until, send, take
from compat_tests.recipes import eventually, make_topic

#: The broker sets the heartbeat interval, so the client must not.
NEW: dict[str, Any] = {"group.protocol": "consumer", "heartbeat.interval.ms": None}


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_share_partitions_and_take_over_from_one_that_leaves(
    assignor: str, bootstrap: str, topic: str, group: str, consumer_of: ConsumerOf
) -> None:
    make_topic(bootstrap, topic, partitions=PARTITIONS)
    settings = {**NEW, "group.remote.assignor": assignor}
    first, second = consumer_of(group, **settings), consumer_of(group, **settings)
    for one in (first, second):
        one.subscribe([topic])
    settle(first, second)
    second.close()
    settle(first)


def test_every_message_is_consumed_while_others_join(
    bootstrap: str, topic: str, group: str, producer_of: ProducerOf, consumer_of: ConsumerOf
) -> None:
    make_topic(bootstrap, topic, partitions=PARTITIONS)
    producer = producer_of()
    values = [str(n).encode() for n in range(200)]
    members = [consumer_of(group, **NEW)]
    members[0].subscribe([topic])
    settle(members[0])
    for n, value in enumerate(values[:100]):
        producer.produce(topic, value, partition=n % PARTITIONS)
    producer.flush(DEADLINE_S)
    members.append(consumer_of(group, **NEW))
    members[1].subscribe([topic])
    seen: list[bytes] = []

    def drain(one: Consumer) -> None:
        while len(set(seen)) < len(values):
            message = one.poll(0.1)
            if message is not None and message.error() is None:
                seen.append(message.value())

    with ThreadPoolExecutor(2) as threads:
        drains = [threads.submit(drain, one) for one in members]
        for n, value in enumerate(values[100:]):
            producer.produce(topic, value, partition=n % PARTITIONS)
        producer.flush(DEADLINE_S)
        for one in drains:
            one.result(DEADLINE_S)
    assert set(seen) == set(values)


def test_a_pattern_follows_the_topics(
    bootstrap: str, topic: str, group: str, producer_of: ProducerOf, consumer_of: ConsumerOf
) -> None:
    make_topic(bootstrap, f"{topic}-one")
    send(producer_of(), f"{topic}-one", [b"a"])
    consumer = consumer_of(group, **NEW)
    consumer.subscribe([f"^{topic}-.*"])
    assert take(consumer, 1)[0].value() == b"a"


def test_a_static_member_comes_back_to_what_it_had(
    bootstrap: str, topic: str, group: str, consumer_of: ConsumerOf, admin: AdminClient
) -> None:
    make_topic(bootstrap, topic, partitions=PARTITIONS)
    stays = consumer_of(group, **NEW, **{"group.instance.id": "stays"})
    goes = consumer_of(group, **NEW, **{"group.instance.id": "goes"})
    for one in (stays, goes):
        one.subscribe([topic])
    settle(stays, goes)
    held = sorted(part.partition for part in goes.assignment())
    goes.close()
    back = consumer_of(group, **NEW, **{"group.instance.id": "goes"})
    back.subscribe([topic])
    settle(stays, back)
    assert sorted(part.partition for part in back.assignment()) == held
    described = admin.describe_consumer_groups([group])[group].result()
    assert {one.group_instance_id for one in described.members} == {"stays", "goes"}


def test_a_group_goes_on_where_it_committed(
    bootstrap: str, topic: str, group: str, producer_of: ProducerOf, consumer_of: ConsumerOf
) -> None:
    make_topic(bootstrap, topic)
    send(producer_of(), topic, [str(n).encode() for n in range(10)], partition=0)
    first = consumer_of(group, **NEW, **{"enable.auto.commit": False})
    first.subscribe([topic])
    message = take(first, 4)[-1]
    first.commit(message=message, asynchronous=False)
    assert first.committed([TopicPartition(topic, 0)])[0].offset == 4
    first.close()
    second = consumer_of(group, **NEW)
    second.subscribe([topic])
    assert take(second, 1)[0].offset() == 4


def test_a_group_is_listed_described_and_deleted(
    bootstrap: str, topic: str, group: str, consumer_of: ConsumerOf, admin: AdminClient
) -> None:
    make_topic(bootstrap, topic)
    consumer = consumer_of(group, **NEW, **{"client.id": "me"})
    consumer.subscribe([topic])
    poll_until(consumer, consumer.assignment)
    stable = {ConsumerGroupState.STABLE}
    poll_until(consumer, lambda: admin.describe_consumer_groups([group])[group].result().state in stable)
    described = admin.describe_consumer_groups([group])[group].result()
    assert described.type is ConsumerGroupType.CONSUMER
    (member,) = described.members
    assert member.client_id == "me"
    assert member.assignment.topic_partitions == [TopicPartition(topic, 0)]
    types = {ConsumerGroupType.CONSUMER}
    assert group in {one.group_id for one in admin.list_consumer_groups(types=types).result().valid}
    rejected = admin.delete_consumer_groups([group])[group].exception()
    assert rejected.args[0].code() == KafkaError.NON_EMPTY_GROUP
    consumer.close()
    eventually(
        lambda: admin.describe_consumer_groups([group])[group].result().state is ConsumerGroupState.EMPTY,
        what="the group is empty",
    )
    assert admin.delete_consumer_groups([group])[group].result() is None


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_a_group_changes_its_protocol_while_it_works_and_back(
    assignor: str, bootstrap: str, topic: str, group: str, consumer_of: ConsumerOf, admin: AdminClient
) -> None:
    make_topic(bootstrap, topic, partitions=PARTITIONS)
    classic = consumer_of(group, **{"partition.assignment.strategy": assignor, "session.timeout.ms": 6000})
    classic.subscribe([topic])
    settle(classic)
    new = consumer_of(group, **NEW)
    new.subscribe([topic])
    settle(classic, new)
    assert admin.describe_consumer_groups([group])[group].result().type is ConsumerGroupType.CONSUMER
    new.close()
    settle(classic)
    assert admin.describe_consumer_groups([group])[group].result().type is ConsumerGroupType.CLASSIC
