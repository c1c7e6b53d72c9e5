"""Sends records with confluent-kafka, in transactions or without.

A sender that stops early, by an error or a signal, still waits for the acknowledgements of what it has sent. Its error has
the number of written records, and where a later run resumes.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from operator import length_hint
from typing import TYPE_CHECKING

from ...admin.connection import Connection
from ...client.error_kinds import ErrorKind, kind_of_code
from ...client.explained_errors import from_library, of_librdkafka
from ...client.user_errors import UserError
from ...client.wording import counted
from ..client.interruption import Interrupted, InterruptedCommand, Interruption
from ..client.producer_ids import request_producer_id
from ..messages import warn
from ..progress import Progress
from .input_record import Batch, Record
from .taken_lines import Line, TakenLines

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

#: Callbacks run, and a bar moves, once for so many records.
_POLL_EVERY = 500
_FULL_WAIT_S = 0.02
#: Limit of one call that waits for acknowledgements.
_FLUSH_S = 0.2
#: A wait after a signal is explained after this time.
_SILENT_S = 3.0
#: Limit of the time in which the reports of records that are given up come.
_PURGE_S = 5.0
#: librdkafka's code of a record that was given up before it was sent.
_PURGED_UNSENT = -152
_PURGED = (_PURGED_UNSENT, -151)
#: Broker's codes of records that may be written all the same: REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND.
_DOUBTFUL = (7, 20)
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
    """Raises UserError with the first error of a delivery. `lines`: notes what is taken and acknowledged."""

    def __init__(
        self,
        connection: Connection,
        topic: str,
        settings: dict[str, str | bool],
        lines: TakenLines,
        transactional_id: str | None = None,
        transaction_size: int | None = None,
    ) -> None:
        from confluent_kafka import Producer

        own = _SETTINGS | settings | connection.librdkafka()
        if transactional_id is not None:
            own["transactional.id"] = transactional_id
        own |= {"error_cb": self._note_error}
        self._topic = topic
        self._timeout_s = connection.timeout_s
        self._producer = Producer(own)
        self._is_transactional = transactional_id is not None
        self._transaction_size = transaction_size
        self._failed: KafkaError | None = None
        #: Why the library cannot log in: it tries again until its timeouts.
        self._rejected: UserError | None = None
        #: Records that were given up before they were sent.
        self._unsent = 0
        self._interruption = Interruption()
        self._is_whole = False
        self._is_timed_out = False
        self._is_committing = False
        self.lines = lines
        self.sent = Sent()
        if self._is_transactional:
            self._producer.init_transactions(self._timeout_s)
        else:
            request_producer_id(self._producer, own, topic)

    def _note_error(self, error: KafkaError) -> None:
        if kind_of_code(error.code()) == ErrorKind.DENIED:
            self._rejected = of_librdkafka(error)

    def note_failed(self, error: KafkaError, line: Line) -> None:
        """Notes a record that was not acknowledged. Called in a poll of the producer."""
        self.lines.fail(line, is_refused=error.code() > 0 and error.code() not in _DOUBTFUL)
        if error.code() == _PURGED_UNSENT:
            self._unsent += 1
        if error.code() not in _PURGED and self._failed is None:
            self._failed = error

    # ---- records

    def send(self, records: Iterable[Record], rate: float | None, total: int | None) -> Sent:
        """Sends all, `rate` of them a second at most. A transaction is aborted when anything fails, Ctrl-C included."""
        began = time.monotonic()
        with self._interruption, self._ended(), Progress("records", total) as progress:
            if self._is_transactional:
                self._producer.begin_transaction()
            for record in self._interruption.waited(records):
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
        self.sent.seconds = time.monotonic() - began
        return self.sent

    def send_values(self, batches: Iterable[Batch], key: bytes | None, partition: int | None, size: int | None) -> Sent:
        """Sends values that have nothing of their own besides, a batch at a time. `size`: of all, with line breaks, for
        the bar.
        """
        began = time.monotonic()
        key_bytes = len(key or b"")
        with self._interruption, self._ended(), Progress("reading", size, is_bytes=True) as progress:
            for batch in self._interruption.waited(batches):
                self._produce_values(batch, key, -1 if partition is None else partition)
                taken = sum(map(len, batch.values))
                self.sent.records += len(batch.values)
                self.sent.bytes += taken + key_bytes * len(batch.values)
                progress.advance(taken + len(batch.values))
        self.sent.seconds = time.monotonic() - began
        return self.sent

    def _produce_values(self, batch: Batch, key: bytes | None, partition: int) -> None:
        """Queues all of them in order. Raises UserError for one that the client refuses.

        The calls are made by `map`, without a step of the interpreter for each. `produce_batch` of confluent-kafka 2.16
        costs a quarter more: it takes a dict for each.
        """
        from confluent_kafka import KafkaException

        values, queued = batch.values, 0
        fixed = (key, partition, _BatchReports(self, batch))
        while True:
            left = iter(values)
            try:
                deque(map(self._producer.produce, repeat(self._topic), left, *map(repeat, fixed)), maxlen=0)
                self._take(batch, queued, len(values))
                break
            except BufferError:  # the queue is full: the brokers are slower than the input
                # The iterator has given out the value that found no room.
                taken = len(values) - length_hint(left) - 1
                self._take(batch, queued, taken)
                queued += taken
                values = values[taken:]
                self._wait_for_room()
            except KafkaException as refused:
                self._take(batch, queued, len(values) - length_hint(left) - 1)
                error = refused.args[0]
                raise UserError(f"topic {self._topic}: {error.str()}", kind_of_code(error.code())) from None
        self._producer.poll(0)
        self._raise_failed()

    def _take(self, batch: Batch, queued: int, count: int) -> None:
        if count:
            self.lines.take(Line(batch.source, batch.first + queued + count - 1), count)

    def _produce(self, record: Record) -> None:
        from confluent_kafka import KafkaException

        line = Line(record.source, record.line)

        def report(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.note_failed(error, line)

        while True:
            try:
                self._producer.produce(
                    self._topic, record.value, record.key, record.partition, report,
                    timestamp=record.timestamp_ms, headers=record.headers or None,
                )  # fmt: skip
                self.lines.take(line)
                return
            except BufferError:
                self._wait_for_room()
            except KafkaException as refused:
                error = refused.args[0]
                raise UserError(f"topic {self._topic}: {error.str()}", kind_of_code(error.code())) from None

    def _wait_for_room(self) -> None:
        """Waits while the queue is full. Raises UserError when nothing is acknowledged in time."""
        queued, deadline = len(self._producer), time.monotonic() + self._timeout_s
        while len(self._producer) >= queued:
            self._producer.poll(_FULL_WAIT_S)
            self._raise_failed()
            self._interruption.check()
            if time.monotonic() > deadline:
                raise UserError(
                    f"{self._topic}: nothing was acknowledged for {self._timeout_s:g} s", ErrorKind.UNREACHABLE
                )

    def _wait_until(self, due: float) -> None:
        while (left := due - time.monotonic()) > 0:
            self._producer.poll(min(left, _FLUSH_S))
            self._interruption.check()

    def _raise_failed(self) -> None:
        if self._rejected is not None:
            raise self._rejected
        if self._failed is not None:
            code = self._failed.code()
            raise UserError(f"topic {self._topic}: {self._failed.str()}", kind_of_code(code))

    # ---- the end

    @contextlib.contextmanager
    def _ended(self) -> Iterator[None]:
        """Waits for acknowledgements at the end, also after an error, which then tells what is written."""
        try:
            yield
            self._is_whole = True
            self._end()
        except (Exception, Interrupted) as error:
            self._give_up()
            known = self._explained(error)
            if known is None:
                if self.lines.is_begun:
                    warn(self.lines.words(is_whole=self._is_whole))
                raise
            raise known from None

    def _end(self) -> None:
        if self._is_transactional:
            self._commit()
            return
        left = self._flush()
        self._interruption.check()
        self._raise_failed()
        if left:
            self._is_timed_out = True
            words = f"{counted(left, 'record')} not acknowledged within {self._timeout_s:g} s"
            raise UserError(words, ErrorKind.UNREACHABLE)

    def _flush(self, *, is_explained: bool = True) -> int:
        """Waits until all records are acknowledged, while some are, or until a signal. Returns how many are not."""
        began = since = time.monotonic()
        before, signals = len(self._producer), self._interruption.count
        while left := self._producer.flush(min(_FLUSH_S, self._timeout_s)):
            now = time.monotonic()
            if left < before:
                before, since = left, now
            if now - since > self._timeout_s or self._rejected is not None or self._interruption.count > signals:
                break
            if not is_explained and now - began > _SILENT_S:
                is_explained = True
                warn(f"waits for the acknowledgement of {counted(left, 'record')}; Ctrl-C ends this")
        return left

    def _give_up(self) -> None:
        """Waits for what is sent, or aborts the transaction. Then no record is on its way any more."""
        if self._is_transactional:
            self._abort()
            return
        if not self._is_timed_out:
            self._flush(is_explained=False)
        self._producer.purge()
        self._producer.flush(_PURGE_S)

    def _explained(self, error: BaseException) -> UserError | None:
        """The error with what is written; None for one that is a bug."""
        if isinstance(error, Interrupted):
            known: UserError | None = InterruptedCommand(self._interruption)
        elif isinstance(error, UserError):
            known = error
        elif isinstance(error, OSError):
            known = UserError(error.strerror or str(error))
        else:
            known = from_library(error) if isinstance(error, Exception) else None
        if known is None or not self.lines.is_begun:
            return known
        unsent = "; none of them was sent" if 0 < self._unsent == self.lines.count else ""
        words = f"{known}{unsent}; {self.lines.words(is_whole=self._is_whole)}"
        if isinstance(known, InterruptedCommand):
            return InterruptedCommand(self._interruption, words)
        return UserError(words, known.kind)

    def _commit(self) -> None:
        self._flush()
        self._interruption.check()
        self._raise_failed()
        self._is_committing = True
        self._producer.commit_transaction(self._timeout_s)
        self._is_committing = False
        self.lines.commit()
        self.sent.transactions += 1

    def _abort(self) -> None:
        is_aborted = False
        with contextlib.suppress(Exception):
            self._producer.abort_transaction(self._timeout_s)
            is_aborted = True
        self.lines.is_commit_unknown = self._is_committing and not is_aborted
        self.lines.drop_uncommitted()


class _BatchReports:
    """Reports of the records of a batch: a record without an acknowledgement is one of the lines with its value."""

    def __init__(self, sender: Sender, batch: Batch) -> None:
        self._sender = sender
        self._batch = batch
        self._lines: dict[bytes, list[int]] = {}

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            return
        if not self._lines:
            self._lines = defaultdict(list)
            for line, value in enumerate(self._batch.values, self._batch.first):
                self._lines[value].append(line)
        line = self._lines[message.value() or b""].pop()
        self._sender.note_failed(error, Line(self._batch.source, line))
