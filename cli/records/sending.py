"""Sends records with confluent-kafka, in transactions or without."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import length_hint
from typing import TYPE_CHECKING

from ..client.connection import Connection, request_producer_id
from ..client.errors import CommandError, status_of_code
from ..progress import Progress
from .inputs import Record

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message


#: Callbacks run, and a bar moves, once for so many records.
_POLL_EVERY = 500
_FULL_WAIT_S = 0.02
_SETTINGS = {
    # As Java's clients place keys.
    "partitioner": "murmur2_random",
    "linger.ms": 5,
    "enable.idempotence": True,
    "delivery.report.only.error": True,
    # More fall out of the processor's caches: records then cost a tenth more.
    "queue.buffering.max.messages": 50_000,
}


@dataclass(slots=True)
class Sent:
    records: int = 0
    bytes: int = 0
    transactions: int = 0
    seconds: float = 0.0


class Sender:
    """Raises CommandError with the first error of a delivery."""

    def __init__(
        self,
        connection: Connection,
        topic: str,
        settings: dict[str, str | bool],
        *,
        transactional_id: str | None = None,
        transaction_size: int | None = None,
    ) -> None:
        from confluent_kafka import Producer

        own = _SETTINGS | settings | connection.librdkafka()
        if transactional_id is not None:
            own["transactional.id"] = transactional_id
        own["on_delivery"] = self._delivered
        self._topic = topic
        self._timeout_s = connection.timeout_s
        self._producer = Producer(own)
        self._is_transactional = transactional_id is not None
        self._transaction_size = transaction_size
        self._failed: KafkaError | None = None
        self.sent = Sent()
        if self._is_transactional:
            self._producer.init_transactions(self._timeout_s)
        else:
            request_producer_id(self._producer, own, topic)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self._failed is None:
            self._failed = error

    def send(self, records: Iterable[Record], rate: float | None, total: int | None) -> Sent:
        """Sends all, `rate` of them a second at most. A transaction is aborted when anything fails, Ctrl-C included."""
        began = time.monotonic()
        if self._is_transactional:
            self._producer.begin_transaction()
        try:
            with Progress("records", total) as progress:
                for record in records:
                    self._produce(record)
                    self.sent.records += 1
                    self.sent.bytes += len(record.value or b"") + len(record.key or b"")
                    if rate is not None:
                        self._wait_until(began + self.sent.records / rate)
                    if self.sent.records % _POLL_EVERY == 0:
                        self._producer.poll(0)
                        self._raise_failed()
                        progress.advance(_POLL_EVERY)
                    if self._transaction_size and self.sent.records % self._transaction_size == 0:
                        self._commit()
                        self._producer.begin_transaction()
            self._end()
        except BaseException:
            if self._is_transactional:
                self._abort()
            else:
                self._producer.purge()
            raise
        self.sent.seconds = time.monotonic() - began
        return self.sent

    def send_values(
        self, batches: Iterable[Sequence[bytes]], key: bytes | None, partition: int | None, size: int | None
    ) -> Sent:
        """Sends values that have nothing of their own besides, a batch at a time. `size`: of all, with line breaks, for
        the bar.
        """
        began = time.monotonic()
        key_bytes = len(key or b"")
        try:
            with Progress("reading", size, is_bytes=True) as progress:
                for values in batches:
                    self._produce_values(values, key, partition)
                    taken = sum(map(len, values))
                    self.sent.records += len(values)
                    self.sent.bytes += taken + key_bytes * len(values)
                    progress.advance(taken + len(values))
            self._end()
        except BaseException:
            self._producer.purge()
            raise
        self.sent.seconds = time.monotonic() - began
        return self.sent

    def _produce_values(self, values: Sequence[bytes], key: bytes | None, partition: int | None) -> None:
        """Queues all of them in order. Raises CommandError for one that the client refuses.

        The calls are made by `map`, without a step of the interpreter for each. `produce_batch` of confluent-kafka 2.16
        costs a quarter more: it takes a dict for each.
        """
        from confluent_kafka import KafkaException

        fixed = (key,) if partition is None else (key, partition)
        while True:
            left = iter(values)
            try:
                deque(map(self._producer.produce, repeat(self._topic), left, *map(repeat, fixed)), maxlen=0)
                break
            except BufferError:  # the queue is full: the brokers are slower than the input
                # The iterator has given out the value that found no room.
                values = values[len(values) - length_hint(left) - 1 :]
                self._producer.poll(_FULL_WAIT_S)
                self._raise_failed()
            except KafkaException as refused:
                error = refused.args[0]
                raise CommandError(f"topic {self._topic}: {error.str()}", status_of_code(error.code())) from None
        self._producer.poll(0)
        self._raise_failed()

    def _produce(self, record: Record) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic, record.value, record.key, record.partition,
                    timestamp=record.timestamp_ms, headers=record.headers or None,
                )  # fmt: skip
                return
            except BufferError:  # the queue is full: the brokers are slower than the input
                self._producer.poll(0.1)
                self._raise_failed()

    def _wait_until(self, due: float) -> None:
        while (left := due - time.monotonic()) > 0:
            self._producer.poll(left)

    def _raise_failed(self) -> None:
        if self._failed is not None:
            code = self._failed.code()
            raise CommandError(f"topic {self._topic}: {self._failed.str()}", status_of_code(code))

    def _end(self) -> None:
        if self._is_transactional:
            self._commit()
            return
        left = self._producer.flush(self._timeout_s)
        self._raise_failed()
        if left:
            raise CommandError(
                f"{left} records were not acknowledged within {self._timeout_s:g} s; they may or may not be written", 4
            )

    def _commit(self) -> None:
        self._producer.flush(self._timeout_s)
        self._raise_failed()
        self._producer.commit_transaction(self._timeout_s)
        self.sent.transactions += 1

    def _abort(self) -> None:
        import contextlib

        with contextlib.suppress(Exception):
            self._producer.abort_transaction(self._timeout_s)
