"""The coordinator of the transactional ids that one partition of `__transaction_state` holds. Knows no disk, no clock.

    shard = TransactionShard(config)
    shard.replay(record) ...          the log, from its start
    shard.loaded(now)                 and from then on: ends that were decided go on to have their markers written
    shard.handle(message, now)        a TransactionRequest, MarkersWritten or ProducerIdTaken
    shard.take()                      -> Output: records to append, then replies, markers and what else it needs, when
                                      those are committed
    shard.deadline(), expire(now)     when to wake it up, and its waking

As for groups: a shard whose records cannot be appended, or whose leadership ends, is dropped whole and loaded again.
"""

from __future__ import annotations

from collections.abc import Callable

from ...protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ...protocol.messages.describe_transactions import DescribeTransactionsRequest
from ...protocol.messages.end_txn import EndTxnRequest
from ...protocol.messages.init_producer_id import InitProducerIdRequest
from ...protocol.messages.list_transactions import ListTransactionsRequest
from ...protocol.schema import Message
from ..result import Record
from . import admin, ends, init, partitions
from .result import MarkersWritten, Output, ProducerIdTaken, SendMarkers, TransactionRequest, TransactionsConfig
from .state import TransactionsState
from .transaction import PREPARED, Place
from .upkeep import Upkeep, abort_with_id

Operation = Callable[[TransactionsState, TransactionRequest, int], None]

OPERATIONS: dict[type[Message], Operation] = {
    InitProducerIdRequest: init.init_producer_id,
    AddPartitionsToTxnRequest: partitions.add_partitions,
    EndTxnRequest: ends.end_txn,
    DescribeTransactionsRequest: admin.describe,
    ListTransactionsRequest: admin.list_transactions,
}


class TransactionShard:
    def __init__(self, config: TransactionsConfig, next_offset: int = 0) -> None:
        self.state = TransactionsState(config)
        self.state.next_offset = next_offset
        self._upkeep = Upkeep(self.state)

    def needs_producer_id(self, request: Message, version: int) -> bool:
        """Whether `request`, as things stand, can only be handled with a new producer id."""
        if type(request) is InitProducerIdRequest:
            return init.needs_producer_id(self.state, request)
        return type(request) is EndTxnRequest and ends.needs_producer_id(self.state, request, version)

    def handle(self, message: TransactionRequest | MarkersWritten | ProducerIdTaken, now: int) -> None:
        if type(message) is TransactionRequest:
            OPERATIONS[type(message.request)](self.state, message, now)
        elif type(message) is ProducerIdTaken:
            abort_with_id(self.state, message, now)
        else:
            assert isinstance(message, MarkersWritten)
            ends.markers_written(self.state, message, now)
        self._upkeep.plan(now)

    def awaits(self, markers: SendMarkers, place: Place) -> bool:
        """Whether that marker is still to be written: of what has ended since, a late one would end the next."""
        return ends.awaits(self.state, markers, place)

    def deadline(self) -> int | None:
        return self.state.timers.next_deadline()

    def expire(self, now: int) -> None:
        self._upkeep.expire(now)

    def take(self) -> Output:
        """What was decided since the last call. The caller appends the records before it gives any of the replies."""
        state = self.state
        output = Output(state.records[:], state.replies[:])
        state.records.clear()
        state.replies.clear()
        return output

    def replay(self, record: Record) -> None:
        self.state.replay(record)

    def loaded(self, now: int) -> None:
        for transaction in self.state.transactions.values():
            if transaction.state in PREPARED:
                ends.send_markers(self.state, transaction)
        self._upkeep.plan(now)
