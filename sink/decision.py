"""The end of a batch: its number and transactions become the ledger, and then all of them are committed, or none.

Whoever commits takes the id of the ledger first, which fences all others that are about to, and reads the ledger after that.
So of two drivers that have the same batch one decides, and the other one finds its decision and aborts what it wrote itself.
A decision that was not carried out is carried out before anything else.
"""

from __future__ import annotations

import enum
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from ..admin.errors import NotSupported, RequestFailed
from ..admin.nodes import describe_cluster
from ..admin.places import Place
from ..admin.session import Admin
from ..admin.transactions import describe_transactions
from .ledger import MOST_SUPERSEDED, Attempt, Ledger, prefix_of
from .requests import NotOpen, commit_ledger, end, open_ids, read_ledger, take_id

log = logging.getLogger("odradek.sink")

#: Time-out of the transaction of the ledger itself.
_LEDGER_TIMEOUT_MS = 60_000
#: A batch is not decided when its transactions are so near to their time-out.
LEAST_LEFT_MS = 10_000
_OPEN = "Ongoing"
_THREADS = 8


class Verdict(enum.Enum):
    DECIDES, IS_REPEATED, IS_SUPERSEDED = range(3)


class NotCommitted(Exception):
    """A batch that was not decided: nothing of it is in the topics."""


class Torn(Exception):
    """A decided batch of which a transaction had been aborted by its time-out: a part of it is missing."""


def judged(ledger: Ledger, query: str, run: str, batch: int) -> Verdict:
    """The right of a run to decide a batch, by the ledger. Another query with the same ledger counts its batches anew."""
    if run in ledger.superseded:
        return Verdict.IS_SUPERSEDED
    if query == ledger.query and batch <= ledger.batch:
        return Verdict.IS_REPEATED
    return Verdict.DECIDES


def decided(
    ledger: Ledger, query: str, run: str, batch: int, attempts: Iterable[Attempt], others: Iterable[str]
) -> Ledger:
    """The ledger that decides a batch. `others`: runs that have open transactions."""
    late = [ledger.run, *others]
    superseded = dict.fromkeys(one for one in (*ledger.superseded, *late) if one and one != run)
    return Ledger(batch, query, run, False, tuple(sorted(attempts)), tuple(superseded)[-MOST_SUPERSEDED:])


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """The open transactions of the tasks of a batch."""

    number: int
    query: str
    run: str
    attempts: tuple[Attempt, ...]


