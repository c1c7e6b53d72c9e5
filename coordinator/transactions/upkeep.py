"""What time does: transactions that take longer than they asked for are aborted, ids that rest for long are forgotten.

Both are looked for in intervals, as the broker's keys say, and only while there is something to look for.
"""

from __future__ import annotations

from ..timers import NEVER, Timer
from .ends import end, send_markers
from .state import TransactionsState
from .transaction import RESTING, State


class Upkeep:
    def __init__(self, state: TransactionsState) -> None:
        self._state = state
        self._abort = Timer(("abort",))
        self._forget = Timer(("forget",))

    def plan(self, now: int) -> None:
        """To be called after whatever may have begun a transaction."""
        state = self._state
        if not state.transactions:
            return
        if self._forget.deadline_ms == NEVER:
            state.timers.set(self._forget, now + state.config.remove_expired_interval_ms)
        if self._abort.deadline_ms == NEVER:
            state.timers.set(self._abort, now + state.config.abort_interval_ms)

    def expire(self, now: int) -> None:
        while (timer := self._state.timers.due(now)) is not None:
            if timer is self._abort:
                _abort_timed_out(self._state, now)
            else:
                _forget_expired(self._state, now)
            self.plan(now)


def _abort_timed_out(state: TransactionsState, now: int) -> None:
    """Its producer is fenced with it: what it still sends is of no transaction (KIP-588)."""
    for transaction in list(state.transactions.values()):
        began, timeout_ms = (
            transaction.durable.transaction_start_timestamp_ms,
            transaction.durable.transaction_timeout_ms,
        )
        if transaction.state is State.ONGOING and began + timeout_ms < now:
            end(state, transaction, False, now, is_fencing=True)
            send_markers(state, transaction)


def _forget_expired(state: TransactionsState, now: int) -> None:
    oldest = now - state.config.expiration_ms
    for transaction in list(state.transactions.values()):
        if transaction.state in RESTING and transaction.durable.transaction_last_update_timestamp_ms <= oldest:
            state.forget(transaction)
