"""aiokafka: producers, consumers, groups and the admin client on an asyncio loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError, TopicAlreadyExistsError
from aiokafka.structs import OffsetAndMetadata

from compat_tests.recipes import make_topic

VALUES = [f"value-{n}".encode() * 20 for n in range(200)]
DEADLINE_S = 60
Start = Callable[..., Awaitable[Any]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Starts a client and stops it when the test ends."""
    async with AsyncExitStack() as running:

        async def begin(client: Any) -> Any:
            await client.start()
            running.push_async_callback(client.close if isinstance(client, AIOKafkaAdminClient) else client.stop)
            return client

        yield begin


async def take(consumer: AIOKafkaConsumer, count: int) -> list[Any]:
    async with asyncio.timeout(DEADLINE_S):
        return [await consumer.getone() for _ in range(count)]


async def until(probe: Callable[[], Any]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not probe():  # noqa: ASYNC110  (the client has no event for its assignment)
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
async def test_batches_of_every_codec_come_back_as_they_were_sent(
    codec: str | None, bootstrap: str, topic: str, start: Start
) -> None:
    make_topic(bootstrap, topic)
    producer = await start(AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=10))
    await asyncio.gather(*[await producer.send(topic, value, partition=0) for value in VALUES])
    consumer = await start(AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest"))
    assert [one.value for one in await take(consumer, len(VALUES))] == VALUES


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_every_kind_of_acknowledgement_delivers(acks: Any, bootstrap: str, topic: str, start: Start) -> None:
    make_topic(bootstrap, topic)
    producer = await start(AIOKafkaProducer(bootstrap_servers=bootstrap, acks=acks))
    for value in VALUES[:10]:
        await producer.send_and_wait(topic, value, key=b"k", headers=[("h", b"1")])
    consumer = await start(AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest"))
    taken = await take(consumer, 10)
    assert [(one.key, one.value, one.headers) for one in taken] == [(b"k", v, (("h", b"1"),)) for v in VALUES[:10]]


async def test_an_idempotent_producer_keeps_order(bootstrap: str, topic: str, start: Start) -> None:
    make_topic(bootstrap, topic)
    producer = await start(AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, max_batch_size=500))
    sent = [await producer.send(topic, value, partition=0) for value in VALUES]
    assert [(await one).offset for one in sent] == list(range(len(VALUES)))


@pytest.mark.parametrize("assignor", [RoundRobinPartitionAssignor, StickyPartitionAssignor])
async def test_members_share_partitions_and_take_over_from_one_that_leaves(
    assignor: Any, bootstrap: str, topic: str, group: str, start: Start
) -> None:
    make_topic(bootstrap, topic, partitions=4)

    async def member() -> AIOKafkaConsumer:
        settings = {"heartbeat_interval_ms": 200, "partition_assignment_strategy": [assignor]}
        consumer: AIOKafkaConsumer = await start(
            AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, **settings)
        )
        return consumer

    first, second = await member(), await member()
    await until(lambda: len(first.assignment()) == len(second.assignment()) == 2)
    assert first.assignment().isdisjoint(second.assignment())
    await second.stop()
    await until(lambda: len(first.assignment()) == 4)


async def test_a_group_goes_on_where_it_committed(bootstrap: str, topic: str, group: str, start: Start) -> None:
    make_topic(bootstrap, topic)
    producer = await start(AIOKafkaProducer(bootstrap_servers=bootstrap))
    for value in VALUES[:10]:
        await producer.send_and_wait(topic, value)
    settings = {"bootstrap_servers": bootstrap, "group_id": group, "auto_offset_reset": "earliest"}
    first = await start(AIOKafkaConsumer(topic, enable_auto_commit=False, **settings))
    await take(first, 4)
    await first.commit({TopicPartition(topic, 0): OffsetAndMetadata(4, "mine")})
    assert await first.committed(TopicPartition(topic, 0)) == 4
    await first.stop()
    second = await start(AIOKafkaConsumer(topic, **settings))
    assert (await take(second, 1))[0].offset == 4


