"""Periodic tasks: abort timed-out transactions, and remove transactional ids that are unused for long.

Both run in the broker's configured intervals, and only while the shard has transactions. A transaction with
exhausted epochs is aborted once it gets a new producer id, which each interval requests (`NeedProducerId`).
"""

from __future__ import annotations

from ..protocol.records.batch import NO_PRODUCER_ID
from .timers import NEVER, Timer
from .transaction import NOT_IN_TRANSACTION, Transaction, TransactionStatus
from .transaction_ends import fence, rotates_when_fenced
from .transaction_requests import NeedProducerId, ProducerIdTaken
from .transactions_state import TransactionsState


class Maintenance:
    def __init__(self, state: TransactionsState) -> None:
        self._state = state
        self._abort = Timer(("abort",))
        self._forget = Timer(("forget",))

    def plan(self, now_ms: int) -> None:
        """Sets unset timers. The caller calls it after every request that may have begun a transaction."""
        state = self._state
        if not state.transactions:
            return
        if self._forget.deadline_ms == NEVER:
            state.timers.set(self._forget, now_ms + state.config.remove_expired_interval_ms)
        if self._abort.deadline_ms == NEVER:
            state.timers.set(self._abort, now_ms + state.config.abort_interval_ms)

    def expire(self, now_ms: int) -> None:
        while (timer := self._state.timers.due(now_ms)) is not None:
            if timer is self._abort:
                _abort_timed_out(self._state, now_ms)
            else:
                _forget_expired(self._state, now_ms)
            self.plan(now_ms)


def _abort_timed_out(state: TransactionsState, now_ms: int) -> None:
    """Aborts timed-out transactions and fences their producers, so that later requests of theirs fail (KIP-588)."""
    for transaction in list(state.transactions.values()):
        if not _is_out_of_time(transaction, now_ms):
            continue
        if rotates_when_fenced(state, transaction):
            state.replies.append(NeedProducerId(transaction.transactional_id))
        else:
            fence(state, transaction, now_ms, NO_PRODUCER_ID)


def abort_with_id(state: TransactionsState, message: ProducerIdTaken, now_ms: int) -> None:
    """Aborts the transaction with the new producer id if it is still timed out; else the id stays unused."""
    transaction = state.transactions.get(message.transactional_id)
    if transaction is not None and _is_out_of_time(transaction, now_ms):
        fence(state, transaction, now_ms, message.producer_id)


def _is_out_of_time(transaction: Transaction, now_ms: int) -> bool:
    durable = transaction.durable
    until = durable.transaction_start_timestamp_ms + durable.transaction_timeout_ms
    return transaction.state is TransactionStatus.ONGOING and until < now_ms


def _forget_expired(state: TransactionsState, now_ms: int) -> None:
    oldest = now_ms - state.config.expiration_ms
    for transaction in list(state.transactions.values()):
        if (
            transaction.state in NOT_IN_TRANSACTION
            and transaction.durable.transaction_last_update_timestamp_ms <= oldest
        ):
            state.forget(transaction)
