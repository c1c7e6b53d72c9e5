"""Batches of records that are written to Kafka exactly once each, however often they are given: for Spark's foreachBatch.

Spark gives a batch again, under the same number, when it does not know that it was done. So the number is committed with
the batch, in one transaction: as the offset of a group of its own, which nobody consumes with. Whoever begins (a driver
after a crash) fences whoever was before, has its open transaction aborted, and finds the number of the next batch there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

#: For one call; a broker that is started again is back long before.
TIMEOUT_S = 60
#: When all brokers have been away, librdkafka 2.16 forgets them and begins anew (KIP-899), but not its transactions: they
#: wait for the forgotten one for ever. With `none` it keeps trying where the brokers were.
RECOVERY = {"metadata.recovery.strategy": "none"}

#: Key and value.
Entry = tuple[bytes | None, bytes]


class NumberedBatches:
    """A topic's only writer of this name."""

    def __init__(self, bootstrap: str, topic: str, name: str) -> None:
        self.topic = topic
        self._place = TopicPartition(topic, 0)
        common = {"bootstrap.servers": bootstrap, "log_level": 0, **RECOVERY}
        self._group = Consumer({**common, "group.id": name, "enable.auto.commit": False})
        self._settings = {**common, "transactional.id": name, "transaction.timeout.ms": 30_000, "linger.ms": 5}
        self._begin()

    def _begin(self) -> None:
        self._producer = Producer(self._settings)
        _retried(self._producer.init_transactions, TIMEOUT_S)
        # What an open transaction has of it is not told before that has ended.
        (reported,) = self._group.committed([self._place], timeout=TIMEOUT_S)
        #: The number of the batch that comes next.
        self.next = max(reported.offset, 0)

    def add(self, number: int, entries: Iterable[Entry]) -> bool:
        """Writes a batch, unless it is there; says whether it was not. Raises KafkaException when it cannot be known."""
        entries = list(entries)
        while number >= self.next:
            if self._transact(number, entries):
                self.next = number + 1
                return True
        return False

    def _transact(self, number: int, entries: list[Entry]) -> bool:
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
                # Only a new beginning can tell what became of it.
                self._begin()
                return False
        _retried(producer.abort_transaction, TIMEOUT_S)
        return False

    def write(self, entries: Iterable[Entry]) -> None:
        """Begins a transaction and sends; `abort` takes it back."""
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
    """A transaction's calls may be made again when librdkafka says so: they go on where they were."""
    while True:
        try:
            call(*arguments)
            return
        except KafkaException as failure:
            if not failure.args[0].retriable():
                raise
