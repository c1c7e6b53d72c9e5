"""Steps that tests of librdkafka share: produce and wait for the reports, consume a number of records."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer

DEADLINE_S = 60.0


def send(producer: Producer, topic: str, values: list[bytes | None], **more: Any) -> list[Message]:
    """Produces the values, and returns the delivered messages in the order of their reports. Fails on a delivery error."""
    delivered: list[Message] = []
    failed: list[KafkaError] = []

    def report(error: KafkaError | None, message: Message) -> None:
        failed.append(error) if error else delivered.append(message)

    for value in values:
        producer.produce(topic, value=value, on_delivery=report, **more)
        producer.poll(0)
    assert producer.flush(DEADLINE_S) == 0
    assert not failed, failed
    return delivered


def take(consumer: Consumer, count: int) -> list[Message]:
    """Returns the next `count` messages."""
    taken: list[Message] = []
    poll_until(consumer, lambda: len(taken) >= count, taken)
    return taken


def poll_until(consumer: Consumer, done: Callable[[], Any], taken: list[Message] | None = None) -> None:
    """Polls until `done()`. A member takes part in its group only while it polls."""
    deadline = time.monotonic() + DEADLINE_S
    while not done():
        assert time.monotonic() < deadline, f"no end in {DEADLINE_S} s, {len(taken or [])} messages"
        message = consumer.poll(0.1)
        if message is None:
            continue
        assert message.error() is None, message.error()
        if taken is not None:
            taken.append(message)
