"""librdkafka as a load program.

    python rdkafka_load.py produce|consume|tail|paced|join BOOTSTRAP TOPIC RECORDS SIZE [key=value ...]

Prints one line of JSON: records, seconds, and latencies in ms where the load has them.
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from typing import Any

from confluent_kafka import Consumer, Producer

#: Most records in flight before the program waits for deliveries.
QUEUE = 100_000
POLL_S = 30.0
#: By default a consumer with 100,000 records or 64 MB queued does not fetch for a second. A faster broker would then make it
#: wait longer, and the row would measure that second.
NO_PAUSE = {"fetch.queue.backoff.ms": "1"}


def produce(bootstrap: str, topic: str, records: int, size: int, settings: dict[str, str]) -> dict[str, Any]:
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": QUEUE, **settings})
    value = os.urandom(size // 2).hex().encode().ljust(size, b"x")
    producer.list_topics(topic, timeout=POLL_S)
    started = time.perf_counter()
    for _ in range(records):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
    left = producer.flush(600)
    assert not left, f"{left} records were not delivered"
    return {"records": records, "seconds": time.perf_counter() - started}


def consumer_of(bootstrap: str, start: str, settings: dict[str, str]) -> Consumer:
    group = {"group.id": f"bench-{uuid.uuid4()}", "enable.auto.commit": "false", "auto.offset.reset": start}
    return Consumer({"bootstrap.servers": bootstrap, **group, **settings})


def consume(bootstrap: str, topic: str, records: int, size: int, settings: dict[str, str]) -> dict[str, Any]:
    consumer = consumer_of(bootstrap, "earliest", NO_PAUSE | settings)
    consumer.subscribe([topic])
    received = len(first_batch(consumer))
    started, counted = time.perf_counter(), 0
    while received + counted < records:
        # The call waits for all records that it requests, so it requests no more than remain.
        batch = consumer.consume(min(10_000, records - received - counted), POLL_S)
        assert batch, f"nothing came for {POLL_S} s after {received + counted} records"
        counted += len(batch)
    seconds = time.perf_counter() - started
    consumer.close()
    return {"records": counted, "seconds": seconds}


def first_batch(consumer: Consumer) -> list[Any]:
    batch = consumer.consume(1, POLL_S)
    assert batch and not batch[0].error(), batch and batch[0].error()
    return list(batch)


def tail(bootstrap: str, topic: str, records: int, size: int, settings: dict[str, str]) -> dict[str, Any]:
    """Sends one record at a time, after the receipt of the previous one: end-to-end latency at the tail."""
    producer, consumer = at_the_tail(bootstrap, topic, settings)
    value = b"x" * size
    latencies = []
    started = time.perf_counter()
    for _ in range(records):
        sent = time.perf_counter()
        producer.produce(topic, value)
        producer.poll(0)
        first_batch(consumer)
        latencies.append((time.perf_counter() - sent) * 1000)
    seconds = time.perf_counter() - started
    consumer.close()
    return {"records": records, "seconds": seconds, "latency_ms": percentiles(latencies)}


def paced(bootstrap: str, topic: str, records: int, size: int, settings: dict[str, str]) -> dict[str, Any]:
    """Sends `rate` records a second, whatever is in flight: end-to-end latency from each record's due time."""
    apart_s = 1 / int(settings.pop("rate"))
    producer, consumer = at_the_tail(bootstrap, topic, settings)
    latencies: list[float] = []
    sent = 0
    started = time.perf_counter()
    while len(latencies) < records:
        now = time.perf_counter()
        while sent < records and started + sent * apart_s <= now:
            producer.produce(topic, b"%d" % sent + b" " * size)
            sent += 1
        producer.poll(0)
        due = started + sent * apart_s if sent < records else now + POLL_S
        message = consumer.poll(max(0.0, due - time.perf_counter()))
        if message is not None:
            number = int(message.value())
            latencies.append((time.perf_counter() - started - number * apart_s) * 1000)
        assert message is not None or sent < records, f"{records - len(latencies)} records did not come back"
    seconds = time.perf_counter() - started
    consumer.close()
    return {"records": records, "seconds": seconds, "latency_ms": percentiles(latencies)}


def percentiles(latencies: list[float]) -> dict[str, float]:
    ordered = sorted(latencies)
    return {"p50": ordered[len(ordered) // 2], "p99": ordered[len(ordered) * 99 // 100]}


def at_the_tail(bootstrap: str, topic: str, settings: dict[str, str]) -> tuple[Producer, Consumer]:
    """Returns a producer without linger, and a consumer at the end of the log."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **settings})
    # The first record creates the topic, so that the consumer is assigned its partitions.
    producer.produce(topic, b"warm-up")
    producer.flush(POLL_S)
    consumer = consumer_of(bootstrap, "latest", {"fetch.wait.max.ms": "500", "fetch.min.bytes": "1"})
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.05)
    caught_up(producer, consumer, topic)
    return producer, consumer


def caught_up(producer: Producer, consumer: Consumer, topic: str) -> None:
    """Sends records until one arrives, because the consumer resolves its position lazily; then takes the rest of them."""
    while True:
        producer.produce(topic, b"warm-up")
        producer.flush(POLL_S)
        if consumer.poll(0.2):
            break
    while consumer.poll(0.2):
        pass


def join(bootstrap: str, topic: str, records: int, size: int, settings: dict[str, str]) -> dict[str, Any]:
    """Measures from the start of a consumer in a new group to its first record, `records` times."""
    latencies = []
    for _ in range(records):
        started = time.perf_counter()
        consumer = consumer_of(bootstrap, "earliest", settings)
        consumer.subscribe([topic])
        first_batch(consumer)
        latencies.append((time.perf_counter() - started) * 1000)
        consumer.close()
    return {"records": records, "seconds": sum(latencies) / 1000, "latency_ms": percentiles(latencies)}


LOADS = {"produce": produce, "consume": consume, "tail": tail, "paced": paced, "join": join}


def main() -> None:
    what, bootstrap, topic, records, size, *rest = sys.argv[1:]
    settings = dict(text.split("=", 1) for text in rest)
    print(json.dumps(LOADS[what](bootstrap, topic, int(records), int(size), settings)))


if __name__ == "__main__":
    main()
