"""librdkafka's consumer groups: eager, cooperative and static members; offsets committed, kept and deleted."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from compat_tests.librdkafka.conftest import ConsumerOf, ProducerOf
from compat_tests.librdkafka.harness.groups import PARTITIONS, settle
from compat_tests.librdkafka.steps import DEADLINE_S, poll_until, send, take
from compat_tests.recipes import eventually, make_topic


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_members_share_partitions_and_take_over_from_one_that_leaves(
    assignor: str, bootstrap: str, topic: str, group: str, consumer_of: ConsumerOf
) -> None:
    make_topic(bootstrap, topic, partitions=PARTITIONS)
    settings = {"partition.assignment.strategy": assignor, "session.timeout.ms": 6000}
    first, second = consumer_of(group, **settings), consumer_of(group, **settings)
    for one in (first, second):
        one.subscribe([topic])
    settle(first, second)
    second.close()
    settle(first)


def test_every_message_comes_to_one_member(
    bootstrap: str, topic: str, group: str, producer_of: ProducerOf, consumer_of: ConsumerOf
) -> None:
    make_topic(bootstrap, topic, partitions=PARTITIONS)
    members = [consumer_of(group), consumer_of(group)]
    for one in members:
        one.subscribe([topic])
    settle(*members)
    producer = producer_of()
    values = [str(n).encode() for n in range(100)]
    for n, value in enumerate(values):
        producer.produce(topic, value, partition=n % PARTITIONS)
    producer.flush(DEADLINE_S)
    seen: list[bytes] = []

    def drain(one: Consumer) -> None:
        while len(seen) < len(values):
            message = one.poll(0.1)
            if message is not None and message.error() is None:
                seen.append(message.value())

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(drain, members))
    assert Counter(seen) == Counter(values)


def test_a_static_member_comes_back_without_a_rebalance(
    bootstrap: str, topic: str, group: str, consumer_of: ConsumerOf, admin: AdminClient
) -> None:
    make_topic(bootstrap, topic, partitions=PARTITIONS)
    moves: list[str] = []
    stays = consumer_of(group, **{"group.instance.id": "stays", "session.timeout.ms": 30_000})
    stays.subscribe([topic], on_assign=lambda *_: moves.append("assign"), on_revoke=lambda *_: moves.append("revoke"))
    goes = consumer_of(group, **{"group.instance.id": "goes", "session.timeout.ms": 30_000})
    goes.subscribe([topic])
    settle(stays, goes)
    moves.clear()
    held = goes.assignment()
    goes.close()
    back = consumer_of(group, **{"group.instance.id": "goes", "session.timeout.ms": 30_000})
    back.subscribe([topic])
    settle(stays, back)
    assert back.assignment() == held
    assert moves == []
    described = admin.describe_consumer_groups([group])[group].result()
    assert {one.group_instance_id for one in described.members} == {"stays", "goes"}


def test_a_group_goes_on_where_it_committed(
    bootstrap: str, topic: str, group: str, producer_of: ProducerOf, consumer_of: ConsumerOf
) -> None:
    make_topic(bootstrap, topic)
    send(producer_of(), topic, [str(n).encode() for n in range(10)], partition=0)
    first = consumer_of(group, **{"enable.auto.commit": False})
    first.subscribe([topic])
    message = take(first, 4)[-1]
    first.commit(message=message, asynchronous=False)
    assert first.committed([TopicPartition(topic, 0)])[0].offset == 4
    first.close()
    second = consumer_of(group)
    second.subscribe([topic])
    assert take(second, 1)[0].offset() == 4


def test_metadata_of_a_commit_is_kept(bootstrap: str, topic: str, group: str, consumer_of: ConsumerOf) -> None:
    make_topic(bootstrap, topic)
    consumer = consumer_of(group)
    consumer.commit(offsets=[TopicPartition(topic, 0, 7, metadata="mine")], asynchronous=False)
    (found,) = consumer.committed([TopicPartition(topic, 0)])
    assert (found.offset, found.metadata) == (7, "mine")


def test_a_group_is_listed_described_and_deleted(
    bootstrap: str, topic: str, group: str, consumer_of: ConsumerOf, admin: AdminClient
) -> None:
    make_topic(bootstrap, topic)
    consumer = consumer_of(group, **{"client.id": "me"})
    consumer.subscribe([topic])
    poll_until(consumer, consumer.assignment)
    described = admin.describe_consumer_groups([group])[group].result()
    assert described.state is ConsumerGroupState.STABLE
    (member,) = described.members
    assert member.client_id == "me"
    assert member.assignment.topic_partitions == [TopicPartition(topic, 0)]
    assert group in {one.group_id for one in admin.list_consumer_groups().result().valid}
    rejected = admin.delete_consumer_groups([group])[group].exception()
    assert rejected.args[0].code() == KafkaError.NON_EMPTY_GROUP
    consumer.close()
    empty = {ConsumerGroupState.EMPTY}
    eventually(
        lambda: group in {one.group_id for one in admin.list_consumer_groups(states=empty).result().valid},
        what="the group is empty",
    )
    assert admin.delete_consumer_groups([group])[group].result() is None


def test_offsets_of_a_group_are_listed_and_altered(bootstrap: str, topic: str, group: str, admin: AdminClient) -> None:
    make_topic(bootstrap, topic, partitions=2)
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 5), TopicPartition(topic, 1, 6)])
    altered = admin.alter_consumer_group_offsets([wanted])[group].result()
    assert all(part.error is None for part in altered.topic_partitions)
    listed = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result()
    assert {(part.partition, part.offset) for part in listed.topic_partitions} == {(0, 5), (1, 6)}


def test_a_subscription_by_pattern_finds_topics(
    bootstrap: str, topic: str, group: str, producer_of: ProducerOf, consumer_of: ConsumerOf
) -> None:
    for suffix in ("a", "b"):
        make_topic(bootstrap, f"{topic}-{suffix}")
        send(producer_of(), f"{topic}-{suffix}", [suffix.encode()], partition=0)
    consumer = consumer_of(group)
    consumer.subscribe([f"^{topic}-[ab]$"])
    assert {one.value() for one in take(consumer, 2)} == {b"a", b"b"}
