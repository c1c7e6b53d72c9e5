"""Fills a topic in transactions, some of which are aborted; or without any, as elsewhere."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaException, Producer

from compat_tests.exactly_once.copier import CLIENT
from compat_tests.group_faults.feeder import Feeder

#: Of all transactions.
ABORTED = 0.25
MOST_RECORDS = 20
#: Of a call; what has not come to its end by then is asked again.
_CALL_S = 10.0
#: Nobody waits longer for brokers that were killed.
_END_S = 120.0


class PlainFeeder(Feeder):
    """Each number is there, once."""

    aborted = 0
    unknown: frozenset[int] = frozenset()

    def __init__(self, bootstrap: str, topic: str, rate: int, partitions: int, seed: int) -> None:
        super().__init__(bootstrap, topic, rate, partitions)


class TransactionalFeeder:
    """Numbers from 0 on, each committed once; what is aborted has numbers below 0."""

    def __init__(self, bootstrap: str, topic: str, rate: int, partitions: int, seed: int) -> None:
        self.count = 0
        self.aborted = 0
        #: Nobody knows whether these are committed: their producer failed for good with that on its way.
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
        """Until its end is known, with the same numbers again where it failed. False: the producer is done for."""
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
