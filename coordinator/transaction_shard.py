"""The coordinator of the transactional ids in one partition of `__transaction_state`. Uses no disk and no clock.

    shard = TransactionShard(config)
    shard.replay(record) ...          the log, from its start
    shard.loaded(now_ms)              the end of the log: requests the markers of decided ends
    shard.handle(message, now_ms)     a TransactionRequest, MarkersWritten or ProducerIdTaken
    shard.take()                      -> Output: records to append, then replies, markers and producer id requests to
                                      send once the records are committed
    shard.deadline(), expire(now_ms)  the next deadline, and the handling of expired timers

As for groups, a shard is dropped and reloaded if its records cannot be appended or its leadership ends.
"""

from __future__ import annotations

from collections.abc import Callable

from ..metadata.image import TopicPartition
from ..protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ..protocol.messages.describe_transactions import DescribeTransactionsRequest
from ..protocol.messages.end_txn import EndTxnRequest
from ..protocol.messages.init_producer_id import InitProducerIdRequest
from ..protocol.messages.list_transactions import ListTransactionsRequest
from ..protocol.schema import Message
from .init_producer_id import init_needs_producer_id, init_producer_id
from .result import Record
from .transaction import PREPARED
from .transaction_admin import describe, list_transactions
from .transaction_ends import awaits, end_needs_producer_id, end_txn, markers_written, send_markers
from .transaction_maintenance import Maintenance, abort_with_id
from .transaction_partitions import add_partitions
from .transaction_requests import (
    MarkersWritten,
    ProducerIdTaken,
    SendMarkers,
    TransactionOutput,
    TransactionRequest,
    TransactionsConfig,
)
from .transactions_state import TransactionsState

Operation = Callable[[TransactionsState, TransactionRequest, int], None]
OPERATIONS: dict[type[Message], Operation] = {
    InitProducerIdRequest: init_producer_id,
    AddPartitionsToTxnRequest: add_partitions,
    EndTxnRequest: end_txn,
    DescribeTransactionsRequest: describe,
    ListTransactionsRequest: list_transactions,
}


class TransactionShard:
    def __init__(self, config: TransactionsConfig, next_offset: int = 0) -> None:
        self.state = TransactionsState(config)
        self.state.next_offset = next_offset
        self._maintenance = Maintenance(self.state)

    def needs_producer_id(self, request: Message, version: int) -> bool:
        """Returns whether `request` currently needs a new producer id."""
        if type(request) is InitProducerIdRequest:
            return init_needs_producer_id(self.state, request)
        return type(request) is EndTxnRequest and end_needs_producer_id(self.state, request, version)

    def handle(self, message: TransactionRequest | MarkersWritten | ProducerIdTaken, now_ms: int) -> None:
        if type(message) is TransactionRequest:
            OPERATIONS[type(message.request)](self.state, message, now_ms)
        elif type(message) is ProducerIdTaken:
            abort_with_id(self.state, message, now_ms)
        else:
            assert isinstance(message, MarkersWritten)
            markers_written(self.state, message, now_ms)
        self._maintenance.plan(now_ms)

    def awaits(self, markers: SendMarkers, partition: TopicPartition) -> bool:
        """Returns whether the marker is still pending. A late marker would end the next transaction."""
        return awaits(self.state, markers, partition)

    def deadline(self) -> int | None:
        return self.state.timers.next_deadline()

    def expire(self, now_ms: int) -> None:
        self._maintenance.expire(now_ms)

    def take(self) -> TransactionOutput:
        """Returns the output since the last call. The caller appends the records before it sends any reply."""
        state = self.state
        output = TransactionOutput(state.records[:], state.replies[:])
        state.records.clear()
        state.replies.clear()
        return output

    def replay(self, record: Record) -> None:
        self.state.replay(record)

    def loaded(self, now_ms: int) -> None:
        for transaction in self.state.transactions.values():
            if transaction.state in PREPARED:
                send_markers(self.state, transaction)
        self._maintenance.plan(now_ms)
