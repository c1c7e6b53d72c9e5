"""A member of a share group. It decides how to acknowledge each record, and writes down its deliveries and the responses.

    python member.py BOOTSTRAP TOPIC GROUP SEED

Prints a line of JSON for each step, with the time of a clock that all processes share:

    ["came", time]
    ["given", began, time, [[partition, offset, delivery count, value], ...]]   `began`: start of the poll
    ["says", time, [[partition, offset, delivery count, what], ...]]            acknowledgements, about to be sent
    ["told", time, partition, error or null]                                    the broker's response for a partition
    ["again", time, [[partition, offset, delivery count, value], ...]]          renewed records that the client still has
    ["failed", time, words]                                                     the client gave up; the outcome is unknown

SIGTERM closes the consumer and ends the process.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from collections.abc import Iterable

from confluent_kafka import AcknowledgeType, KafkaError, KafkaException, Message, ShareConsumer

#: Every such record is poison: members release it until it reaches the delivery limit.
POISON_EVERY = 40
#: From this delivery on, members accept a record that is not poison.
PATIENCE = 3
POLL_S = 0.2
#: Longest time for processing the records of a poll: faults hit members and brokers in it.
BUSY_S = 0.3
#: Longer than a leader election, shorter than a test waits.
COMMIT_S = 15.0

ACCEPT, RELEASE, REJECT = "accept", "release", "reject"
#: Only Apache's client supports it (KIP-1222).
RENEW = "renew"
TYPES = {
    ACCEPT: AcknowledgeType.ACCEPT,
    RELEASE: AcknowledgeType.RELEASE,
    REJECT: AcknowledgeType.REJECT,
}


def is_poison(value: int) -> bool:
    return value % POISON_EVERY == 0


def choose(rng: random.Random, value: int, count: int) -> str:
    if is_poison(value):
        return RELEASE
    if count >= PATIENCE:
        return ACCEPT
    return rng.choices((ACCEPT, RELEASE, REJECT), (80, 15, 5))[0]


def note(*words: object) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


class ShareMember:
    def __init__(self, bootstrap: str, topic: str, group: str, seed: int) -> None:
        self._rng = random.Random(seed)
        self._is_ending = False
        self._consumer = ShareConsumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "share.acknowledgement.mode": "explicit",
                "reconnect.backoff.max.ms": 300,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([topic])
        signal.signal(signal.SIGTERM, self._end)

    def _end(self, *_: object) -> None:
        self._is_ending = True

    def run(self) -> None:
        note("came", time.monotonic())
        while not self._is_ending:
            began = time.monotonic()
            try:
                messages = [one for one in self._consumer.poll(POLL_S) if one.error() is None]
            except KafkaException as failure:
                note("failed", time.monotonic(), str(failure))
                continue
            if messages:
                self._take(began, messages)
        self._consumer.close()

    def _take(self, began: float, messages: Iterable[Message]) -> None:
        records = [(m.partition(), m.offset(), m.delivery_count(), int(m.value())) for m in messages]
        note("given", began, time.monotonic(), records)
        time.sleep(self._rng.random() * BUSY_S)
        said = []
        for message, (partition, offset, count, value) in zip(messages, records, strict=True):
            what = choose(self._rng, value, count)
            self._consumer.acknowledge(message, TYPES[what])
            said.append((partition, offset, count, what))
        note("says", time.monotonic(), said)
        try:
            responses = self._consumer.commit_sync(COMMIT_S)
        except KafkaException as failure:
            note("failed", time.monotonic(), str(failure))
            return
        for place, error in responses.items():
            note("told", time.monotonic(), place.partition, None if error is None else _name(error))


def _name(failure: KafkaException) -> str:
    """Returns the name that Apache's client gives to an acknowledgement error."""
    is_ours = failure.args[0].code() != KafkaError.INVALID_RECORD_STATE
    return str(failure) if is_ours else "InvalidRecordStateException"


if __name__ == "__main__":
    bootstrap, topic, group, seed = sys.argv[1:]
    ShareMember(bootstrap, topic, group, int(seed)).run()
