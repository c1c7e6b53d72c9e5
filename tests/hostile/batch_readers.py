"""Consumers of other projects that read a partition to its end, or raise an error.

The partition's last record is a good record with the value `LAST`. A reader returns the number of records that it read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import kafka
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaException, TopicPartition

from compat_tests.java.tool import ToolHost

LAST = b"the last record of the partition"
DEADLINE_S = 60
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
DUMP_LOG_SEGMENTS = "org.apache.kafka.tools.DumpLogSegments"


class Stopped(AssertionError):
    """A consumer did not reach the end of the partition."""


def read_by_librdkafka(bootstrap: str, topic: str, offset: int = 0) -> int:
    settings = {"bootstrap.servers": bootstrap, "group.id": "hostile", "enable.auto.commit": False, "check.crcs": True}
    consumer = Consumer(settings)
    met, deadline = 0, time.monotonic() + DEADLINE_S
    try:
        consumer.assign([TopicPartition(topic, 0, offset)])
        while time.monotonic() < deadline:
            for message in consumer.consume(500, 0.2):
                if message.error():
                    raise Stopped(f"librdkafka after {met} records of {topic}: {message.error()}")
                met += 1
                if message.value() == LAST:
                    return met
    except KafkaException as error:
        raise Stopped(f"librdkafka after {met} records of {topic}: {error}") from error
    finally:
        consumer.close()
    raise Stopped(f"librdkafka stays behind record {met} of {topic}")


def read_by_kafka_python(bootstrap: str, topic: str, offset: int = 0) -> int:
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    met, deadline = 0, time.monotonic() + DEADLINE_S
    try:
        place = kafka.TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek(place, offset)
        while time.monotonic() < deadline:
            for messages in consumer.poll(200).values():
                for message in messages:
                    met += 1
                    if message.value == LAST:
                        return met
    except Exception as error:  # of any kind: the consumer stopped, and the test shows the error
        raise Stopped(f"kafka-python after {met} records of {topic}: {error!r}") from error
    finally:
        consumer.close()
    raise Stopped(f"kafka-python stays behind record {met} of {topic}")


def read_by_aiokafka(bootstrap: str, topic: str, offset: int = 0) -> int:
    return asyncio.run(_read_by_aiokafka(bootstrap, topic, offset))


async def _read_by_aiokafka(bootstrap: str, topic: str, offset: int) -> int:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    await consumer.start()
    met = 0
    try:
        place = AioPartition(topic, 0)
        consumer.assign([place])
        consumer.seek(place, offset)
        async with asyncio.timeout(DEADLINE_S):
            async for message in consumer:
                met += 1
                if message.value == LAST:
                    return met
    except Exception as error:  # as above
        raise Stopped(f"aiokafka after {met} records of {topic}: {error!r}") from error
    finally:
        await consumer.stop()
    raise Stopped(f"aiokafka ended behind record {met} of {topic}")


PYTHON_READERS: tuple[Callable[[str, str], int], ...] = (read_by_librdkafka, read_by_kafka_python, read_by_aiokafka)


def read_by_console_consumer(tools: ToolHost, bootstrap: str, topic: str, records: int) -> None:
    """Reads with Java's consumer, through the tool that ends at the first error."""
    arguments = ("--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", str(records))
    timeout_ms = str(DEADLINE_S * 1000)
    result = tools.run(CONSOLE_CONSUMER, "--bootstrap-server", bootstrap, *arguments, "--timeout-ms", timeout_ms)
    if result.status or LAST.decode() not in result.out:
        raise Stopped(f"the console consumer of {topic}: {result.err[-2000:]}")


def dump(tools: ToolHost, files: Iterable[Path]) -> str:
    """Runs Apache's DumpLogSegments on every record of the log files. Returns its output."""
    names = ",".join(str(file) for file in files)
    result = tools.run(DUMP_LOG_SEGMENTS, "--deep-iteration", "--print-data-log", "--files", names, timeout=120)
    if result.status or "isvalid: false" in result.out or "invalid bytes" in result.out:
        raise Stopped(f"DumpLogSegments of {names}: {result.err[-2000:]}")
    return result.out
