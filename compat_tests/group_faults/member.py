"""A librdkafka member of a group. It notes (notes.py) what it owns, handles and commits.

    python -m compat_tests.group_faults.member BOOTSTRAP TOPIC GROUP consumer|cooperative-sticky|range

`consumer` is the new protocol (KIP-848); the others are assignors of the classic one. SIGTERM closes it and ends it.
"""

from __future__ import annotations

import signal
import sys
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from .ledger import SESSION_S
from .notes import COMMIT_EVERY_S, COMMITS, GIVES, HANDLED, HAS, LEFT, LOSES, POLL_S, REJECTED, note

CONSUMER = "consumer"


def _settings(protocol: str) -> dict[str, Any]:
    if protocol == CONSUMER:
        return {"group.protocol": CONSUMER}
    session = {"session.timeout.ms": int(SESSION_S * 1000), "heartbeat.interval.ms": 500}
    return {"partition.assignment.strategy": protocol, **session}


class Member:
    def __init__(self, bootstrap: str, topic: str, group: str, protocol: str) -> None:
        self._is_ending = False
        #: Owned partition to its next offset, once a record of it was handled.
        self._next: dict[int, int] = {}
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
                "reconnect.backoff.max.ms": 300,
                "log_level": 0,
                **_settings(protocol),
            }
        )
        signal.signal(signal.SIGTERM, self._end)
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)

    def _end(self, *_: object) -> None:
        self._is_ending = True

    def run(self) -> None:
        committed = time.monotonic()
        while not self._is_ending:
            message = self._consumer.poll(POLL_S)
            if time.monotonic() - committed > COMMIT_EVERY_S:
                # The first request of a resumed member: the broker rejects it if the partition has a new owner by then.
                self._commit(list(self._next))
                committed = time.monotonic()
            if message is not None and not self._goes_on(message):
                break
        self._consumer.close()
        note(LEFT, time.monotonic())

    def _goes_on(self, message: Message) -> bool:
        """Returns False after a fatal error. Other errors are of a broker that is down: the client reconnects by itself."""
        error = message.error()
        if error is not None and error.code() == KafkaError._FATAL:
            note(REJECTED, time.monotonic(), error.str())
            return False
        if error is None:
            note(HANDLED, time.monotonic(), int(message.value()))
            self._next[message.partition()] = message.offset() + 1
        return True

    def _commit(self, partitions: list[int]) -> None:
        offsets = [TopicPartition(self._topic, one, self._next[one]) for one in partitions if one in self._next]
        if not offsets:
            return
        began, error = time.monotonic(), None
        try:
            responses = self._consumer.commit(offsets=offsets, asynchronous=False)
            error = next((one.error.name() for one in responses if one.error is not None), None)
        except KafkaException as failure:
            error = failure.args[0].name()
        note(COMMITS, began, time.monotonic(), [one.partition for one in offsets], error)

    def _assigned(self, consumer: Consumer, parts: list[TopicPartition]) -> None:
        note(HAS, time.monotonic(), [part.partition for part in parts])

    def _revoked(self, consumer: Consumer, parts: list[TopicPartition]) -> None:
        gone = [part.partition for part in parts]
        self._commit(gone)
        self._ends(GIVES, gone)

    def _lost(self, consumer: Consumer, parts: list[TopicPartition]) -> None:
        self._ends(LOSES, [part.partition for part in parts])

    def _ends(self, how: str, gone: list[int]) -> None:
        for partition in gone:
            self._next.pop(partition, None)
        note(how, time.monotonic(), gone)


if __name__ == "__main__":
    Member(*sys.argv[1:]).run()
