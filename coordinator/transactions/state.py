"""The state of a transaction shard. Only `write` and `forget` change it: each records a change and replays it."""

from __future__ import annotations

from ...protocol.internal.transaction_state import TransactionLogKey, TransactionLogValue
from ...protocol.schema import Message
from ..common.result import Record, Reply
from ..common.timers import Timers
from .records import transaction_record
from .result import Effect, TransactionRequest, TransactionsConfig
from .transaction import NO_PRODUCER_ID, VALID_PREVIOUS_STATES, State, Transaction


class TransactionsState:
    def __init__(self, config: TransactionsConfig) -> None:
        self.config = config
        self.transactions: dict[str, Transaction] = {}
        self.timers = Timers()
        self.records: list[Record] = []
        self.replies: list[Effect] = []
        #: The offset of the next record in the log. This shard is its partition's only writer.
        self.next_offset = 0

    def reply(self, message: TransactionRequest, response: Message) -> None:
        self.replies.append(Reply(message.token, response))

    def write(self, transactional_id: str, value: TransactionLogValue) -> Transaction:
        known = self.transactions.get(transactional_id)
        before = None if known is None else known.state
        assert before in VALID_PREVIOUS_STATES[value.transaction_status], (transactional_id, before, value)
        if self.config.transaction_version < 1:
            # Version 0 of the record does not have these fields.
            value.previous_producer_id = value.next_producer_id = NO_PRODUCER_ID
            value.client_transaction_version = 0
        self._write(transaction_record(transactional_id, value, self.config.transaction_version))
        return self.transactions[transactional_id]

    def forget(self, transaction: Transaction) -> None:
        assert transaction.state in VALID_PREVIOUS_STATES[State.DEAD]
        self._write(transaction_record(transaction.transactional_id, None, self.config.transaction_version))

    def replay(self, record: Record) -> None:
        key, value, *_ = record
        assert isinstance(key, TransactionLogKey)
        assert value is None or isinstance(value, TransactionLogValue)
        if value is None:
            self.transactions.pop(key.transactional_id, None)
        else:
            known = self.transactions.get(key.transactional_id)
            if known is None:
                self.transactions[key.transactional_id] = Transaction(key.transactional_id, value)
            else:
                known.durable = value
        self.next_offset += 1

    def _write(self, record: Record) -> None:
        self.records.append(record)
        self.replay(record)
