"""The state of a transaction shard: all its transactional ids, and the results that operations share.

Only `write` and `forget` change it: each records a change and replays it.
"""

from __future__ import annotations

from ..protocol.behaviour_versions import WITH_PRODUCER_FENCED
from ..protocol.error_responses import error_response_to
from ..protocol.errors import ErrorCode
from ..protocol.internal.transaction_state import TransactionLogKey, TransactionLogValue
from ..protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ..protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from ..protocol.messages.end_txn import EndTxnRequest
from ..protocol.messages.init_producer_id import InitProducerIdRequest
from ..protocol.records.batch import NO_PRODUCER_ID
from ..protocol.schema import NEVER, Message
from .result import Record, Reply
from .timers import Timers
from .transaction import VALID_PREVIOUS_STATES, Transaction, TransactionStatus
from .transaction_records import transaction_record
from .transaction_requests import Effect, TransactionRequest, TransactionsConfig

#: The versions of AddPartitionsToTxn that brokers send to each other, for several transactions.
WITH_TRANSACTIONS = AddPartitionsToTxnRequest.versions_with("transactions")
_WITH_PRODUCER_FENCED: dict[type[Message], range] = {
    InitProducerIdRequest: WITH_PRODUCER_FENCED["InitProducerId"],
    AddPartitionsToTxnRequest: WITH_PRODUCER_FENCED["AddPartitionsToTxn"],
    AddOffsetsToTxnRequest: WITH_PRODUCER_FENCED["AddOffsetsToTxn"],
    EndTxnRequest: WITH_PRODUCER_FENCED["EndTxn"],
}
#: The versions of other requests that keep PRODUCER_FENCED.
_EVERY_VERSION = range(NEVER)


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
        assert known is None or known.is_followed_by(value), (known.durable, value)
        if self.config.transaction_version < 1:
            # Version 0 of the record does not have these fields.
            value.previous_producer_id = value.next_producer_id = NO_PRODUCER_ID
            value.client_transaction_version = 0
        self._write(transaction_record(transactional_id, value, self.config.transaction_version))
        return self.transactions[transactional_id]

    def forget(self, transaction: Transaction) -> None:
        assert transaction.state in VALID_PREVIOUS_STATES[TransactionStatus.DEAD]
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


def transaction_error_response(request: Message, version: int, error: int) -> Message:
    """Returns the response to a request that failed as a whole; of a batched AddPartitionsToTxn, each transaction did."""
    said = as_known(error, version, _WITH_PRODUCER_FENCED.get(type(request), _EVERY_VERSION))
    return error_response_to(request, version, ErrorCode(said), at_items=isinstance(request, AddPartitionsToTxnRequest))


def as_known(error: int, version: int, with_producer_fenced: range) -> int:
    """Replaces PRODUCER_FENCED (KIP-588) in versions without it."""
    if error == ErrorCode.PRODUCER_FENCED and version not in with_producer_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def result(transaction: AddPartitionsToTxnTransaction, error: int) -> AddPartitionsToTxnResult:
    return AddPartitionsToTxnResult(
        transactional_id=transaction.transactional_id, topic_results=results_by_topic(transaction.topics, error)
    )


def results_by_topic(topics: list[AddPartitionsToTxnTopic], error: int) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[AddPartitionsToTxnPartitionResult(index, error) for index in topic.partitions],
        )
        for topic in topics
    ]
