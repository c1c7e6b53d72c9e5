"""Clients for transactions during which brokers die: `with TRANSACTORS[name]() as transactor`.

librdkafka adds partitions and groups before it writes to them. The Java client uses transaction version 2 (KIP-890): it
adds none, and each of its transactions has an epoch of its own.
"""

from __future__ import annotations

import subprocess
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from compat_tests.java.program import java_command

from .copier import CLIENT, retried

_TIMEOUT_S = 30.0
_SOURCE = Path(__file__).with_name("Transactor.java")


class Transaction(NamedTuple):
    """A record for each partition, and the group's offset of partition 0."""

    #: The transactional id, and the value of the records.
    name: str
    topic: str
    partitions: int
    group: str
    offset: int
    commits: bool


class Transactor(Protocol):
    #: Whether each transaction bumps the producer's epoch (KIP-890).
    bumps_epochs: bool

    def transact(self, bootstrap: str, one: Transaction) -> bool | None:
        """Returns whether the client's response was a commit; None without a response, when a new start has ended it."""


class Librdkafka(AbstractContextManager["Librdkafka"]):
    bumps_epochs = False

    def transact(self, bootstrap: str, one: Transaction) -> bool | None:
        producer = self._producer(bootstrap, one.name)
        try:
            self._join(producer, bootstrap, one)
            end = producer.commit_transaction if one.commits else producer.abort_transaction
            retried(lambda: end(_TIMEOUT_S))
            return one.commits
        except KafkaException as failure:
            if failure.args[0].txn_requires_abort():
                retried(lambda: producer.abort_transaction(_TIMEOUT_S))
                return False
        self._producer(bootstrap, one.name)
        return None

    @staticmethod
    def _producer(bootstrap: str, name: str) -> Producer:
        producer = Producer({**CLIENT, "bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 0})
        retried(lambda: producer.init_transactions(_TIMEOUT_S))
        return producer

    @staticmethod
    def _join(producer: Producer, bootstrap: str, one: Transaction) -> None:
        """Runs the transaction up to its end."""
        consumer = Consumer({**CLIENT, "bootstrap.servers": bootstrap, "group.id": one.group})
        producer.begin_transaction()
        for index in range(one.partitions):
            producer.produce(one.topic, one.name, partition=index)
        producer.flush(_TIMEOUT_S)
        moved = [TopicPartition(one.topic, 0, one.offset)]
        metadata = consumer.consumer_group_metadata()
        retried(lambda: producer.send_offsets_to_transaction(moved, metadata, _TIMEOUT_S))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class JavaClient(AbstractContextManager["JavaClient"]):
    """The JVM of all Java transactions (Transactor.java)."""

    bumps_epochs = True

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            java_command(_SOURCE), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def transact(self, bootstrap: str, one: Transaction) -> bool | None:
        asked, reported = self._process.stdin, self._process.stdout
        assert asked is not None and reported is not None
        end = "commit" if one.commits else "abort"
        words = (bootstrap, one.topic, one.partitions, one.group, one.offset, end, one.name)
        print(*words, sep="\t", file=asked, flush=True)
        response = reported.readline().strip()
        assert response in ("committed", "aborted", "unknown"), f"the Java client ended with {self._process.wait()}"
        return None if response == "unknown" else response == "committed"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._process:
            self._process.kill()


TRANSACTORS: dict[str, type[Librdkafka] | type[JavaClient]] = {"librdkafka": Librdkafka, "java": JavaClient}
