"""Other projects' clients and damage: each reads up to the damage, and after a seek past it reads everything else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import odradek
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

from compat_tests.fixtures import java_tools, tools  # noqa: F401  (found by being here)
from compat_tests.java.tool import ToolHost, ToolResult
from tests.hostile.batch_readers import CONSOLE_CONSUMER
from tests.hostile.damaged_files import DAMAGES, RottingTopic, middle_batch, segments_of
from tests.server.harness.replicas import eventually

pytestmark = pytest.mark.usefixtures("processes")

DEADLINE_S = 60
BATCHES = 60


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[odradek.Broker]:
    config = {"log.message.timestamp.type": "CreateTime"}
    with odradek.Broker(data_dir=tmp_path_factory.mktemp("broker"), config=config) as running:
        yield running


@pytest.fixture
def topic(broker: odradek.Broker) -> RottingTopic:
    return RottingTopic(broker, batches=BATCHES)


def damage(topic: RottingTopic) -> range:
    """Damages a batch. Returns the offsets that clients can no longer read."""
    segment = segments_of(topic.folder)[0]
    _, header = middle_batch(segment)
    DAMAGES["payload"](segment)
    return range(header.base_offset, header.next_offset)


def consumed(host: ToolHost, topic: RottingTopic, offset: int, records: int) -> tuple[ToolResult, list[bytes]]:
    """Returns the result of Java's console consumer and the values that it printed."""
    place = ("--bootstrap-server", topic.broker.bootstrap_servers, "--topic", topic.name, "--partition", "0")
    end = ("--max-messages", str(records), "--timeout-ms", str(DEADLINE_S * 1000))
    result = host.run(CONSOLE_CONSUMER, *place, "--offset", str(offset), *end)
    return result, result.out.encode().splitlines()


@pytest.mark.parametrize("verified", [True, False], ids=["verified", "unverified"])
def test_java_consumer_raises_at_damage_and_reads_on_behind_it(
    tools: ToolHost,  # noqa: F811
    topic: RottingTopic,
    verified: bool,
) -> None:
    lost = damage(topic)
    if verified:
        topic.scrub()
    values = list(topic.sent.values())

    _, before = consumed(tools, topic, 0, len(values))
    _, inside = consumed(tools, topic, lost[0], len(values))
    behind = len(values) - lost.stop
    _, after = consumed(tools, topic, lost.stop, behind)

    assert before == values[: lost.start], "the consumer ends with the error at the damage"
    assert inside == []
    assert after == values[lost.stop :]


async def test_aiokafka_retries_at_damage_and_reads_on_behind_it(
    topic: RottingTopic, caplog: pytest.LogCaptureFixture
) -> None:
    lost = damage(topic)
    await asyncio.to_thread(topic.scrub)
    consumer = AIOKafkaConsumer(bootstrap_servers=topic.broker.bootstrap_servers, enable_auto_commit=False)
    await consumer.start()
    place = TopicPartition(topic.name, 0)
    consumer.assign([place])
    consumer.seek(place, 0)
    got: dict[int, bytes] = {}

    async def read(records: int) -> None:
        while len(got) < records:
            message = await consumer.getone()
            got[message.offset] = message.value

    try:
        async with asyncio.timeout(DEADLINE_S):
            with caplog.at_level(logging.WARNING, "aiokafka"):
                await read(lost.start)
                waiting = asyncio.create_task(consumer.getone())
                await eventually(lambda: "CorruptRecord" in caplog.text, "the consumer meets the damage")
                waiting.cancel()
            consumer.seek(place, lost.stop)
            await read(len(topic.sent) - len(lost))
    finally:
        await consumer.stop()

    assert got == {offset: value for offset, value in topic.sent.items() if offset not in lost}
