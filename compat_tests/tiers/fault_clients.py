"""A producer and a reader of a tiered topic during faults, and what they saw."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition

from . import tiered

Place = tuple[int, int]
#: 0.8 MB a second: a segment of a partition each second or so.
_RECORDS_PER_TURN, _TURN_S = 10, 0.05
#: The reader's pause: it must not take the time of the brokers.
_PAUSE_S = 1.0
_VALUE_BYTES = 4000
_FLUSH_S = 120
_RECONNECT = {"reconnect.backoff.max.ms": 500, "socket.timeout.ms": 10_000, "log_level": 0}


class Feeder(threading.Thread):
    """Produces until it is stopped, idempotent and with acks=all. `acknowledged`: the number of each record's value."""

    def __init__(self, bootstrap: str, partitions: int) -> None:
        super().__init__(daemon=True)
        self.acknowledged: dict[Place, int] = {}
        self.sent = 0
        self._partitions = partitions
        self._stopped = threading.Event()
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap, "enable.idempotence": True, "batch.size": 100_000, "linger.ms": 20,
            "message.timeout.ms": 300_000,
        }  # fmt: skip
        self._producer = Producer(settings | _RECONNECT)

    def run(self) -> None:
        while not self._stopped.wait(_TURN_S):
            for _ in range(_RECORDS_PER_TURN):
                number = self.sent
                with contextlib.suppress(BufferError):
                    self._producer.produce(
                        tiered.TOPIC, b"%09d" % number + bytes(_VALUE_BYTES), partition=number % self._partitions,
                        on_delivery=lambda error, message, number=number: self._delivered(error, message, number),
                    )  # fmt: skip
                    self.sent += 1
            self._producer.poll(0)

    def _delivered(self, error: object, message: Message, number: int) -> None:
        offset = message.offset()
        if error is None and offset is not None and offset >= 0:
            self.acknowledged[message.partition(), offset] = number

    def stop(self) -> None:
        self._stopped.set()
        self.join()
        self._producer.flush(_FLUSH_S)


class Reader(threading.Thread):
    """Reads all partitions from their starts, again and again. `wrong`: reads that do not agree with an earlier one."""

    def __init__(self, bootstrap: str, partitions: int) -> None:
        super().__init__(daemon=True)
        self.seen: dict[Place, int] = {}
        self.wrong: list[str] = []
        self.reads = 0
        self._address = bootstrap
        self._partitions = partitions
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(_PAUSE_S):
            with contextlib.suppress(KafkaException):
                self._read_once()

    def _read_once(self) -> None:
        consumer = _consumer(self._address, self._partitions)
        until = time.monotonic() + 5
        try:
            while time.monotonic() < until and not self._stopped.is_set():
                for message in consumer.consume(500, 0.2):
                    if message.error() is None:
                        self._note(message)
        finally:
            consumer.close()

    def _note(self, message: Message) -> None:
        self.reads += 1
        place, number = place_of(message), number_of(message)
        if self.seen.setdefault(place, number) != number:
            self.wrong.append(f"{place} was {self.seen[place]} and is {number}")

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def everything(bootstrap: str, partitions: int, ends: dict[int, int], deadline_s: float) -> dict[Place, int]:
    """Reads each partition from its start to its end offset."""
    found: dict[Place, int] = {}
    consumer = _consumer(bootstrap, partitions)
    left = {partition for partition, end in ends.items() if end}
    deadline = time.monotonic() + deadline_s
    try:
        while left and time.monotonic() < deadline:
            for message in consumer.consume(500, 0.5):
                if message.error() is None:
                    found[place_of(message)] = number_of(message)
                    if place_of(message)[1] >= ends[message.partition()] - 1:
                        left.discard(message.partition())
    finally:
        consumer.close()
    return found


def _consumer(bootstrap: str, partitions: int) -> Consumer:
    settings: dict[str, Any] = {
        "bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False,
        "auto.offset.reset": "earliest", "isolation.level": "read_uncommitted",
    }  # fmt: skip
    consumer = Consumer(settings | _RECONNECT)
    consumer.assign([TopicPartition(tiered.TOPIC, partition, OFFSET_BEGINNING) for partition in range(partitions)])
    return consumer


def place_of(message: Message) -> Place:
    return message.partition(), message.offset()


def number_of(message: Message) -> int:
    """Returns the number in a value; -1 for a value that no producer sent."""
    value = message.value() or b""
    return int(value[:9]) if len(value) == 9 + _VALUE_BYTES and not value[9:].strip(b"\0") else -1
