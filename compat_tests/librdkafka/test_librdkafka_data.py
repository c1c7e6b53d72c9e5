"""librdkafka produces and consumes: codecs, acks, idempotence, positions, times, errors."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from compat_tests.librdkafka.conftest import ConsumerOf, ProducerOf
from compat_tests.librdkafka.steps import poll_until, send, take
from compat_tests.recipes import make_topic

VALUES = [f"value-{n}".encode() * 20 for n in range(200)]


def assigned(consumer_of: ConsumerOf, topic: str, offset: int = 0, partition: int = 0, **settings: object) -> Consumer:
    consumer = consumer_of("none", **settings)
    consumer.assign([TopicPartition(topic, partition, offset)])
    return consumer


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_of_every_codec_come_back_as_they_were_sent(
    codec: str, bootstrap: str, topic: str, producer_of: ProducerOf, consumer_of: ConsumerOf
) -> None:
    make_topic(bootstrap, topic)
    send(producer_of(**{"compression.type": codec}), topic, VALUES, partition=0)
    assert [one.value() for one in take(assigned(consumer_of, topic), len(VALUES))] == VALUES


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_delivers(
    acks: str, bootstrap: str, topic: str, producer_of: ProducerOf, consumer_of: ConsumerOf
) -> None:
    make_topic(bootstrap, topic)
    send(producer_of(acks=acks), topic, VALUES, partition=0)
    assert [one.value() for one in take(assigned(consumer_of, topic), len(VALUES))] == VALUES


def test_an_idempotent_producer_keeps_order_over_many_requests_in_flight(
    bootstrap: str, topic: str, producer_of: ProducerOf, consumer_of: ConsumerOf
) -> None:
    make_topic(bootstrap, topic)
    producer = producer_of(**{"enable.idempotence": True, "batch.num.messages": 10, "linger.ms": 0})
    delivered = send(producer, topic, VALUES, partition=0)
    assert [one.offset() for one in delivered] == list(range(len(VALUES)))
    assert [one.value() for one in take(assigned(consumer_of, topic), len(VALUES))] == VALUES


def test_keys_headers_nulls_and_timestamps_are_kept(
    bootstrap: str, topic: str, producer_of: ProducerOf, consumer_of: ConsumerOf
) -> None:
    make_topic(bootstrap, topic)
    headers = [("a", b"1"), ("a", b"2"), ("none", None)]
    send(producer_of(), topic, [None], key=b"k", headers=headers, timestamp=1_600_000_000_123, partition=0)
    (message,) = take(assigned(consumer_of, topic), 1)
    assert (message.key(), message.value(), message.headers()) == (b"k", None, headers)
    assert message.timestamp() == (1, 1_600_000_000_123)


def test_the_log_stamps_records_where_the_topic_says_so(
    bootstrap: str, topic: str, producer_of: ProducerOf, consumer_of: ConsumerOf
) -> None:
    make_topic(bootstrap, topic, configs={"message.timestamp.type": "LogAppendTime"})
    send(producer_of(), topic, [b"x"], timestamp=1, partition=0)
    kind, when = take(assigned(consumer_of, topic), 1)[0].timestamp()
    assert kind == 2
    assert when > 1_600_000_000_000


def test_a_consumer_begins_inside_a_batch(
    bootstrap: str, topic: str, producer_of: ProducerOf, consumer_of: ConsumerOf
) -> None:
    make_topic(bootstrap, topic)
    send(producer_of(**{"linger.ms": 200}), topic, VALUES[:50], partition=0)
    first = take(assigned(consumer_of, topic, 33), 1)[0]
    assert (first.offset(), first.value()) == (33, VALUES[33])


def test_ends_and_times_are_found(bootstrap: str, topic: str, producer_of: ProducerOf, consumer_of: ConsumerOf) -> None:
    make_topic(bootstrap, topic)
    producer = producer_of()
    for n in range(5):
        send(producer, topic, [b"x"], timestamp=1_700_000_000_000 + n * 1000, partition=0)
    consumer = assigned(consumer_of, topic)
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0)) == (0, 5)
    (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, 1_700_000_002_500)])
    assert found.offset == 3


def test_an_offset_out_of_range_resets_or_fails_as_configured(
    bootstrap: str, topic: str, producer_of: ProducerOf, consumer_of: ConsumerOf
) -> None:
    make_topic(bootstrap, topic)
    send(producer_of(), topic, [b"x"], partition=0)
    assert take(assigned(consumer_of, topic, 99), 1)[0].offset() == 0
    strict = assigned(consumer_of, topic, 99, **{"auto.offset.reset": "error"})
    errors: list[KafkaError] = []

    def failed() -> bool:
        message = strict.poll(0.1)
        if message is not None and message.error():
            errors.append(message.error())
        return bool(errors)

    while not failed():
        pass
    assert errors[0].code() == KafkaError._AUTO_OFFSET_RESET


def test_end_of_partition_is_reported(
    bootstrap: str, topic: str, producer_of: ProducerOf, consumer_of: ConsumerOf
) -> None:
    make_topic(bootstrap, topic)
    send(producer_of(), topic, [b"x"], partition=0)
    consumer = assigned(consumer_of, topic, **{"enable.partition.eof": True})
    seen: list[Message] = []
    while not seen or seen[-1].error() is None:
        message = consumer.poll(30)
        assert message is not None
        seen.append(message)
    assert (seen[-1].error().code(), seen[-1].offset()) == (KafkaError._PARTITION_EOF, 1)


def test_a_message_that_is_too_large_is_refused(bootstrap: str, topic: str, producer_of: ProducerOf) -> None:
    make_topic(bootstrap, topic, configs={"max.message.bytes": "1000"})
    errors: list[KafkaError] = []
    producer = producer_of()
    producer.produce(topic, b"x" * 2000, on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    assert [error.code() for error in errors] == [KafkaError.MSG_SIZE_TOO_LARGE]


def test_a_large_message_passes(bootstrap: str, topic: str, producer_of: ProducerOf, consumer_of: ConsumerOf) -> None:
    make_topic(bootstrap, topic, configs={"max.message.bytes": "6000000"})
    value = bytes(range(256)) * 20_000
    send(producer_of(**{"message.max.bytes": 6_000_000}), topic, [value], partition=0)
    consumer = assigned(consumer_of, topic, **{"fetch.message.max.bytes": 100_000})
    assert take(consumer, 1)[0].value() == value


def test_a_topic_is_made_by_the_first_message_to_it(
    topic: str, producer_of: ProducerOf, consumer_of: ConsumerOf
) -> None:
    send(producer_of(), topic, [b"x"], partition=2)
    consumer = consumer_of("none")
    assert len(consumer.list_topics(topic).topics[topic].partitions) == 4
    consumer.assign([TopicPartition(topic, 2, 0)])
    assert take(consumer, 1)[0].value() == b"x"


def test_unknown_partition_returns_an_error(bootstrap: str, topic: str, consumer_of: ConsumerOf) -> None:
    make_topic(bootstrap, topic)
    with pytest.raises(KafkaException) as raised:
        consumer_of("none").get_watermark_offsets(TopicPartition(topic, 7), timeout=30)
    assert raised.value.args[0].code() == KafkaError._UNKNOWN_PARTITION


def test_a_paused_partition_gives_nothing_until_it_is_resumed(
    bootstrap: str, topic: str, producer_of: ProducerOf, consumer_of: ConsumerOf
) -> None:
    make_topic(bootstrap, topic, partitions=2)
    producer = producer_of()
    consumer = consumer_of("none")
    consumer.assign([TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 0)])
    consumer.pause([TopicPartition(topic, 0)])
    send(producer, topic, [b"paused"], partition=0)
    send(producer, topic, [b"open"], partition=1)
    assert take(consumer, 1)[0].value() == b"open"
    consumer.resume([TopicPartition(topic, 0)])
    assert take(consumer, 1)[0].value() == b"paused"


def test_read_committed_reads_what_is_outside_transactions(
    bootstrap: str, topic: str, producer_of: ProducerOf, consumer_of: ConsumerOf
) -> None:
    make_topic(bootstrap, topic)
    send(producer_of(), topic, [b"x"], partition=0)
    consumer = assigned(consumer_of, topic, **{"isolation.level": "read_committed"})
    taken: list[Message] = []
    poll_until(consumer, lambda: taken, taken)
    assert taken[0].value() == b"x"
