"""The clock of embedded brokers: `advance` moves the time, and returns when all due work is done."""

from __future__ import annotations

import time
from collections.abc import Iterator

import odradek
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaError

pytestmark = pytest.mark.usefixtures("sockets")

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def producer(broker: odradek.Broker) -> Iterator[KafkaProducer]:
    made = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    yield made
    made.close(timeout=1)


def first_offset(broker: odradek.Broker) -> int:
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
    offset: int = consumer.beginning_offsets([ORDERS])[ORDERS]
    consumer.close()
    return offset


def test_records_go_when_their_retention_is_over(broker: odradek.Broker, producer: KafkaProducer) -> None:
    producer.send("orders", b"old").get(timeout=60)
    broker.clock.advance(days=6)
    assert first_offset(broker) == 0
    began = time.monotonic()
    broker.clock.advance(days=2)
    assert time.monotonic() - began < 30
    assert first_offset(broker) == 1


def test_retention_follows_the_config_of_the_topic(broker: odradek.Broker, producer: KafkaProducer) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    admin.create_topics([NewTopic("orders", 1, 1, topic_configs={"retention.ms": "60000"})])
    admin.close()
    producer.send("orders", b"old").get(timeout=60)
    broker.clock.advance(seconds=59)
    assert first_offset(broker) == 0
    broker.clock.advance(seconds=2)
    assert first_offset(broker) == 1


def test_a_silent_member_loses_its_partitions(broker: odradek.Broker, producer: KafkaProducer) -> None:
    def member() -> KafkaConsumer:
        return KafkaConsumer(
            "orders",
            bootstrap_servers=broker.bootstrap_servers,
            group_id="billing",
            auto_offset_reset="earliest",
            session_timeout_ms=45_000,
            heartbeat_interval_ms=15_000,
            enable_auto_commit=False,
        )

    producer.send("orders", b"order 1").get(timeout=60)
    silent = member()
    assert silent.poll(timeout_ms=60_000)
    broker.clock.advance(minutes=1)
    began, other = time.monotonic(), member()
    assert other.poll(timeout_ms=10_000), "the other member is alone in the group"
    assert time.monotonic() - began < 15, "less than an interval of heartbeats"
    other.close()
    silent.close()


def test_a_transaction_that_is_not_ended_is_aborted(broker: odradek.Broker) -> None:
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, transactional_id="t", transaction_timeout_ms=60_000
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"never").get(timeout=60)
    broker.clock.advance(seconds=61)
    with pytest.raises(KafkaError):
        producer.commit_transaction()
    committed = KafkaConsumer(
        "orders",
        bootstrap_servers=broker.bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        consumer_timeout_ms=300,
    )
    assert list(committed) == []
    committed.close()
    producer.close(timeout=1)


def test_reset_returns_to_real_time(broker: odradek.Broker, producer: KafkaProducer) -> None:
    broker.clock.advance(days=30)
    assert broker.clock.offset_seconds == 30 * 86_400
    assert broker.clock.now_ms - time.time() * 1000 > 29 * 86_400_000
    broker.reset()
    assert broker.clock.offset_seconds == 0
    producer.send("orders", b"new").get(timeout=60)
    broker.clock.advance(hours=1)
    assert first_offset(broker) == 0


def test_a_clock_that_jumps_back_stops_nothing(broker: odradek.Broker, producer: KafkaProducer) -> None:
    producer.send("orders", b"1").get(timeout=60)
    broker.clock.jump(minutes=-30)
    assert producer.send("orders", b"2").get(timeout=60).offset == 1


def test_a_clock_only_advances(broker: odradek.Broker) -> None:
    with pytest.raises(ValueError, match=r"use jump\(\) to set the clock back"):
        broker.clock.advance(seconds=-1)


def test_there_is_no_time_before_the_start() -> None:
    with pytest.raises(RuntimeError, match="not running"):
        odradek.Broker().clock.advance(days=1)


async def test_a_coroutine_awaits_the_clock() -> None:
    async with odradek.Broker() as broker:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.send_and_wait("orders", b"old")
            await broker.clock.advance(days=8)
        async with AIOKafkaConsumer("orders", bootstrap_servers=broker.bootstrap_servers) as consumer:
            partition = next(iter(consumer.assignment()))
            assert (await consumer.beginning_offsets([partition]))[partition] == 1
