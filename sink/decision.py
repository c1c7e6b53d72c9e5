"""The end of a batch: its number and transactions become the ledger, and then all of them are committed, or none.

Whoever commits takes the id of the ledger first, which fences all others that are about to, and reads the ledger after that.
So of two drivers that have the same batch one decides, and the other one finds its decision and aborts what it wrote itself.
A decision that was not carried out is carried out before anything else.
"""

from __future__ import annotations

import contextlib
import enum
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from ..admin.errors import RequestFailed
from ..admin.places import Place
from ..admin.session import Admin
from .ledger import MOST_SUPERSEDED, Attempt, Ledger, ledger_id
from .open_transactions import NotCommitted, OpenTransactions, abort_late, abort_open
from .requests import PATIENCE_S, end, is_unstable, open_attempts, read_ledger, take_id, write_ledger

log = logging.getLogger("odradek.sink")

#: Time-out of the transaction of the ledger itself.
LEDGER_TIMEOUT_MS = 60_000
#: A driver that decides takes less from the writing of a ledger to the end of its transaction.
UNSTABLE_S = 5.0


class Verdict(enum.Enum):
    DECIDES, IS_REPEATED, IS_SUPERSEDED, IS_OUTDATED = range(4)


class Torn(Exception):
    """A decided batch of which a transaction had been aborted by its time-out: a part of it is missing."""


def judged(ledger: Ledger, query: str, run: str, batch: int) -> Verdict:
    """The right of a run to decide a batch, by the ledger. Another query with the same ledger counts its batches anew.

    Spark plans a batch once, and runs the last one that it has planned again. One before that of the ledger is by an older
    checkpoint, and may have other rows than the batch of its number that is in the topics.
    """
    if run in ledger.superseded:
        return Verdict.IS_SUPERSEDED
    if query != ledger.query or batch > ledger.batch:
        return Verdict.DECIDES
    return Verdict.IS_REPEATED if batch == ledger.batch else Verdict.IS_OUTDATED


