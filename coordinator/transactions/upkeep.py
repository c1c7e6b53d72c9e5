"""What time does: transactions that take longer than they asked for are aborted, ids that rest for long are forgotten.

Both are looked for in intervals, as the broker's keys say, and only while there is something to look for. Whose epochs have
run out is aborted as soon as there is another producer id for it, which is asked for (`NeedProducerId`) in each interval.
"""

from __future__ import annotations

from ..timers import NEVER, Timer
from .ends import fence, rotates_when_fenced
from .result import NeedProducerId, ProducerIdTaken
from .state import TransactionsState
from .transaction import NO_PRODUCER_ID, RESTING, State, Transaction


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
        if not _is_out_of_time(transaction, now):
            continue
        if rotates_when_fenced(state, transaction):
            state.replies.append(NeedProducerId(transaction.transactional_id))
        else:
            fence(state, transaction, now, NO_PRODUCER_ID)


def abort_with_id(state: TransactionsState, message: ProducerIdTaken, now: int) -> None:
    """If it is still to be aborted; else nobody will have that producer id."""
    transaction = state.transactions.get(message.transactional_id)
    if transaction is not None and _is_out_of_time(transaction, now):
        fence(state, transaction, now, message.producer_id)


def _is_out_of_time(transaction: Transaction, now: int) -> bool:
    durable = transaction.durable
    until = durable.transaction_start_timestamp_ms + durable.transaction_timeout_ms
    return transaction.state is State.ONGOING and until < now


def _forget_expired(state: TransactionsState, now: int) -> None:
    oldest = now - state.config.expiration_ms
    for transaction in list(state.transactions.values()):
        if transaction.state in RESTING and transaction.durable.transaction_last_update_timestamp_ms <= oldest:
            state.forget(transaction)
