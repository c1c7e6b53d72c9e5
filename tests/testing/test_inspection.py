"""The contents of brokers that a test reads without a client: records, groups, requests."""

from __future__ import annotations

import threading

import odradek
import pytest
from aiokafka import AIOKafkaProducer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

pytestmark = pytest.mark.usefixtures("sockets")


def test_records_of_a_topic_are_seen_without_a_client(broker: odradek.Broker) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, compression_type="gzip")
    broker.topic("orders").create(partitions=2)
    for number in range(5):
        producer.send("orders", b"order %d" % number, key=b"k", partition=number % 2, headers=[("h", b"1")])
    producer.flush()
    seen = broker.topic("orders").wait_for(records=5)
    assert [(one.partition, one.offset, one.value) for one in seen] == [
        (0, 0, b"order 0"), (0, 1, b"order 2"), (0, 2, b"order 4"), (1, 0, b"order 1"), (1, 1, b"order 3"),
    ]  # fmt: skip
    assert (seen[0].key, seen[0].headers) == (b"k", [("h", b"1")])
    assert broker.topic("orders").end_offsets == {0: 3, 1: 2}
    assert broker.topic("orders").records(partition=1) == seen[3:]
    producer.close()


def test_records_of_open_and_aborted_transactions_are_not_committed(broker: odradek.Broker) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id="t")
    producer.init_transactions()
    for value, is_committed in ((b"kept", True), (b"lost", False)):
        producer.begin_transaction()
        producer.send("orders", value).get(timeout=60)
        (producer.commit_transaction if is_committed else producer.abort_transaction)()
    producer.begin_transaction()
    producer.send("orders", b"open").get(timeout=60)
    topic = broker.topic("orders")
    assert topic.values() == [b"kept", b"lost", b"open"]
    assert [record.value for record in topic.records(committed=True)] == [b"kept"]
    producer.abort_transaction()
    producer.close()


def test_waiting_ends_when_records_come_and_says_how_many_came(broker: odradek.Broker) -> None:
    topic = broker.topic("orders")
    with pytest.raises(
        TimeoutError, match=r"timeout after 0\.05 s while waiting for 2 records in orders; the topic has 0"
    ):
        topic.wait_for(records=2, timeout=0.05)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    sending = threading.Thread(target=lambda: [producer.send("orders", b"x").get(timeout=60) for _ in range(2)])
    sending.start()
    assert len(topic.wait_for(records=2, timeout=60)) == 2
    sending.join(60)
    producer.close()


def test_a_group_shows_its_lag_and_members(broker: odradek.Broker) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    for number in range(3):
        producer.send("orders", b"%d" % number).get(timeout=60)
    group = broker.group("billing")
    assert (group.lag, group.state, group.members) == (None, None, [])
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=broker.bootstrap_servers,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    next(consumer)
    group.wait_for(state="Stable", members=1, timeout=60)
    consumer.commit()
    group.wait_for(lag=2, timeout=60)
    assert group.lags == {("orders", 0): 2} and group.offsets == {("orders", 0): 1}
    with pytest.raises(TimeoutError, match="the group is Stable with 1 members"):
        group.wait_for(lag=0, timeout=0.05)
    consumer.close()
    producer.close()


def test_requests_are_readable(broker: odradek.Broker) -> None:
    broker.requests.clear()
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, client_id="checkout")
    producer.send("orders", b"1").get(timeout=60)
    (asked,) = broker.requests.matching("Produce", client_id="checkout", topic="orders")
    assert asked.topics == ("orders-0",)
    assert str(asked).endswith(f"checkout > 1: Produce v{asked.version} orders-0")
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id="billing", client_id="billing")
    consumer.assign([TopicPartition("orders", 0)])
    consumer.committed(TopicPartition("orders", 0))
    assert any(one.groups == ("billing",) for one in broker.requests.matching("OffsetFetch"))
    consumer.close()
    producer.close()


def test_a_cluster_shows_what_its_leaders_hold() -> None:
    with odradek.Cluster(brokers=3) as cluster:
        cluster.topic("orders").create(partitions=6)
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all")
        for number in range(6):
            producer.send("orders", b"%d" % number, partition=number).get(timeout=60)
        assert [record.value for record in cluster.topic("orders").wait_for(records=6)] == [b"%d" % n for n in range(6)]
        assert {cluster.leader("orders", partition) for partition in range(6)} == {1, 2, 3}
        producer.close()


async def test_a_coroutine_awaits_records_and_groups() -> None:
    async with odradek.Broker() as broker:
        topic = await broker.topic("orders").create()
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.send_and_wait("orders", b"order 1")
        seen = await topic.wait_for(records=1)
        assert [record.value for record in seen] == topic.values() == [b"order 1"]
        with pytest.raises(TimeoutError):
            await broker.group("billing").wait_for(lag=0, timeout=0.05)


async def test_a_coroutine_awaits_a_broker_on_a_thread_without_blocking_its_own_loop(broker: odradek.Broker) -> None:
    waiting = broker.topic("orders").wait_for(records=1)
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        await producer.send_and_wait("orders", b"order 1")
    assert [record.value for record in await waiting] == [b"order 1"]


def test_a_topic_that_is_refused_says_why(broker: odradek.Broker) -> None:
    broker.topic("orders").create()
    with pytest.raises(RuntimeError, match="TOPIC_ALREADY_EXISTS"):
        broker.topic("orders").create()
