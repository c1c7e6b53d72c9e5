"""A client that runs until it is killed: `client.py KIND produce|consume BOOTSTRAP TOPIC CLIENT_ID [BYTES_PER_SECOND]`.

Prints the bytes of values so far, several times a second. It runs at full speed, or at `BYTES_PER_SECOND`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

VALUE = b"x" * 10_000
_REPORT_S = 0.1
#: Records queued in librdkafka: few, because records count when they are delivered.
_MOST_QUEUED = 20
#: The same for kafka-python, which has no such setting.
_MOST_PENDING = 200


class Report:
    """Prints the sum several times a second, and sleeps to keep to the given rate."""

    def __init__(self, per_second: float | None) -> None:
        self._per_second = per_second
        self._began = time.monotonic()
        self._printed = 0.0
        self._sum = 0

    def add(self, size: int) -> None:
        self._sum += size
        self.print()
        if self._per_second is not None:
            ahead_s = self._sum / self._per_second - (time.monotonic() - self._began)
            if ahead_s > 0:
                time.sleep(ahead_s)

    def print(self) -> None:
        now = time.monotonic()
        if now - self._printed > _REPORT_S:
            self._printed = now
            print(self._sum, flush=True)


def librdkafka_produce(bootstrap: str, topic: str, client_id: str) -> Iterator[int]:
    from confluent_kafka import Producer

    done: list[int] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "client.id": client_id, "acks": "1", "linger.ms": 5, "batch.size": 100_000,
         "queue.buffering.max.messages": _MOST_QUEUED}
    )  # fmt: skip
    while True:
        try:
            producer.produce(topic, VALUE, on_delivery=lambda error, _: done.append(0 if error else len(VALUE)))
            producer.poll(0)
        except BufferError:
            producer.poll(0.05)
        yield sum(done)
        done.clear()


def librdkafka_consume(bootstrap: str, topic: str, client_id: str) -> Iterator[int]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "client.id": client_id, "group.id": client_id, "fetch.wait.max.ms": 100,
         "queued.max.messages.kbytes": 1024}
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    while True:
        yield sum(len(one.value() or b"") for one in consumer.consume(10, 0.1) if not one.error())


def kafka_python_produce(bootstrap: str, topic: str, client_id: str) -> Iterator[int]:
    from kafka import KafkaProducer

    producer: Any = KafkaProducer(
        bootstrap_servers=bootstrap, client_id=client_id, acks=1, batch_size=100_000, linger_ms=5,
        max_block_ms=600_000, request_timeout_ms=120_000, delivery_timeout_ms=600_000,
    )  # fmt: skip
    pending: list[Any] = []
    while True:
        if len(pending) < _MOST_PENDING:
            pending.append(producer.send(topic, VALUE))
        else:
            time.sleep(0.01)
        done = [one for one in pending if one.is_done]
        pending = [one for one in pending if not one.is_done]
        yield len(VALUE) * sum(1 for one in done if one.succeeded())


def kafka_python_consume(bootstrap: str, topic: str, client_id: str) -> Iterator[int]:
    from kafka import KafkaConsumer, TopicPartition

    consumer: Any = KafkaConsumer(
        bootstrap_servers=bootstrap, client_id=client_id, group_id=None, auto_offset_reset="earliest",
        fetch_max_wait_ms=100, request_timeout_ms=120_000,
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek(TopicPartition(topic, 0), 0)
    while True:
        found = consumer.poll(timeout_ms=100, max_records=100)
        yield sum(len(one.value) for records in found.values() for one in records)


CLIENTS = {
    ("librdkafka", "produce"): librdkafka_produce,
    ("librdkafka", "consume"): librdkafka_consume,
    ("kafka-python", "produce"): kafka_python_produce,
    ("kafka-python", "consume"): kafka_python_consume,
}


def main() -> None:
    kind, what, bootstrap, topic, client_id, *rate = sys.argv[1:]
    report = Report(float(rate[0]) if rate else None)
    for size in CLIENTS[kind, what](bootstrap, topic, client_id):
        report.add(size)


if __name__ == "__main__":
    main()