def is_to_write(name: str, ledger: Ledger, query: str, run: str, batch: int) -> bool:
    """Returns False for a batch that is in the topics. Raises NotCommitted where the run may not decide it."""
    match judged(ledger, query, run, batch):
        case Verdict.IS_SUPERSEDED:
            raise NotCommitted(f"batch {batch} of the ledger {name!r}: another run of the query has taken over")
        case Verdict.IS_OUTDATED:
            raise NotCommitted(
                f"batch {batch} of the ledger {name!r}: batch {ledger.batch} of the same query is in the topics, so the "
                "checkpoint is an older one. Restore the newer checkpoint, or start the query with another 'ledger', which "
                "writes all rows after this checkpoint again"
            )
        case verdict:
            return verdict is Verdict.DECIDES


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

    def open_attempts(self) -> dict[str, str]:
        """Transactional ids of attempts whose transactions are open, with the runs of the attempts."""
        return open_attempts(self._admin, self._name)

    def finish(self) -> Ledger:
        """Carries out a decision that another process left. Raises Torn."""
        try:
            ledger = read_ledger(self._admin, self._name, self._place, UNSTABLE_S)
        except RequestFailed as error:
            if not is_unstable(error):
                raise
            # A driver has died before its decision: its transaction is aborted with the id, not after its time-out.
            producer = self._take()
            return self._finished(self.read(), producer)
        if ledger.is_ended:
            return ledger
        producer = self._take()
        return self._finished(self.read(), producer)

    def commit(self, batch: WrittenBatch) -> None:
        """Raises NotCommitted, Torn, and RequestFailed, after which the batch may be decided: the next start finds out.

        RequestFailed is NotOpen where another driver has taken the ledger.
        """
        self.before("take")
        producer = self._take()
        ledger = self._finished(self.read(), producer)
        try:
            if not is_to_write(self._name, ledger, batch.query, batch.run, batch.number):
                self._abort(batch)
                self.clear(batch.run)
                return
            left_open = self.open_attempts()
            until = time.monotonic() + self._transactions(batch.number, batch.run, batch.attempts).check()
            ledger = decided(ledger, batch.query, batch.run, batch.number, batch.attempts, left_open.values())
            self._decide(ledger, producer, until)
        except NotCommitted:
            self._abort(batch)
            raise
        self._finished(ledger, producer)
        self.before("clear")
        self._clear(ledger, left_open)

    def clear(self, run: str) -> None:
        """Aborts what earlier runs have left open, after a batch of which a run writes nothing: a driver may have died after
        it, before it did the same.
        """
        ledger = self.read()
        earlier = {ledger.run, *ledger.superseded} - {run}
        if ledger.is_ended and run != ledger.run:
            abort_open(self._admin, self._name, lambda name, of_run: of_run in earlier)

    def give_up(self, batch: WrittenBatch) -> None:
        """Aborts what a batch has written, unless it was decided: Spark also aborts a batch whose commit has failed."""
        producer = self._take()
        ledger = self.read()
        if (ledger.query, ledger.run, ledger.batch) == (batch.query, batch.run, batch.number):
            self._finished(ledger, producer)
        else:
            self._abort(batch)
        abort_open(self._admin, self._name, lambda name, run: run == batch.run)

    def _abort(self, batch: WrittenBatch) -> None:
        self._transactions(batch.number, batch.run, batch.attempts).end(commits=False)

    @property
    def _id(self) -> str:
        return ledger_id(self._name)

    def _take(self) -> tuple[int, int]:
        return take_id(self._admin, self._id, LEDGER_TIMEOUT_MS)

    def _transactions(self, number: int, run: str, attempts: Iterable[Attempt]) -> OpenTransactions:
        subject = f"batch {number} of the ledger {self._name!r}"
        transactions = OpenTransactions(self._admin, subject, self._name, run, attempts)
        transactions.before_end = lambda: self.before("end one")
        return transactions

    def _decide(self, ledger: Ledger, producer: tuple[int, int], until: float) -> None:
        """Raises NotCommitted where the transactions of the batch could time out before they are ended."""
        self.before("write")
        write_ledger(self._admin, self._name, self._place, producer, self._id, ledger)
        self.before("decide")
        left_s = until - time.monotonic()
        if left_s < 0:
            with contextlib.suppress(RequestFailed):
                end(self._admin, self._id, producer, commits=False)
            raise NotCommitted(
                f"batch {ledger.batch} of the ledger {self._name!r}: the brokers took longer for the ledger than the "
                "time-out of the batch's transactions leaves: raise 'kafka.transaction.timeout.ms'"
            )
        end(self._admin, self._id, producer, commits=True, patience_s=min(left_s, PATIENCE_S))

    def _finished(self, ledger: Ledger, producer: tuple[int, int]) -> Ledger:
        """The ledger after all its transactions were committed, and that was written down."""
        if ledger.is_ended:
            return ledger
        self.before("end")
        lost = self._transactions(ledger.batch, ledger.run, ledger.attempts).end(commits=True)
        if lost:
            self._check_torn(ledger, ", ".join(str(attempt.task) for attempt in lost))
        ended = replace(ledger, is_ended=True)
        self.before("note")
        write_ledger(self._admin, self._name, self._place, producer, self._id, ended)
        end(self._admin, self._id, producer, commits=True)
        return ended

    def _check_torn(self, ledger: Ledger, tasks: str) -> None:
        """Raises Torn, unless such a batch is given up."""
        words = (
            f"batch {ledger.batch} of the ledger {self._name!r} was decided, and the transactions of its tasks {tasks} "
            "had been aborted by their time-out: what they wrote is missing"
        )
        if not self._skips_expired:
            raise Torn(f"{words}. Write it again, then start the query once with the option 'skipExpired' set to true")
        log.warning("%s, and given up by the option 'skipExpired'", words)

    def _clear(self, ledger: Ledger, left_open: Mapping[str, str]) -> None:
        """Aborts what attempts that do not count have left open before the decision: readers would wait for its time-out.

        An attempt that has begun since then is left to the next batch.
        """
        chosen = {attempt.transactional_id(self._name, ledger.run) for attempt in ledger.attempts}
        runs = {ledger.run, *ledger.superseded}
        abort_late(self._admin, [name for name, run in left_open.items() if run in runs and name not in chosen])
