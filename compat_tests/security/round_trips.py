"""One record through a client of each library, sent and read with the same settings."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

DEADLINE_S = 60


def through_kafka_python(topic: str, **settings: Any) -> None:
    producer = KafkaProducer(**settings)
    producer.send(topic, b"kafka-python").get(DEADLINE_S)
    producer.close()
    consumer = KafkaConsumer(topic, **settings, auto_offset_reset="earliest", consumer_timeout_ms=DEADLINE_S * 1000)
    assert next(consumer).value == b"kafka-python"
    consumer.close()


async def through_aiokafka(topic: str, **settings: Any) -> None:
    async with AIOKafkaProducer(**settings) as producer:
        await producer.send_and_wait(topic, b"aiokafka")
    async with AIOKafkaConsumer(topic, **settings, auto_offset_reset="earliest") as consumer:
        assert (await asyncio.wait_for(consumer.getone(), DEADLINE_S)).value == b"aiokafka"


def through_librdkafka(topic: str, settings: dict[str, Any]) -> None:
    producer = Producer(settings)
    producer.produce(topic, b"librdkafka")
    assert producer.flush(DEADLINE_S) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(DEADLINE_S)
    assert message is not None
    assert message.value() == b"librdkafka"
    consumer.close()
