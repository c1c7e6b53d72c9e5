"""Groups of real clients, and their state after kill -9 of the broker."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, ConsumerGroupState, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaTopicPartition
from kafka.structs import OffsetAndMetadata

from compat_tests.odradek_process import OdradekProcess

pytestmark = pytest.mark.usefixtures("processes")

PARTITIONS = 4
DEADLINE_S = 60
#: A poll of kafka-python that ends within a rebalance begins it anew, so a short one gets nowhere on a busy machine.
POLL_MS = 1000
#: Limit of the best of several tries: a rebalance that waits for more members takes 3 s. A quiet machine takes 0.1 to 0.3.
FIRST_RECORD_S = 0.8
TRIES = 20
PROPERTIES = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "3",
    "num.partitions": str(PARTITIONS),
}


@pytest.fixture(scope="module")
def odradek(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekProcess]:
    with OdradekProcess(tmp_path_factory.mktemp("odradek"), PROPERTIES) as broker:
        assert isinstance(broker, OdradekProcess)
        yield broker


@pytest.fixture
def topic(odradek: OdradekProcess, request: pytest.FixtureRequest) -> str:
    """A topic of four partitions with one record in each, named after the test."""
    name = re.sub(r"\W", "-", request.node.name)[:80]
    admin = AdminClient({"bootstrap.servers": odradek.bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(DEADLINE_S)
    fill(odradek.bootstrap, name)
    return name


def fill(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for index in range(PARTITIONS):
        producer.send(topic, str(index).encode(), partition=index).get(timeout=DEADLINE_S)
    producer.close()


def until(step: Callable[[], Any]) -> Any:
    """Calls `step` until it returns a true value. Returns this value."""
    end = time.monotonic() + DEADLINE_S
    while not (found := step()):
        assert time.monotonic() < end, "it did not come about in time"
    return found


def librdkafka(broker: OdradekProcess, group: str, **settings: Any) -> Consumer:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    common = {
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 200,
        "log_level": 0,
    }
    return Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, **common, **named})


def owned(*consumers: Consumer) -> list[set[int]]:
    """Polls each consumer once. Returns the partitions of each."""
    for consumer in consumers:
        consumer.poll(0.05)
    return [{place.partition for place in consumer.assignment()} for consumer in consumers]


def shared_out(*consumers: Consumer) -> list[set[int]] | None:
    """Returns the assignments, if each consumer has partitions and each partition has one owner."""
    found = owned(*consumers)
    everything = sorted(index for indexes in found for index in indexes)
    return found if everything == list(range(PARTITIONS)) and all(found) else None


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_members_of_librdkafka_share_the_partitions_as_they_come_and_go(
    odradek: OdradekProcess, topic: str, strategy: str
) -> None:
    settings = {"partition_assignment_strategy": strategy}
    first, second = librdkafka(odradek, topic, **settings), librdkafka(odradek, topic, **settings)
    first.subscribe([topic])
    assert until(lambda: shared_out(first)) == [{0, 1, 2, 3}]
    second.subscribe([topic])
    assert [len(indexes) for indexes in until(lambda: shared_out(first, second))] == [2, 2]
    second.close()
    assert until(lambda: shared_out(first)) == [{0, 1, 2, 3}]
    first.close()


def test_a_static_member_comes_back_without_a_rebalance(odradek: OdradekProcess, topic: str) -> None:
    revoked: list[Any] = []
    first = librdkafka(odradek, topic, group_instance_id="one")
    second = librdkafka(odradek, topic, group_instance_id="two")
    first.subscribe([topic], on_revoke=lambda _, places: revoked.append(places))
    second.subscribe([topic])
    before = until(lambda: shared_out(first, second))
    revoked.clear()
    second.close()
    second = librdkafka(odradek, topic, group_instance_id="two")
    second.subscribe([topic])
    assert until(lambda: shared_out(first, second)) == before
    assert not revoked
    first.close()
    second.close()


def test_members_of_kafka_python_share_the_partitions(odradek: OdradekProcess, topic: str) -> None:
    def consumer() -> KafkaConsumer:
        return KafkaConsumer(
            topic,
            bootstrap_servers=odradek.bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            session_timeout_ms=6_000,
            heartbeat_interval_ms=200,
        )

    first, second = consumer(), consumer()

    def step() -> bool:
        first.poll(timeout_ms=POLL_MS)
        second.poll(timeout_ms=POLL_MS)
        places = [place.partition for one in (first, second) for place in one.assignment()]
        return sorted(places) == [0, 1, 2, 3] and len(first.assignment()) == 2

    until(step)
    second.close()
    until(lambda: first.poll(timeout_ms=POLL_MS) is not None and len(first.assignment()) == PARTITIONS)
    first.close()


async def test_members_of_aiokafka_share_the_partitions_and_go_on_where_others_stopped(
    odradek: OdradekProcess, topic: str
) -> None:
    def consumer() -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            topic,
            bootstrap_servers=odradek.bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=200,
        )

    async with consumer() as first:
        seen = [(await asyncio.wait_for(first.getone(), DEADLINE_S)).partition for _ in range(PARTITIONS)]
        assert sorted(seen) == [0, 1, 2, 3]
        await first.commit()
        async with consumer() as second:
            end = time.monotonic() + DEADLINE_S
            while not (len(first.assignment()) == len(second.assignment()) == 2):
                assert time.monotonic() < end
                await asyncio.gather(first.getmany(timeout_ms=50), second.getmany(timeout_ms=50))
    async with AIOKafkaProducer(bootstrap_servers=odradek.bootstrap) as producer:
        await producer.send_and_wait(topic, b"new", partition=1)
    async with consumer() as third:
        record = await asyncio.wait_for(third.getone(), DEADLINE_S)
        assert (record.value, record.offset) == (b"new", 1), "what was committed is not read again"


def test_tools_see_groups_and_delete_them(odradek: OdradekProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": odradek.bootstrap})
    consumer = librdkafka(odradek, topic, client_id="me")
    consumer.subscribe([topic])
    until(lambda: shared_out(consumer))
    consumer.commit(offsets=[TopicPartition(topic, 0, 1, "so far")], asynchronous=False)
    (seen,) = [g for g in admin.list_consumer_groups().result().valid if g.group_id == topic]
    assert (seen.state, seen.is_simple_consumer_group) == (ConsumerGroupState.STABLE, False)
    described = admin.describe_consumer_groups([topic])[topic].result()
    (member,) = described.members
    assert (described.state, described.partition_assignor) == (ConsumerGroupState.STABLE, "range")
    assert (member.client_id, member.host) == ("me", "/127.0.0.1")
    assert {place.partition for place in member.assignment.topic_partitions} == {0, 1, 2, 3}
    with pytest.raises(Exception, match=r"NON_EMPTY_GROUP|not empty"):
        admin.delete_consumer_groups([topic])[topic].result()
    consumer.close()
    (fetched,) = Consumer({"bootstrap.servers": odradek.bootstrap, "group.id": topic}).committed(
        [TopicPartition(topic, 0)], timeout=DEADLINE_S
    )
    assert (fetched.offset, fetched.metadata) == (1, "so far")
    admin.delete_consumer_groups([topic])[topic].result()
    assert topic not in {g.group_id for g in admin.list_consumer_groups().result().valid}


def test_the_offsets_of_a_topic_go_with_it(odradek: OdradekProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": odradek.bootstrap})
    consumer = KafkaConsumer(bootstrap_servers=odradek.bootstrap, group_id=topic, enable_auto_commit=False)
    place = KafkaTopicPartition(topic, 0)
    consumer.assign([place])
    consumer.commit({place: OffsetAndMetadata(1, "", -1)})
    assert consumer.committed(place) == 1
    admin.delete_topics([topic])[topic].result(DEADLINE_S)
    until(lambda: consumer.committed(place) is None)
    consumer.close()


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[OdradekProcess]:
    """A broker that the test may kill."""
    with OdradekProcess(tmp_path / "broker", PROPERTIES) as broker:
        assert isinstance(broker, OdradekProcess)
        yield broker


def commit(consumer: Any, place: TopicPartition) -> None:
    """Commits, again after `_WAIT_COORD`: librdkafka holds a commit back once, and fails it if it cannot send it then."""

    def is_committed() -> bool:
        try:
            consumer.commit(offsets=[place], asynchronous=False)
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError._WAIT_COORD:
                raise
            return False
        return True

    until(is_committed)


def test_no_committed_offset_is_lost_and_no_group_confused_by_kill_9(own_broker: OdradekProcess) -> None:
    topic, broker = "kept", own_broker
    fill(broker.bootstrap, topic)
    revoked: list[Any] = []
    first, second = (
        librdkafka(broker, "g", session_timeout_ms=30_000),
        librdkafka(broker, "g", session_timeout_ms=30_000),
    )
    first.subscribe([topic], on_revoke=lambda _, places: revoked.append(places))
    second.subscribe([topic])
    before = until(lambda: shared_out(first, second))
    revoked.clear()
    committed = {}
    for round_number in range(3):
        for consumer, indexes in zip((first, second), before, strict=True):
            for index in indexes:
                committed[index] = round_number * 10 + index + 1
                commit(consumer, TopicPartition(topic, index, committed[index]))
        broker.kill()
        broker.start()
    # Members and generation are the same: heartbeats and commits succeed, and no member rebalances.
    until(lambda: shared_out(first, second) and not first.poll(0.2) and not second.poll(0.2))
    assert shared_out(first, second) == before
    last = TopicPartition(topic, min(before[0]), 99)
    first.commit(offsets=[last], asynchronous=False)
    committed[last.partition] = 99
    assert not revoked
    places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    assert {place.partition: place.offset for place in first.committed(places, timeout=DEADLINE_S)} == committed
    first.close()
    second.close()


def first_record_seconds(consume: Callable[[str], None], prefix: str) -> float:
    """Returns the shortest time from the start of a new group's consumer to its first record, of at most TRIES."""
    times: list[float] = []
    while len(times) < TRIES and min(times, default=FIRST_RECORD_S) >= FIRST_RECORD_S:
        started = time.perf_counter()
        consume(f"{prefix}-{len(times)}")
        times.append(time.perf_counter() - started)
    return min(times)