class Decisions:
    """`name`: of the ledger; `place`: the partition for which it is committed. `skips_expired`: a torn batch is given up."""

    def __init__(self, admin: Admin, name: str, place: Place, *, skips_expired: bool = False) -> None:
        self._admin = admin
        self._name = name
        self._place = place
        self._skips_expired = skips_expired
        #: Called with the name of each step before it: tests end the process there.
        self.before: Callable[[str], None] = lambda step: None

    def read(self) -> Ledger:
        return read_ledger(self._admin, self._name, self._place)

    def finish(self) -> Ledger:
        """Carries out a decision that another process left. Raises Torn."""
        ledger = self.read()
        if ledger.is_ended:
            return ledger
        producer = self._take()
        return self._finished(self.read(), producer)

    def commit(self, batch: WrittenBatch) -> None:
        """Raises NotCommitted, Torn, and RequestFailed, after which the batch may be decided: the next start finds out."""
        self.before("take")
        producer = self._take()
        ledger = self._finished(self.read(), producer)
        verdict = judged(ledger, batch.query, batch.run, batch.number)
        if verdict is not Verdict.DECIDES:
            self._abort(batch)
            if verdict is Verdict.IS_SUPERSEDED:
                raise NotCommitted(
                    f"batch {batch.number} of the ledger {self._name!r}: another run of the query has taken over"
                )
            return
        try:
            self._check_open(batch)
        except NotCommitted:
            self._abort(batch)
            raise
        runs = {one.removeprefix(f"{self._name}.").split(".", 1)[0] for one in self._open_ids()}
        ledger = decided(ledger, batch.query, batch.run, batch.number, batch.attempts, runs)
        self.before("decide")
        commit_ledger(self._admin, self._name, self._place, producer, self._id, ledger)
        self._finished(ledger, producer)
        self.before("clear")
        self._clear(ledger)

    def give_up(self, batch: WrittenBatch) -> None:
        """Aborts what a batch has written, unless it was decided: Spark also aborts a batch whose commit has failed."""
        producer = self._take()
        ledger = self.read()
        if (ledger.query, ledger.run, ledger.batch) == (batch.query, batch.run, batch.number):
            self._finished(ledger, producer)
        else:
            self._abort(batch)

    def _abort(self, batch: WrittenBatch) -> None:
        self._end_all(batch.attempts, batch.run, commits=False)

    @property
    def _id(self) -> str:
        return f"{self._name}.ledger"

    def _take(self) -> tuple[int, int]:
        return take_id(self._admin, self._id, _LEDGER_TIMEOUT_MS)

    def _finished(self, ledger: Ledger, producer: tuple[int, int]) -> Ledger:
        """The ledger after all its transactions were committed, and that was written down."""
        if ledger.is_ended:
            return ledger
        self.before("end")
        lost = self._end_all(ledger.attempts, ledger.run, commits=True)
        if lost and not self._skips_expired:
            tasks = ", ".join(str(one.task) for one in lost)
            raise Torn(
                f"batch {ledger.batch} of the ledger {self._name!r} was decided, and the transactions of its tasks {tasks} "
                "had been aborted by their time-out: what they wrote is missing. Write it again, then start the query "
                "once with the option 'skipExpired' set to true"
            )
        ended = replace(ledger, is_ended=True)
        self.before("note")
        commit_ledger(self._admin, self._name, self._place, producer, self._id, ended)
        return ended

    def _end_all(self, attempts: Sequence[Attempt], run: str, *, commits: bool) -> list[Attempt]:
        """Returns those that were not open."""

        def is_ended(attempt: Attempt) -> bool:
            name = attempt.transactional_id(self._name, run)
            self.before("end one")
            try:
                end(self._admin, name, (attempt.producer_id, attempt.producer_epoch), commits=commits)
            except NotOpen:
                return False
            return True

        with ThreadPoolExecutor(min(_THREADS, len(attempts)) or 1) as threads:
            results = list(threads.map(is_ended, attempts))
        return [one for one, is_done in zip(attempts, results, strict=True) if not is_done]

    def _check_open(self, batch: WrittenBatch) -> None:
        """Raises NotCommitted if a transaction has timed out, or may before it is ended."""
        names = {one.transactional_id(self._name, batch.run): one for one in batch.attempts}
        try:
            states = describe_transactions(self._admin, names)
        except NotSupported:
            return  # before Apache Kafka 3.0
        except RequestFailed as error:
            raise NotCommitted(f"batch {batch.number}: {error}") from error
        now_ms = int(time.time() * 1000)
        for name, attempt in names.items():
            state = states[name]
            is_same = (state.producer_id, state.producer_epoch) == (attempt.producer_id, attempt.producer_epoch)
            left_ms = state.start_time_ms + state.timeout_ms - now_ms
            if state.state != _OPEN or not is_same or left_ms < min(LEAST_LEFT_MS, state.timeout_ms // 4):
                raise NotCommitted(
                    f"batch {batch.number} took longer than its transactions may: make batches smaller, or raise "
                    f"'kafka.transaction.timeout.ms' ({state.timeout_ms}) and the brokers' transaction.max.timeout.ms"
                )

    def _open_ids(self) -> list[str]:
        return [
            one
            for one in open_ids(self._admin, f"{self._name}.", describe_cluster(self._admin).running)
            if one != self._id
        ]

    def _clear(self, ledger: Ledger) -> None:
        """Aborts what attempts that do not count have left open: readers would wait for its time-out."""
        chosen = {one.transactional_id(self._name, ledger.run) for one in ledger.attempts}
        prefixes = tuple(prefix_of(self._name, run) for run in (ledger.run, *ledger.superseded))
        for name in self._open_ids():
            if name in chosen or not name.startswith(prefixes):
                continue
            try:
                take_id(self._admin, name, _LEDGER_TIMEOUT_MS)
            except RequestFailed as error:  # the batch is whole; the next one tries again
                log.warning("ledger %s: the transaction %s stays open: %s", self._name, name, error)
