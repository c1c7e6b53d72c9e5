"""Runs of `odradek bench`: one measurement each, by confluent-kafka, against one cluster."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..client.connection import Connection
from ..client.errors import UNREACHABLE, CommandError, status_of_code

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Consumer, KafkaError, Message, Producer


_BATCH = 10_000
_WAIT_S = 0.05


@dataclass(slots=True)
class Load:
    """`count` records of `size` bytes each; a run ends after `seconds` at the latest."""

    count: int
    size: int
    seconds: float
    settings: dict[str, str | int] = field(default_factory=dict)
    rate: float = 100.0


class Bench:
    """Measurements against one cluster, in a topic that exists."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self.connection = connection
        self.topic = topic

    def produce(self, load: Load) -> dict[str, float]:
        """Records and bytes a second until all are acknowledged."""
        from confluent_kafka import Producer

        failed: list[KafkaError] = []
        settings = {"linger.ms": 5, "queue.buffering.max.messages": 1_000_000, "delivery.report.only.error": True}
        producer = Producer(settings | load.settings | self.connection.librdkafka() | {"on_delivery": _collect(failed)})
        value = os.urandom(load.size)
        producer.list_topics(self.topic, timeout=self.connection.timeout_s)  # connected before the clock runs
        began = time.perf_counter()
        sent = 0
        while sent < load.count and time.perf_counter() - began < load.seconds:
            for _ in range(min(1000, load.count - sent)):
                self._produce(producer, value)
                sent += 1
            producer.poll(0)
        left = producer.flush(self.connection.timeout_s)
        seconds = time.perf_counter() - began
        if failed or left:
            words = failed[0].str() if failed else f"{left} records were not acknowledged"
            raise CommandError(f"bench produce: {words}", status_of_code(failed[0].code()) if failed else UNREACHABLE)
        return _rates(sent, load.size, seconds)

    def _produce(self, producer: Producer, value: bytes) -> None:
        while True:
            try:
                producer.produce(self.topic, value)
                return
            except BufferError:
                producer.poll(0.05)

    def consume(self, load: Load) -> dict[str, float]:
        """Records and bytes a second, from the first record on."""
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        own = {
            "group.id": "odradek-bench",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 5,
            "enable.partition.eof": True,
        }
        consumer = Consumer(own | self.connection.librdkafka())
        try:
            described = consumer.list_topics(self.topic, timeout=self.connection.timeout_s).topics[self.topic]
            began = time.perf_counter()
            consumer.assign([TopicPartition(self.topic, one, OFFSET_BEGINNING) for one in described.partitions])
            read = size = ended = 0
            while (
                read < load.count and ended < len(described.partitions) and time.perf_counter() - began < load.seconds
            ):
                for message in consumer.consume(_BATCH, _WAIT_S):
                    if message.error() is None:
                        read += 1
                        size += len(message.value() or b"")
                    else:
                        ended += 1
            seconds = time.perf_counter() - began
        finally:
            consumer.close()
        if not read:
            raise CommandError(f"bench consume: {self.topic} has no records that can be read")
        return _rates(read, size / read, seconds)

    def latency(self, load: Load) -> dict[str, float]:
        """Times in ms from sending to the acknowledgement, and to the arrival at a consumer, at `rate` records a second."""
        from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition

        own = {
            "group.id": "odradek-bench",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 500,
            "enable.partition.eof": True,
        }
        consumer = Consumer(own | self.connection.librdkafka())
        producer = Producer({"linger.ms": 0} | load.settings | self.connection.librdkafka())
        acknowledged: list[float] = []
        arrived: list[float] = []
        try:
            consumer.assign([TopicPartition(self.topic, 0, OFFSET_END)])
            deadline = time.perf_counter() + self.connection.timeout_s
            while (first := consumer.poll(0.1)) is None or first.error() is None:  # the end: the position is known
                if time.perf_counter() > deadline:
                    raise CommandError("bench latency: the consumer got no response", UNREACHABLE)
            began = time.perf_counter()
            for number in range(load.count):
                due = began + number / load.rate
                while (left := due - time.perf_counter()) > 0:
                    producer.poll(min(left, 0.001))
                self._ping(producer, consumer, load.size, acknowledged, arrived)
                if time.perf_counter() - began > load.seconds:
                    break
        finally:
            consumer.close()
        return {
            "records": len(arrived),
            **_percentiles("ack_ms", acknowledged),
            **_percentiles("end_to_end_ms", arrived),
        }

    def _ping(
        self, producer: Producer, consumer: Consumer, size: int, acknowledged: list[float], arrived: list[float]
    ) -> None:
        sent = time.perf_counter()
        done: list[float] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                raise CommandError(f"bench latency: {error.str()}", status_of_code(error.code()))
            done.append(time.perf_counter())

        producer.produce(self.topic, os.urandom(size), partition=0, on_delivery=delivered)
        came = None
        deadline = sent + self.connection.timeout_s
        while not done or came is None:
            producer.poll(0)
            message = consumer.poll(0.0005)
            if message is not None and message.error() is None:
                came = time.perf_counter()
            if time.perf_counter() > deadline:
                raise CommandError("bench latency: a record did not arrive", UNREACHABLE)
        acknowledged.append((done[0] - sent) * 1000)
        arrived.append((came - sent) * 1000)


def _collect(failed: list[KafkaError]) -> Callable[[KafkaError | None, Message], None]:
    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error)

    return delivered


def _rates(count: int, size: float, seconds: float) -> dict[str, float]:
    seconds = max(seconds, 1e-9)
    return {
        "records": count,
        "seconds": round(seconds, 3),
        "records_per_s": round(count / seconds),
        "mb_per_s": round(count * size / seconds / 1e6, 2),
    }


def _percentiles(name: str, times: list[float]) -> dict[str, float]:
    ordered = sorted(times)

    def at(part: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(part * len(ordered)))], 3)

    return {f"{name}_p50": at(0.5), f"{name}_p99": at(0.99), f"{name}_max": at(1.0)}
