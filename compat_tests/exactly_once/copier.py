"""Moves records from one topic to another, exactly once.

    python copier.py BOOTSTRAP SOURCE TARGET GROUP classic|consumer NAME SEED

librdkafka's consume-transform-produce loop: what was read, and how far, goes into one transaction of the transactional id
NAME. Some transactions are aborted on purpose, and what they held is read again. A partition's records go to the same
partition of the target. Whatever cannot be gone on from ends the program; whoever started it starts it again.
"""

from __future__ import annotations

import random
import sys
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

#: Of the transactions, those that are aborted although nothing is wrong.
ABORTED_SHARE = 0.2
MOST_RECORDS = 40
TIMEOUT_S = 10.0
CLIENT = {
    "log_level": 0,
    # When all brokers have been away, 2.16 forgets them and begins anew (KIP-899), but not its transactions: those wait for
    # the forgotten coordinator for ever, beyond their own time-outs. With `none` it keeps trying where the brokers were.
    "metadata.recovery.strategy": "none",
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 200,
}

#: With `consumer` (KIP-848) it is the broker that says how long a session is.
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
        # Acknowledged late is acknowledged still: only the transaction's own time ends it.
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
        """Back to what is committed: what was aborted is read again."""
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
    """librdkafka says of some failures that the same call may be made again."""
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
        Copier(*where, int(seed)).run()  # type: ignore[arg-type]
    except KafkaException as failure:
        sys.exit(f"{name}: {failure.args[0].name()}: {failure.args[0].str()}")


if __name__ == "__main__":
    main()
