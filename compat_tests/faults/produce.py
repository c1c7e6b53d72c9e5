"""A producer under faults: idempotent, acks=all, keyed. Notes the outcome of each record. On SIGTERM flushes and ends.

`python -m compat_tests.faults.produce BOOTSTRAP TOPIC NAME FILE`
"""

from __future__ import annotations

import itertools
import signal
import sys
import time
from pathlib import Path
from typing import Any, TextIO

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from compat_tests import access

from .history import Sent, value_of, write

#: The most records in flight: few, so that a fault meets many different states and the history stays readable.
MOST_WAITING = 200
KEYS = 16
FLUSH_S = 90
_POLL_S = 0.01


class Notes:
    """Counts the records in flight and writes down their outcomes."""

    def __init__(self, file: TextIO, name: str) -> None:
        self.file = file
        self.name = name
        self.waiting: set[int] = set()

    def sent(self, number: int) -> Any:
        self.waiting.add(number)

        def delivered(error: KafkaError | None, message: Message) -> None:
            self.waiting.discard(number)
            offset = message.offset()
            # A delivery that librdkafka concludes from an error has no offset.
            place = (-1, -1) if error is not None else (message.partition(), -1 if offset is None else max(-1, offset))
            write(self.file, Sent(self.name, number, *place, "" if error is None else error.name()))  # type: ignore[call-arg]

        return delivered

    def give_up(self) -> None:
        """Marks the records without a response: they may be in the log or not."""
        for number in sorted(self.waiting):
            write(self.file, Sent(self.name, number, -1, -1, "not heard of"))
        self.waiting.clear()


def main(bootstrap: str, topic: str, name: str, path: str) -> None:
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    with Path(path).open("a", buffering=1) as file:
        for life in itertools.count():
            if stopped:
                return
            produce(bootstrap, topic, Notes(file, f"{name}.{life}"), stopped)


def produce(bootstrap: str, topic: str, notes: Notes, stopped: list[int]) -> None:
    """Produces until it is stopped or the producer has a fatal error; the next producer has another name."""
    failed: list[KafkaError] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "message.timeout.ms": 300_000,
            "socket.timeout.ms": 5_000,
            "reconnect.backoff.max.ms": 1_000,
            "topic.metadata.refresh.interval.ms": 5_000,
            "linger.ms": 2,
            "error_cb": lambda error: failed.append(error) if error.fatal() else None,
            "log_level": 0,
            **access.librdkafka(),
        }
    )
    numbers = itertools.count()
    while not stopped and not failed:
        if len(notes.waiting) < MOST_WAITING:
            number = next(numbers)
            reported = notes.sent(number)
            try:
                value = value_of(notes.name, number)
                producer.produce(topic, value, key=f"k{number % KEYS}", on_delivery=reported)
            except (BufferError, KafkaException):
                notes.waiting.discard(number)
        poll(producer, _POLL_S / 10 if len(notes.waiting) < MOST_WAITING else _POLL_S, failed)
    deadline = time.monotonic() + FLUSH_S
    while not failed and notes.waiting and time.monotonic() < deadline:
        poll(producer, _POLL_S, failed)
    notes.give_up()


def poll(producer: Producer, timeout_s: float, failed: list[KafkaError]) -> None:
    """Serves callbacks. A fatal error ends the producer: a leader of Apache Kafka keeps only the last batch of a producer
    over a kill -9, and rejects an earlier one that is sent again.
    """
    try:
        producer.poll(timeout_s)
    except KafkaException as error:
        if not error.args[0].fatal():
            raise
        failed.append(error.args[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
