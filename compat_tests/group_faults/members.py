"""Members of a group that note what they own and when, and what they were given to handle."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

PROTOCOLS: dict[str, dict[str, Any]] = {
    "consumer": {"group.protocol": "consumer"},
    "classic": {"partition.assignment.strategy": "cooperative-sticky", "session.timeout.ms": 30_000},
}
POLL_S = 0.05
#: A member that was given partitions with one answer may say just then what it had before, which is taken to be all that it
#: has (KIP-848): what it was given is for others, and it hears of that a round trip later. So long nobody is to blame.
JUST_GIVEN_S, SOON_S = 1.0, 0.25


@dataclass
class Tenure:
    """A time for which a member owned a partition; without an end, it owns it still.

    `was_lost`: it was told afterwards that it owned it no more, since the coordinator had fenced it or did not know it.
    """

    member: str
    partition: int
    begin: float
    end: float | None = None
    was_lost: bool = False

    def is_over(self, at: float) -> bool:
        if self.end is None or self.was_lost:
            return self.was_lost
        return self.end <= at or (at - self.begin <= JUST_GIVEN_S and self.end - at <= SOON_S)


@dataclass
class Ledger:
    """What all members did, in the order in which it happened."""

    tenures: list[Tenure] = field(default_factory=list)
    handled: set[int] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def owners(self) -> dict[int, list[str]]:
        with self.lock:
            owners: dict[int, list[str]] = {}
            for one in self.tenures:
                if one.end is None:
                    owners.setdefault(one.partition, []).append(one.member)
            return owners

    def conflicts(self) -> list[str]:
        """Pairs of members that owned a partition at the same time; of what is lost no protocol promises when it ended."""
        found = []
        by_partition: dict[int, list[Tenure]] = {}
        for one in sorted(self.tenures, key=lambda tenure: tenure.begin):
            for other in by_partition.setdefault(one.partition, []):
                if other.member != one.member and not other.is_over(one.begin):
                    found.append(f"{one.member} got {one.partition} while {other.member} owned it: {other} {one}")
            by_partition[one.partition].append(one)
        return found


class Member:
    """A consumer in a thread of its own. It commits what it has handled when it loses partitions, and now and then."""

    def __init__(self, bootstrap: str, topic: str, group: str, name: str, protocol: str, ledger: Ledger) -> None:
        self.name = name
        self.protocol = protocol
        self._ledger = ledger
        self._ended = threading.Event()
        #: Why the client has given up: it takes no further part.
        self.refused: KafkaError | None = None
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "client.id": name,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 300,
                "fetch.wait.max.ms": 50,
                "reconnect.backoff.max.ms": 300,
                "log_level": 0,
                **PROTOCOLS[protocol],
            }
        )
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Leaves the group."""
        self._ended.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), f"{self.name} cannot leave"

    def _run(self) -> None:
        while not self._ended.is_set():
            message = self._consumer.poll(POLL_S)
            if message is None:
                continue
            error = message.error()
            # Others are of a broker that is gone: the client comes back by itself.
            if error is not None and error.code() == KafkaError._FATAL:
                self.refused = error
            elif error is None:
                with self._ledger.lock:
                    self._ledger.handled.add(int(message.value()))
        self._consumer.close()

    def _assigned(self, consumer: Consumer, parts: list[TopicPartition]) -> None:
        now = time.monotonic()
        with self._ledger.lock:
            self._ledger.tenures += [Tenure(self.name, part.partition, now) for part in parts]

    def _revoked(self, consumer: Consumer, parts: list[TopicPartition]) -> None:
        self._end(parts, was_lost=False)

    def _lost(self, consumer: Consumer, parts: list[TopicPartition]) -> None:
        self._end(parts, was_lost=True)

    def _end(self, parts: list[TopicPartition], *, was_lost: bool) -> None:
        now = time.monotonic()
        gone = {part.partition for part in parts}
        with self._ledger.lock:
            for one in self._ledger.tenures:
                if one.member == self.name and one.end is None and one.partition in gone:
                    one.end, one.was_lost = now, was_lost
