"""librdkafka's transactions: commit, abort, offsets within, fencing."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from compat_tests.librdkafka.conftest import ConsumerOf, ProducerOf
from compat_tests.librdkafka.steps import take
from compat_tests.recipes import make_topic


def transactional(producer_of: ProducerOf, name: str) -> Producer:
    producer = producer_of(**{"transactional.id": name})
    producer.init_transactions(30)
    return producer


def committed(consumer_of: ConsumerOf, topic: str) -> Consumer:
    consumer = consumer_of("none", **{"isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    return consumer


def test_committed_records_are_read_and_aborted_ones_are_not(
    bootstrap: str, topic: str, producer_of: ProducerOf, consumer_of: ConsumerOf
) -> None:
    make_topic(bootstrap, topic)
    producer = transactional(producer_of, topic)
    for values, commits in (((b"a", b"b"), True), ((b"lost",), False), ((b"c",), True)):
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        producer.flush(30)
        producer.commit_transaction(30) if commits else producer.abort_transaction(30)
    assert [one.value() for one in take(committed(consumer_of, topic), 3)] == [b"a", b"b", b"c"]


def test_consume_transform_produce_moves_offsets_with_the_records(
    bootstrap: str, topic: str, group: str, producer_of: ProducerOf, consumer_of: ConsumerOf
) -> None:
    make_topic(bootstrap, topic)
    make_topic(bootstrap, f"{topic}-out")
    source = producer_of()
    source.produce(topic, b"in", partition=0)
    source.flush(30)
    consumer = consumer_of(group, **{"enable.auto.commit": False})
    consumer.subscribe([topic])
    (message,) = take(consumer, 1)
    producer = transactional(producer_of, topic)
    producer.begin_transaction()
    producer.produce(f"{topic}-out", message.value().upper(), partition=0)
    moved = [TopicPartition(topic, 0, message.offset() + 1)]
    producer.send_offsets_to_transaction(moved, consumer.consumer_group_metadata(), 30)
    producer.commit_transaction(30)
    assert consumer.committed([TopicPartition(topic, 0)], timeout=30)[0].offset == 1
    assert take(committed(consumer_of, f"{topic}-out"), 1)[0].value() == b"IN"


def test_a_producer_is_fenced_by_the_next_of_its_name(bootstrap: str, topic: str, producer_of: ProducerOf) -> None:
    make_topic(bootstrap, topic)
    old = transactional(producer_of, topic)
    old.begin_transaction()
    old.produce(topic, b"x", partition=0)
    old.flush(30)
    transactional(producer_of, topic)
    with pytest.raises(KafkaException) as raised:
        old.commit_transaction(30)
    assert raised.value.args[0].fatal()
    assert raised.value.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED)
