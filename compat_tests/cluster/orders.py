"""Orders in flight while brokers die: their senders, their readers, and the check of the log at the end.

Each order is `client-number`, and its key is one of a few customers. Each acknowledged order must be there exactly once. The
orders of one client for one customer must be in the order in which they were sent. Where a leader may be Apache Kafka, two
anomalies that librdkafka makes of its responses do not count (docs/development/faults.md): `Excused`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Set
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from kafka import KafkaProducer
from odradek.protocol.records.batch import iter_headers

from compat_tests import access
from compat_tests.faults.checker import sent_again
from compat_tests.faults.replicas import log_bytes

from .kafka_python_refresh import refresh_state

TOPIC = "order-events"
GROUP = "billing"
CUSTOMERS = 20
#: Pause between the orders of a client: some are always in flight.
PAUSE_S = 0.05
#: By default a client that reaches none of its brokers goes back to its bootstrap addresses (KIP-899): here that of
#: the killed broker, while the others have just come back and the client is not connected to them yet.
RECOVERY = {"metadata.recovery.strategy": "none"}
DELIVERY_MS = 90_000
READ_DEADLINE_S = 120

#: Partition to its (customer, order) pairs, in log order.
Found = dict[int, list[tuple[str, str]]]
#: (partition, offset).
Place = tuple[int, int]


class Writer(NamedTuple):
    """The origin of a record, from its batch in a replica's log."""

    producer_id: int
    producer_epoch: int
    base_sequence: int
    leader_epoch: int

    def __str__(self) -> str:
        return (
            f"producer {self.producer_id} epoch {self.producer_epoch}, a batch of sequence {self.base_sequence},"
            f" leader epoch {self.leader_epoch}"
        )


class Excused(NamedTuple):
    """Anomalies of librdkafka with a leader of Apache Kafka.

    `again`: places of copies that it sent again under a newer epoch of its producer id. `lost`: orders that it took for
    delivered since a later batch was, so that the acknowledgement has no offset.
    """

    again: Set[Place] = frozenset()
    lost: Set[str] = frozenset()

    @classmethod
    def of(cls, found: Found, senders: list[Sender], writers: dict[Place, Writer]) -> Excused:
        values = {(index, at): order for index, orders in found.items() for at, (_, order) in enumerate(orders)}
        again = sent_again(values, {place: (one.producer_id, one.producer_epoch) for place, one in writers.items()})
        return cls(again, set().union(*(sender.without_offset for sender in senders)) - set(values.values()))

    def __bool__(self) -> bool:
        return bool(self.again or self.lost)

    def __str__(self) -> str:
        return f"{len(self.again)} orders sent again in a newer epoch, {len(self.lost)} lost that have no offset"


class Sender(threading.Thread):
    """Sends orders until `end`; `acknowledged` and `failed` are the results."""

    def __init__(self, client: str, bootstrap: str) -> None:
        super().__init__(name=client, daemon=True)
        self.client, self.bootstrap = client, bootstrap
        self.sent = 0
        self.acknowledged: list[str] = []
        self.failed: list[str] = []
        #: Acknowledged orders for which the client names no offset.
        self.without_offset: set[str] = set()
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

    def state(self) -> str:
        """Describes the sender, for the message of a failure."""
        return f"{self.sent} sent, {len(self.acknowledged)} acknowledged; failed: {self.failed}"

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

        def reported(error: KafkaError | None, message: Message) -> None:
            order = message.value().decode()
            if error is not None:
                self.failed.append(f"{order}: {error.str()}")
                return
            self.acknowledged.append(order)
            if message.offset() is None or message.offset() < 0:
                self.without_offset.add(order)

        class SendNow(Send):
            def __call__(self, customer: str, order: str) -> None:
                producer.produce(TOPIC, key=customer, value=order, on_delivery=reported)
                producer.poll(0)

        yield SendNow()
        producer.flush(DELIVERY_MS / 1000)


class KafkaPythonSender(Sender):
    _producer: KafkaProducer | None = None

    @contextlib.contextmanager
    def producer(self) -> Iterator[Send]:  # type: ignore[override]
        self._producer = producer = KafkaProducer(
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

    def state(self) -> str:
        producer = self._producer
        return f"{super().state()}; {'no producer yet' if producer is None else refresh_state(producer)}"


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


def writers_of(log_dirs: list[Path], partitions: int) -> dict[Place, Writer]:
    """Returns the origin of each record, from one replica of each partition."""
    made: dict[Place, Writer] = {}
    for index in range(partitions):
        place = next(one / f"{TOPIC}-{index}" for one in log_dirs if (one / f"{TOPIC}-{index}").exists())
        for _, header in iter_headers(log_bytes(place)):
            writer = Writer(header.producer_id, header.producer_epoch, header.base_sequence, header.leader_epoch)
            made |= {(index, offset): writer for offset in range(header.base_offset, header.next_offset)}
    return made


def anomalies(
    found: Found, senders: list[Sender], writers: dict[Place, Writer] | None = None, excused: Excused | None = None
) -> list[str]:
    """Returns a sentence for each order that is lost, duplicated, never sent, or out of its customer's order.

    `writers` adds the origin of each record that a sentence names.
    """
    excused, writers = excused or Excused(), writers or {}
    places: dict[str, list[Place]] = defaultdict(list)
    for partition, orders in found.items():
        for offset, (_, order) in enumerate(orders):
            if (partition, offset) not in excused.again:
                places[order].append((partition, offset))
    reported = [
        f"{order} is there {len(at)} times{_origins(at, writers)}" for order, at in places.items() if len(at) > 1
    ]
    for sender in senders:
        lost = [order for order in sender.acknowledged if order not in places and order not in excused.lost]
        reported += [f"{order} was acknowledged and is lost" for order in lost]
        reported += [f"{order} failed" for order in sender.failed]
    last: dict[tuple[int, str, str], int] = {}
    for partition, orders in found.items():
        for offset, (customer, order) in enumerate(orders):
            if (partition, offset) in excused.again:
                continue
            client, _, number = order.rpartition("-")
            place = (partition, client, customer)
            if int(number) < last.get(place, -1):
                origin = _origins([(partition, offset)], writers)
                reported.append(f"{order} of {customer} stands behind {last[place]}{origin}")
            last[place] = int(number)
    return reported


def _origins(places: list[Place], writers: dict[Place, Writer]) -> str:
    return "".join(f"; at {index}/{offset}: {writers[index, offset]}" for index, offset in places if writers)
