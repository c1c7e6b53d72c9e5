"""Moves records from one topic to another, exactly once.

    python copier.py BOOTSTRAP SOURCE TARGET GROUP classic|consumer NAME SEED

librdkafka's consume-transform-produce loop: one transaction of the transactional id NAME has the records and the consumed
offsets. The copier aborts some transactions on purpose, and reads their records again. A partition's records go to the
same partition of the target. A failure that it cannot recover from ends the program; its parent starts it again.
"""

from __future__ import annotations

import json
import os
import random
import sys
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

#: The share of transactions that are aborted on purpose.
ABORTED_SHARE = 0.2
MOST_RECORDS = 40
TIMEOUT_S = 10.0
#: The variable with further settings of both clients, as JSON.
SETTINGS_VARIABLE = "ODRADEK_TEST_COPIER_SETTINGS"
CLIENT = {
    **json.loads(os.environ.get(SETTINGS_VARIABLE, "{}")),
    "log_level": 0,
    # When no broker is reachable, librdkafka 2.16 bootstraps anew (KIP-899), but its transactions do not: they wait for the
    # old coordinator for ever, beyond their timeouts. With `none` it keeps trying the brokers' old addresses.
    "metadata.recovery.strategy": "none",
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 200,
}

#: With `consumer` (KIP-848) the broker sets the session timeout.
PROTOCOLS = {
    "classic": {"session.timeout.ms": 3_000, "heartbeat.interval.ms": 300},
    "consumer": {"group.protocol": "consumer"},
}


class Copier:
    def __init__(
        self, bootstrap: str, source: str, target: str, group: str, protocol: str, name: str, seed: int
    ) -> None:
        self.target = target
        self.rng = random.Random(seed)
        self.consumer = Consumer(
            {
                **CLIENT,
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **PROTOCOLS[protocol],
                "fetch.wait.max.ms": 50,
            }
        )
        # A late acknowledgement still counts: only the transaction's timeout ends it.
        self.producer = Producer(
            {
                **CLIENT,
                "bootstrap.servers": bootstrap,
                "transactional.id": name,
                "transaction.timeout.ms": 8_000,
                "linger.ms": 1,
            }
        )
        self.producer.init_transactions(TIMEOUT_S)
        self.consumer.subscribe([source])

    def run(self) -> None:
        while True:
            messages = self.consumer.consume(self.rng.randint(1, MOST_RECORDS), 0.2)
            read = [message for message in messages if not _skipped(message)]
            if read:
                self.copy(read)

    def copy(self, messages: list[Message]) -> None:
        """Runs one transaction. Raises the KafkaException that ends it."""
        try:
            self.producer.begin_transaction()
            self._write(messages)
            if self.rng.random() >= ABORTED_SHARE:
                retried(lambda: self.producer.commit_transaction(TIMEOUT_S))
                return
            self.producer.flush(TIMEOUT_S)
        except KafkaException as failure:
            if not failure.args[0].txn_requires_abort():
                raise
        retried(lambda: self.producer.abort_transaction(TIMEOUT_S))
        self._rewind()

    def _write(self, messages: list[Message]) -> None:
        positions: dict[tuple[str, int], int] = {}
        for message in messages:
            self.producer.produce(self.target, message.value(), partition=message.partition())
            positions[message.topic(), message.partition()] = message.offset() + 1
        moved = [TopicPartition(topic, index, offset) for (topic, index), offset in positions.items()]
        metadata = self.consumer.consumer_group_metadata()
        retried(lambda: self.producer.send_offsets_to_transaction(moved, metadata, TIMEOUT_S))

    def _rewind(self) -> None:
        """Seeks to the committed offsets, so that aborted records are read again."""
        assigned = self.consumer.assignment()
        for place in self.consumer.committed(assigned, timeout=TIMEOUT_S):
            place.offset = max(place.offset, 0)
            self.consumer.seek(place)


def _skipped(message: Message) -> bool:
    error = message.error()
    if error is None:
        return False
    if error.fatal():
        raise KafkaException(error)
    return True


def retried(step: Any) -> None:
    """Makes a call again as long as librdkafka marks its failure as retriable."""
    while True:
        try:
            step()
            return
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            if not error.retriable():
                raise


def main() -> None:
    *where, seed = sys.argv[1:]
    name = where[-1]
    try:
        Copier(*where, int(seed)).run()  # type: ignore[arg-type, call-arg]
    except KafkaException as failure:
        sys.exit(f"{name}: {failure.args[0].name()}: {failure.args[0].str()}")


if __name__ == "__main__":
    main()
