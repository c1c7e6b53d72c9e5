"""Fills a topic with numbers: in transactions, some of which are aborted, or without transactions."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaException, Producer

from compat_tests.exactly_once.copier import CLIENT
from compat_tests.group_faults.feeder import Feeder

#: Share of the transactions.
ABORTED = 0.25
MOST_RECORDS = 20
#: Timeout of a call, which is then repeated.
_CALL_S = 10.0
#: Longest time of retries while brokers are down.
_END_S = 120.0


class PlainFeeder(Feeder):
    """Produces each number once, without transactions."""

    aborted = 0
    unknown: frozenset[int] = frozenset()

    def __init__(self, bootstrap: str, topic: str, rate: int, partitions: int, seed: int) -> None:
        super().__init__(bootstrap, topic, rate, partitions)


class TransactionalFeeder:
    """Produces numbers from 0 on, each committed once. Aborted records have numbers below 0."""

    def __init__(self, bootstrap: str, topic: str, rate: int, partitions: int, seed: int) -> None:
        self.count = 0
        self.aborted = 0
        #: Numbers whose commit is uncertain: the producer failed fatally while it was in flight.
        self.unknown: set[int] = set()
        self._rng = random.Random(seed)
        self._topic, self._pause_s, self._partitions = topic, 1 / rate, partitions
        self._settings = {
            **CLIENT,
            "bootstrap.servers": bootstrap,
            "transactional.id": f"feeder-{topic}",
            "linger.ms": 5,
        }
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join(2 * _END_S)
        assert not self._thread.is_alive(), "the last transaction does not end"

    def _feed(self) -> None:
        producer = self._begun()
        while not self._ended.is_set():
            size = self._rng.randrange(1, MOST_RECORDS)
            if self._rng.random() < ABORTED:
                numbers = range(-1 - self.aborted, -1 - self.aborted - size, -1)
                is_well = self._transaction(producer, numbers, producer.abort_transaction)
                self.aborted += size
            else:
                numbers = range(self.count, self.count + size)
                is_well = self._transaction(producer, numbers, producer.commit_transaction)
                self.count += size
            if not is_well:
                producer = self._begun()
            self._ended.wait(size * self._pause_s)

    def _begun(self) -> Producer:
        producer = Producer(self._settings)
        _until_done(lambda: producer.init_transactions(_CALL_S))
        return producer

    def _transaction(self, producer: Producer, numbers: Sequence[int], end: Callable[[float], None]) -> bool:
        """Retries a transaction with the same numbers until its outcome is certain. Returns False after a fatal error."""
        try:
            while not self._ends_as_meant(producer, numbers, end):
                _until_done(lambda: producer.abort_transaction(_CALL_S))
        except KafkaException:
            self.unknown.update(numbers)
            return False
        return True

    def _ends_as_meant(self, producer: Producer, numbers: Sequence[int], end: Callable[[float], None]) -> bool:
        try:
            producer.begin_transaction()
            for number in numbers:
                producer.produce(self._topic, b"%d" % number, partition=number % self._partitions)
            _until_done(lambda: end(_CALL_S))
        except KafkaException as failure:
            if failure.args[0].txn_requires_abort():
                return False
            raise
        return True


AnyFeeder = PlainFeeder | TransactionalFeeder


def _until_done(call: Callable[[], object]) -> None:
    end = time.monotonic() + _END_S
    while True:
        try:
            call()
            return
        except KafkaException as failure:
            if not failure.args[0].retriable() or time.monotonic() > end:
                raise
