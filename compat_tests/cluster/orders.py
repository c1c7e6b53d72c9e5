"""Orders in flight while brokers die: their senders, their readers, and the check of the log at the end.

Each order is `client-number`, and its key is one of a few customers. Each acknowledged order must be there exactly once. The
orders of one client for one customer must be in the order in which they were sent.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from kafka import KafkaProducer

from compat_tests import access

TOPIC = "order-events"
GROUP = "billing"
CUSTOMERS = 20
#: Pause between the orders of a client: some are always in flight.
PAUSE_S = 0.02
#: By default a client that reaches none of its brokers goes back to its bootstrap addresses (KIP-899): here that of
#: the killed broker, while the others have just come back and the client is not connected to them yet.
RECOVERY = {"metadata.recovery.strategy": "none"}
DELIVERY_MS = 90_000
READ_DEADLINE_S = 120

#: Partition to its (customer, order) pairs, in log order.
Found = dict[int, list[tuple[str, str]]]


class Sender(threading.Thread):
    """Sends orders until `end`; `acknowledged` and `failed` are the results."""

    def __init__(self, client: str, bootstrap: str) -> None:
        super().__init__(name=client, daemon=True)
        self.client, self.bootstrap = client, bootstrap
        self.sent = 0
        self.acknowledged: list[str] = []
        self.failed: list[str] = []
        self._is_over = threading.Event()

    def run(self) -> None:
        try:
            self.send_all()
        except Exception as error:
            self.failed.append(f"{type(error).__name__}: {error}")

    def send_all(self) -> None:
        with self.producer() as send:
            while not self.is_over:
                order = f"{self.client}-{self.sent}"
                send(f"customer-{self.sent % CUSTOMERS}", order)
                self.sent += 1
                time.sleep(PAUSE_S)

    @property
    def is_over(self) -> bool:
        return self._is_over.is_set()

    def producer(self) -> contextlib.AbstractContextManager[Send]:
        raise NotImplementedError

    def end(self) -> None:
        """Stops the sending, and waits for the result of every order in flight."""
        self._is_over.set()
        self.join(DELIVERY_MS / 1000 + 30)
        assert not self.is_alive(), f"{self.client} does not end"


class Send:
    def __call__(self, customer: str, order: str) -> None:
        raise NotImplementedError


class LibrdkafkaSender(Sender):
    @contextlib.contextmanager
    def producer(self) -> Iterator[Send]:  # type: ignore[override]
        settings = {"enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": DELIVERY_MS, **RECOVERY}
        producer = Producer({"bootstrap.servers": self.bootstrap, **settings, **access.librdkafka()})

        def reported(error: KafkaError | None, message: object) -> None:
            order = message.value().decode()  # type: ignore[attr-defined]
            (self.acknowledged if error is None else self.failed).append(order)

        class SendNow(Send):
            def __call__(self, customer: str, order: str) -> None:
                producer.produce(TOPIC, key=customer, value=order, on_delivery=reported)
                producer.poll(0)

        yield SendNow()
        producer.flush(DELIVERY_MS / 1000)


class KafkaPythonSender(Sender):
    @contextlib.contextmanager
    def producer(self) -> Iterator[Send]:  # type: ignore[override]
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap.split(","),
            enable_idempotence=True,
            linger_ms=5,
            delivery_timeout_ms=DELIVERY_MS,
            max_block_ms=DELIVERY_MS,
            **access.kafka_python(),
        )
        acknowledged, failed = self.acknowledged, self.failed

        class SendNow(Send):
            def __call__(self, customer: str, order: str) -> None:
                sent = producer.send(TOPIC, key=customer.encode(), value=order.encode())
                sent.add_callback(lambda _: acknowledged.append(order))
                sent.add_errback(lambda error: failed.append(f"{order}: {error}"))

        yield SendNow()
        producer.flush(DELIVERY_MS / 1000)
        producer.close()


def read_all(bootstrap: str, at_least: int) -> Found:
    """Returns all records, from the first one to the end; fails when there are fewer."""
    found: Found = defaultdict(list)
    settings = {"group.id": "reader", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings, **access.librdkafka()})
    try:
        partitions = consumer.list_topics(TOPIC, 30).topics[TOPIC].partitions
        ends = {
            index: consumer.get_watermark_offsets(TopicPartition(TOPIC, index), 30, cached=False)[1]
            for index in partitions
        }
        consumer.assign([TopicPartition(TOPIC, index, 0) for index in partitions])
        deadline = time.monotonic() + READ_DEADLINE_S
        left = sum(ends.values())
        assert left >= at_least, f"{left} records, where {at_least} were acknowledged"
        while left > 0:
            assert time.monotonic() < deadline, f"{left} records of {ends} cannot be read"
            for message in consumer.consume(1000, 1.0):
                assert message.error() is None, message.error()
                found[message.partition()].append((message.key().decode(), message.value().decode()))
                left -= 1
    finally:
        consumer.close()
    return found


def anomalies(found: Found, senders: list[Sender]) -> list[str]:
    """Returns a sentence for each order that is lost, duplicated, never sent, or out of its customer's order."""
    counts = Counter(order for orders in found.values() for _, order in orders)
    reported = [f"{order} is there {count} times" for order, count in counts.items() if count > 1]
    for sender in senders:
        reported += [f"{order} was acknowledged and is lost" for order in sender.acknowledged if order not in counts]
        reported += [f"{order} failed" for order in sender.failed]
    last: dict[tuple[int, str, str], int] = {}
    for partition, orders in found.items():
        for customer, order in orders:
            client, _, number = order.rpartition("-")
            place = (partition, client, customer)
            if int(number) < last.get(place, -1):
                reported.append(f"{order} of {customer} stands behind {last[place]}")
            last[place] = int(number)
    return reported
