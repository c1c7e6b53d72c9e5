"""Fills the topic `order-events` with a shop's orders: keyed by customer, three partitions, JSON values.

    python spark_examples/generate_orders.py --events 1000000
    python spark_examples/generate_orders.py --rate 5000            # at a pace, for a stream to follow

It includes what a consumer must handle: orders that arrive minutes after their placement, and orders that are sent twice
(orders.py has the shares). The timestamp of a record is the arrival of the order; the value has the time of its placement.
The same --seed and --events always give the same records.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated

import typer
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from orders import OrderEvent, order_events
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from topics import ensure_topic

TOPIC, PARTITIONS = "order-events", 3
#: The records carry the shop's clock, which is in the past: retention by time would delete them at once.
TOPIC_CONFIG = {"retention.ms": "-1"}
#: Span of the shop's clock between two flushes. No partition is ever further ahead of the others than this: a reader's
#: watermark must allow for it, as for late orders.
FLUSH_EVERY_MS = 300_000


def main(
    bootstrap: Annotated[str, typer.Option(help="Where the brokers are.")] = "127.0.0.1:9092",
    topic: Annotated[str, typer.Option(help="Made with three partitions if it is not there.")] = TOPIC,
    events: Annotated[int, typer.Option(help="How many events the topic is to hold of this seed.", min=1)] = 1_000_000,
    skip: Annotated[int, typer.Option(help="The first of these are there already: go on after them.", min=0)] = 0,
    seed: Annotated[int, typer.Option(help="Says what the events are.")] = 7,
    rate: Annotated[int, typer.Option(help="Events a second; 0 is as fast as it goes.", min=0)] = 0,
    compression: Annotated[str, typer.Option(help="none, gzip, snappy, lz4 or zstd.")] = "lz4",
) -> None:
    """Produce a shop's orders, some of them late and some of them twice."""
    ensure_topic(bootstrap, topic, PARTITIONS, TOPIC_CONFIG)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,  # a broken connection repeats nothing
            "partitioner": "murmur2_random",  # a key goes to the same partition as with the Java clients, and so Spark
            "compression.type": compression,
            "linger.ms": 5,
            "queue.buffering.max.messages": 500_000,
            "delivery.report.only.error": True,
            "on_delivery": _fail,
        }
    )
    with _progress() as progress:
        bar = progress.add_task(topic, total=events, completed=skip)
        for done in produce(producer, topic, islice(order_events(seed), skip, events), rate):
            progress.update(bar, completed=skip + done)


def produce(producer: Producer, topic: str, events: Iterable[OrderEvent], rate: int) -> Iterator[int]:
    """Sends the events. Yields the number of acknowledged events from time to time."""
    started, done, flush_at = 0.0, 0, 0
    for event in events:
        started = started or time.monotonic()  # skipped events are made as well: the first one may be long in coming
        if event.arrived_ms >= flush_at:
            producer.flush()
            flush_at = event.arrived_ms + FLUSH_EVERY_MS
            yield done
            time.sleep(max(0.0, started + done / rate - time.monotonic()) if rate else 0)
        _send(producer, topic, event)
        done += 1
    producer.flush()
    yield done


def _send(producer: Producer, topic: str, event: OrderEvent) -> None:
    producer.produce(
        topic,
        key=event.order.customer_id,
        value=event.order.to_json(),
        timestamp=event.arrived_ms,
        headers=[("schema", b"order/1"), ("attempt", b"%d" % event.attempt)],
    )


def _fail(error: KafkaError, _: Message) -> None:
    raise KafkaException(error)


def _progress() -> Progress:
    columns = TextColumn("{task.description}"), BarColumn(None), MofNCompleteColumn()
    times = TextColumn("in"), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()
    return Progress(*columns, *times, console=Console(stderr=True))


if __name__ == "__main__":
    typer.run(main)
