"""Measurements of a cluster by confluent-kafka, in a topic that exists, for `odradek bench`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..admin.connection import Connection
from ..admin.rates import percentiles, throughput
from ..client.error_kinds import ErrorKind, kind_of_code
from ..client.groupless import GROUPLESS, of_partitions
from ..client.user_errors import UserError
from ..client.wording import counted

if TYPE_CHECKING:
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
            words = failed[0].str() if failed else f"{counted(left, 'record')} not acknowledged"
            raise UserError(
                f"bench produce: {words}", kind_of_code(failed[0].code()) if failed else ErrorKind.UNREACHABLE
            )
        return throughput(sent, load.size, seconds)

    def _produce(self, producer: Producer, value: bytes) -> None:
        while True:
            try:
                producer.produce(self.topic, value)
                return
            except BufferError:
                producer.poll(0.05)

    def consume(self, load: Load) -> dict[str, float]:
        """Records and bytes a second, from the first record on."""
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        consumer = self._consumer({"fetch.queue.backoff.ms": 5})
        try:
            described = consumer.list_topics(self.topic, timeout=self.connection.timeout_s).topics[self.topic]
            began = time.perf_counter()
            consumer.assign([TopicPartition(self.topic, one, OFFSET_BEGINNING) for one in described.partitions])
            read = size = ended = 0
            while (
                read < load.count and ended < len(described.partitions) and time.perf_counter() - began < load.seconds
            ):
                for message in of_partitions(consumer.consume(_BATCH, _WAIT_S)):
                    if message.error() is None:
                        read += 1
                        size += len(message.value() or b"")
                    else:
                        ended += 1
            seconds = time.perf_counter() - began
        finally:
            consumer.close()
        if not read:
            raise UserError(f"bench consume: {self.topic} has no records that can be read")
        return throughput(read, size / read, seconds)

    def _consumer(self, settings: dict[str, object]) -> Consumer:
        from confluent_kafka import Consumer

        return Consumer(GROUPLESS | {"enable.partition.eof": True} | settings | self.connection.librdkafka())

    def latency(self, load: Load) -> dict[str, float]:
        """Times in ms from sending to the acknowledgement, and to the arrival at a consumer, at `rate` records a second."""
        from confluent_kafka import OFFSET_END, Producer, TopicPartition

        consumer = self._consumer({"fetch.wait.max.ms": 500})
        producer = Producer({"linger.ms": 0} | load.settings | self.connection.librdkafka())
        acknowledged: list[float] = []
        arrived: list[float] = []
        try:
            consumer.assign([TopicPartition(self.topic, 0, OFFSET_END)])
            deadline = time.perf_counter() + self.connection.timeout_s
            # The end comes first: then the position is known.
            while not any(message.error() for message in of_partitions(consumer.consume(1, 0.1))):
                if time.perf_counter() > deadline:
                    raise UserError("bench latency: the consumer got no response", ErrorKind.UNREACHABLE)
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
            **percentiles("ack_ms", acknowledged),
            **percentiles("end_to_end_ms", arrived),
        }

    def _ping(
        self, producer: Producer, consumer: Consumer, size: int, acknowledged: list[float], arrived: list[float]
    ) -> None:
        sent = time.perf_counter()
        done: list[float] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                raise UserError(f"bench latency: {error.str()}", kind_of_code(error.code()))
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
                raise UserError("bench latency: a record did not arrive", ErrorKind.UNREACHABLE)
        acknowledged.append((done[0] - sent) * 1000)
        arrived.append((came - sent) * 1000)


def _collect(failed: list[KafkaError]) -> Callable[[KafkaError | None, Message], None]:
    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error)

    return delivered
