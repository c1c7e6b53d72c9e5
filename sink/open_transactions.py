"""The open transactions of a batch's tasks, which the driver commits or aborts: all of them, whatever one of them meets."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from ..admin.errors import NotSupported, RequestFailed
from ..admin.session import Admin
from ..admin.transactions import TransactionDescription, describe_transactions
from .ledger import Attempt
from .requests import PATIENCE_S, PAUSE_S, NotOpen, end, may_pass, open_attempts, take_id

log = logging.getLogger("odradek.sink")

#: Nothing is decided when a transaction is so near to its time-out.
LEAST_LEFT_MS = 10_000
_OPEN, _COMMITTED = "Ongoing", ("PrepareCommit", "CompleteCommit")
_THREADS = 8
#: Time-out of transactions of a producer that begins none.
_TIMEOUT_MS = 60_000


class NotCommitted(Exception):
    """A batch that was not decided: nothing of it is in the topics."""


class OpenTransactions:
    """`subject`: what the tasks have written, for errors. `ledger`, `run`: the beginning of the transactional ids."""

    def __init__(self, admin: Admin, subject: str, ledger: str, run: str, attempts: Iterable[Attempt]) -> None:
        self._admin = admin
        self._subject = subject
        self._ledger = ledger
        self._attempts = {attempt.transactional_id(ledger, run): attempt for attempt in attempts}
        #: Called before each end: tests end the process there.
        self.before_end: Callable[[], None] = lambda: None

    def check(self) -> float:
        """Returns the seconds within which a decision is in time for all of them.

        Raises NotCommitted if one has timed out, or may before it is ended.
        """
        try:
            states = describe_transactions(self._admin, self._attempts)
        except NotSupported:
            return math.inf  # before Apache Kafka 3.0
        except RequestFailed as error:
            raise NotCommitted(f"{self._subject}: {error}") from error
        now_ms, least_ms = int(time.time() * 1000), math.inf
        for name, attempt in self._attempts.items():
            state = states[name]
            margin_ms = min(LEAST_LEFT_MS, state.timeout_ms // 4)
            left_ms = state.start_time_ms + state.timeout_ms - margin_ms - now_ms
            if state.state != _OPEN or not _is_of(state, attempt) or left_ms < 0:
                raise NotCommitted(
                    f"{self._subject} took longer than its transactions may: make batches smaller, or raise "
                    f"'kafka.transaction.timeout.ms' ({state.timeout_ms}) and the brokers' transaction.max.timeout.ms"
                )
            least_ms = min(least_ms, left_ms)
        return least_ms / 1000

    def is_commit_begun(self) -> bool:
        """Returns whether one of them is committed: then the others have to be."""
        try:
            states = describe_transactions(self._admin, self._attempts)
        except NotSupported:
            return False
        return any(
            states[name].state in _COMMITTED and _is_of(states[name], attempt)
            for name, attempt in self._attempts.items()
        )

    def end(self, *, commits: bool) -> list[Attempt]:
        """Tries to end each. Returns those that were not open. After that, raises the first error of another kind."""
        left, lost = list(self._attempts), []
        errors: list[RequestFailed] = []
        until = time.monotonic() + PATIENCE_S
        with ThreadPoolExecutor(min(_THREADS, len(left)) or 1) as threads:
            while left:
                outcomes = list(zip(left, threads.map(lambda name: self._outcome(name, commits), left), strict=True))
                is_late = time.monotonic() > until
                lost += [self._attempts[name] for name, error in outcomes if isinstance(error, NotOpen)]
                failed = [(name, error) for name, error in outcomes if error and not isinstance(error, NotOpen)]
                errors += [error for _, error in failed if is_late or not may_pass(error)]
                left = [name for name, error in failed if not is_late and may_pass(error)]
                if left:
                    time.sleep(PAUSE_S)
        if errors:
            raise errors[0]
        return sorted(lost)

    def abort_others(self) -> None:
        """Aborts what other attempts of the same ledger have left open."""
        abort_open(self._admin, self._ledger, lambda name, run: name not in self._attempts)

    def _outcome(self, name: str, commits: bool) -> RequestFailed | None:
        """The error of one end."""
        attempt = self._attempts[name]
        self.before_end()
        try:
            end(self._admin, name, (attempt.producer_id, attempt.producer_epoch), commits=commits, patience_s=0.0)
        except RequestFailed as error:
            return error
        return None


def abort_open(admin: Admin, ledger: str, is_late: Callable[[str, str], bool]) -> None:
    """Aborts open transactions of attempts that do not count, by their ids and runs. Raises nothing."""
    try:
        left_open = open_attempts(admin, ledger)
    except RequestFailed as error:
        log.warning("ledger %s: transactions of late attempts stay open: %s", ledger, error)
        return
    abort_late(admin, [name for name, run in left_open.items() if is_late(name, run)])


def abort_late(admin: Admin, names: Sequence[str]) -> None:
    """Aborts transactions of attempts that do not count: readers would wait for their time-outs. Raises nothing.

    Nothing is missing where one stays open. The next batch aborts it, or its time-out.
    """
    until = time.monotonic() + PATIENCE_S
    for index, name in enumerate(names):
        try:
            take_id(admin, name, _TIMEOUT_MS)
        except RequestFailed as error:
            log.warning("the transaction %s stays open: %s", name, error)
            if time.monotonic() > until:
                log.warning("%d further transactions of late attempts stay open", len(names) - index - 1)
                return


def _is_of(state: TransactionDescription, attempt: Attempt) -> bool:
    return (state.producer_id, state.producer_epoch) == (attempt.producer_id, attempt.producer_epoch)