async def test_ends_and_times_are_found(bootstrap: str, topic: str, start: Start) -> None:
    make_topic(bootstrap, topic)
    producer = await start(AIOKafkaProducer(bootstrap_servers=bootstrap))
    for n in range(5):
        await producer.send_and_wait(topic, b"x", timestamp_ms=1_700_000_000_000 + n * 1000)
    consumer = await start(AIOKafkaConsumer(bootstrap_servers=bootstrap))
    part = TopicPartition(topic, 0)
    assert await consumer.beginning_offsets([part]) == {part: 0}
    assert await consumer.end_offsets([part]) == {part: 5}
    found = await consumer.offsets_for_times({part: 1_700_000_002_500})
    assert found[part].offset == 3


async def test_an_offset_out_of_range_is_raised_without_a_reset(bootstrap: str, topic: str, start: Start) -> None:
    make_topic(bootstrap, topic)
    consumer = await start(AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="none"))
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek(TopicPartition(topic, 0), 99)
    with pytest.raises(OffsetOutOfRangeError):
        await take(consumer, 1)


async def test_a_message_that_is_too_large_is_refused(bootstrap: str, topic: str, start: Start) -> None:
    make_topic(bootstrap, topic, configs={"max.message.bytes": "1000"})
    producer = await start(AIOKafkaProducer(bootstrap_servers=bootstrap))
    with pytest.raises(MessageSizeTooLargeError):
        await producer.send_and_wait(topic, b"x" * 2000)


async def test_topics_are_created_grown_configured_and_deleted(bootstrap: str, topic: str, start: Start) -> None:
    admin = await start(AIOKafkaAdminClient(bootstrap_servers=bootstrap))
    await admin.create_topics([NewTopic(topic, 1, 1, topic_configs={"retention.ms": "1000"})])
    again = await admin.create_topics([NewTopic(topic, 1, 1)])
    assert again.topic_errors[0][1] == TopicAlreadyExistsError.errno
    await admin.create_partitions({topic: NewPartitions(3)})
    (described,) = await admin.describe_topics([topic])
    assert len(described["partitions"]) == 3
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": "2000"})
    await admin.alter_configs([resource])
    (response,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    values = {entry[0]: entry[1] for entry in response.resources[0][4]}
    assert values["retention.ms"] == "2000"
    await admin.delete_topics([topic])
    assert topic not in await admin.list_topics()


async def test_groups_are_seen_and_records_deleted(bootstrap: str, topic: str, group: str, start: Start) -> None:
    make_topic(bootstrap, topic)
    producer = await start(AIOKafkaProducer(bootstrap_servers=bootstrap))
    for value in VALUES[:5]:
        await producer.send_and_wait(topic, value)
    consumer = await start(
        AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest")
    )
    await take(consumer, 5)
    await consumer.commit()
    admin = await start(AIOKafkaAdminClient(bootstrap_servers=bootstrap))
    assert (group, "consumer") in await admin.list_consumer_groups()
    (described,) = await admin.describe_consumer_groups([group])
    assert described.groups[0][2] == "Stable"
    offsets = await admin.list_consumer_group_offsets(group)
    assert offsets[TopicPartition(topic, 0)].offset == 5
    deleted = await admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(before_offset=3)})
    assert deleted[TopicPartition(topic, 0)] == 3


async def test_the_cluster_is_described(bootstrap: str, start: Start) -> None:
    admin = await start(AIOKafkaAdminClient(bootstrap_servers=bootstrap))
    described = await admin.describe_cluster()
    assert [one["node_id"] for one in described["brokers"]] == [0]


async def test_transactions_are_committed_and_aborted_as_a_whole(
    bootstrap: str, topic: str, group: str, start: Start
) -> None:
    make_topic(bootstrap, topic, partitions=2)
    part = TopicPartition(topic, 0)
    producer = await start(AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic))
    async with producer.transaction():
        await asyncio.gather(producer.send(topic, b"kept", partition=0), producer.send(topic, b"kept", partition=1))
        await producer.send_offsets_to_transaction({part: 5}, group)
    with pytest.raises(ZeroDivisionError):
        async with producer.transaction():
            await producer.send_and_wait(topic, b"lost", partition=0)
            await producer.send_offsets_to_transaction({part: 9}, group)
            raise ZeroDivisionError
    async with producer.transaction():
        await producer.send_and_wait(topic, b"last", partition=0)
    settings = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    consumer = await start(AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, **settings))
    assert sorted(one.value for one in await take(consumer, 3)) == [b"kept", b"kept", b"last"]
    reader = await start(AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group))
    assert await reader.committed(part) == 5
