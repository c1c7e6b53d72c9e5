"""A broker inside the process that uses it, and the fixtures that come with the package."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import odradek
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient

pytestmark = pytest.mark.usefixtures("sockets")

FIRST_RECORD_DEADLINE_MS = 20_000


def send(bootstrap: str, topic: str, *values: bytes) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for value in values:
        producer.send(topic, value)
    producer.flush()
    producer.close()


def received(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=FIRST_RECORD_DEADLINE_MS
    )
    values = []
    for record in consumer:
        values.append(record.value)
        if len(values) == count:
            break
    consumer.close()
    return values


async def test_a_broker_shares_the_loop_of_its_user() -> None:
    async with odradek.Broker() as broker:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.send_and_wait("greetings", b"hello")
        consumer = AIOKafkaConsumer(
            "greetings", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
        )
        async with consumer:
            assert (await consumer.getone()).value == b"hello"


async def test_several_brokers_in_one_process_do_not_know_each_other() -> None:
    async with odradek.Broker() as one, odradek.Broker() as other:
        assert one.bootstrap_servers != other.bootstrap_servers
        async with AIOKafkaProducer(bootstrap_servers=one.bootstrap_servers) as producer:
            await producer.send_and_wait("only-in-one", b"x")
        assert [topic.name for topic in one.server.node.metadata.image.topics.by_id.values()] == ["only-in-one"]
        assert not other.server.node.metadata.image.topics.by_id


def test_a_plain_program_enters_it_with_a_plain_with() -> None:
    with odradek.Broker(config={"num.partitions": 3}) as broker:
        send(broker.bootstrap_servers, "plain", b"a", b"b")
        assert sorted(received(broker.bootstrap_servers, "plain", 2)) == [b"a", b"b"]
        (topic,) = broker.server.node.metadata.image.topics.by_id.values()
        assert len(topic.partitions) == 3


def test_data_stays_in_a_folder_that_was_named(tmp_path: Path) -> None:
    with odradek.Broker(data_dir=tmp_path) as broker:
        send(broker.bootstrap_servers, "kept", b"1", b"2")
    with odradek.Broker(data_dir=tmp_path) as broker:
        assert received(broker.bootstrap_servers, "kept", 2) == [b"1", b"2"]


def test_a_temporary_folder_goes_with_its_broker() -> None:
    with odradek.Broker() as broker:
        (folder,) = (Path(directory) for directory in broker.server.config.log_dirs)
        assert folder.exists()
    assert not folder.exists()


def test_a_stopped_broker_says_so() -> None:
    with pytest.raises(RuntimeError, match="not running"):
        _ = odradek.Broker().bootstrap_servers


@pytest.mark.parametrize("test", ["first", "second"])
def test_every_test_finds_the_shared_broker_empty(odradek_broker: odradek.Broker, test: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=odradek_broker.bootstrap_servers)
    assert admin.list_topics() == []
    assert not list(admin.list_groups())
    admin.close()
    send(odradek_broker.bootstrap_servers, "left-behind", test.encode())
    consumer = KafkaConsumer(
        "left-behind", bootstrap_servers=odradek_broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
    )
    assert next(consumer).value == test.encode()
    consumer.commit()
    consumer.close()


def test_emptying_a_broker_takes_milliseconds(odradek_broker: odradek.Broker) -> None:
    took = []
    while len(took) < 10 and min(took, default=1.0) >= 0.25:  # the minimum of several tries
        send(odradek_broker.bootstrap_servers, "t", b"x")
        began = time.perf_counter()
        odradek_broker.reset()
        took.append(time.perf_counter() - began)
    assert min(took) < 0.25, took


def test_further_brokers_have_their_own_configuration(odradek_new_broker: Callable[..., odradek.Broker]) -> None:
    one, other = odradek_new_broker(config={"num.partitions": 2}), odradek_new_broker()
    assert one.server.config.get("num.partitions") == 2
    assert other.server.config.get("num.partitions") == 1
