"""Batches of records that are written to Kafka exactly once each, even when Spark's foreachBatch repeats them.

Spark repeats a batch, under the same number, when it cannot tell that the batch is done. So one transaction commits the
batch and its number: as the offset of a group that has no consumers. A new writer (a driver after a crash) fences the
previous writer, which aborts its open transaction, and reads the number of the next batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

#: Timeout of one call; a restarted broker is back long before.
TIMEOUT_S = 60
#: By default librdkafka 2.16 forgets its brokers when all have been away, and bootstraps anew (KIP-899). Its transactions
#: then wait for the forgotten broker forever. With `none` it retries the same brokers.
RECOVERY = {"metadata.recovery.strategy": "none"}

#: Key and value.
Entry = tuple[bytes | None, bytes]


class NumberedBatches:
    """A topic's only writer with this name."""

    def __init__(self, bootstrap: str, topic: str, name: str) -> None:
        self.topic = topic
        self._made_of = (bootstrap, topic, name)
        self._place = TopicPartition(topic, 0)
        common = {"bootstrap.servers": bootstrap, "log_level": 0, **RECOVERY}
        self._group = Consumer({**common, "group.id": name, "enable.auto.commit": False})
        self._settings = {**common, "transactional.id": name, "transaction.timeout.ms": 30_000, "linger.ms": 5}
        self._begin()

    def __reduce__(self) -> tuple[type[NumberedBatches], tuple[str, str, str]]:
        """The writer of another process, as with Spark Connect: Kafka fences this one."""
        return NumberedBatches, self._made_of

    def _begin(self) -> None:
        self._producer = Producer(self._settings)
        _retried(self._producer.init_transactions, TIMEOUT_S)
        # The committed offset of an open transaction is readable only after the end of the transaction.
        (reported,) = self._group.committed([self._place], timeout=TIMEOUT_S)
        #: The number of the next batch.
        self.next = max(reported.offset, 0)

    def add(self, number: int, entries: Iterable[Entry]) -> bool:
        """Writes a batch unless it is there. Returns whether it wrote. Raises KafkaException if that stays unknown.

        `entries` are iterated again for each attempt: a list, or an object that makes a new iterator each time.
        """
        while number >= self.next:
            if self._transact(number, entries):
                self.next = number + 1
                return True
        return False

    def _transact(self, number: int, entries: Iterable[Entry]) -> bool:
        """Returns whether the transaction was committed; otherwise it has no effect."""
        producer = self._producer
        try:
            self.write(entries)
            moved = [TopicPartition(self.topic, 0, number + 1)]
            metadata = self._group.consumer_group_metadata()
            _retried(producer.send_offsets_to_transaction, moved, metadata, TIMEOUT_S)
            _retried(producer.commit_transaction, TIMEOUT_S)
            return True
        except KafkaException as failure:
            if not _is_abortable(failure):
                # Only a new producer can find out the outcome.
                self._begin()
                return False
        _retried(producer.abort_transaction, TIMEOUT_S)
        return False

    def write(self, entries: Iterable[Entry]) -> None:
        """Begins a transaction and sends the entries; `abort` aborts it."""
        self._producer.begin_transaction()
        for key, value in entries:
            self._producer.produce(self.topic, key=key, value=value)
            self._producer.poll(0)

    def abort(self) -> None:
        self._producer.flush(TIMEOUT_S)
        _retried(self._producer.abort_transaction, TIMEOUT_S)


def _is_abortable(failure: KafkaException) -> bool:
    error: KafkaError = failure.args[0]
    return error.txn_requires_abort()


def _retried(call: Any, *arguments: Any) -> None:
    """Repeats a call of a transaction while librdkafka's error is retriable: the call then continues."""
    while True:
        try:
            call(*arguments)
            return
        except KafkaException as failure:
            if not failure.args[0].retriable():
                raise