def test_kafka_python_has_its_first_record_in_time(odradek: OdradekProcess, topic: str) -> None:
    def consume(group: str) -> None:
        consumer = KafkaConsumer(
            topic, bootstrap_servers=odradek.bootstrap, group_id=group, auto_offset_reset="earliest"
        )
        next(iter(consumer))
        consumer.close(autocommit=False)

    assert first_record_seconds(consume, topic) < FIRST_RECORD_S


def test_librdkafka_has_its_first_record_in_time(odradek: OdradekProcess, topic: str) -> None:
    def consume(group: str) -> None:
        consumer = librdkafka(odradek, group)
        consumer.subscribe([topic])
        until(lambda: consumer.poll(0.01))
        consumers.append(consumer)

    consumers: list[Consumer] = []
    seconds = first_record_seconds(consume, topic)
    for consumer in consumers:
        consumer.close()
    assert seconds < FIRST_RECORD_S


async def test_aiokafka_has_its_first_record_in_time(odradek: OdradekProcess, topic: str) -> None:
    times: list[float] = []
    while len(times) < TRIES and min(times, default=FIRST_RECORD_S) >= FIRST_RECORD_S:
        started = time.perf_counter()
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=odradek.bootstrap,
            group_id=f"{topic}-{len(times)}",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        await asyncio.wait_for(consumer.getone(), DEADLINE_S)
        times.append(time.perf_counter() - started)
        await consumer.stop()
    assert min(times) < FIRST_RECORD_S
