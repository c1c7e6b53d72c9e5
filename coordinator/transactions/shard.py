"""The coordinator of the transactional ids in one partition of `__transaction_state`. Uses no disk and no clock.

    shard = TransactionShard(config)
    shard.replay(record) ...          the log, from its start
    shard.loaded(now)                 the end of the log: requests the markers of decided ends
    shard.handle(message, now)        a TransactionRequest, MarkersWritten or ProducerIdTaken
    shard.take()                      -> Output: records to append, then replies, markers and producer id requests to
                                      send once the records are committed
    shard.deadline(), expire(now)     the next deadline, and the handling of expired timers

As for groups, a shard is dropped and reloaded if its records cannot be appended or its leadership ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ...metadata.image import TopicPartition
from ...protocol.codec import MalformedMessage
from ...protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ...protocol.messages.describe_transactions import DescribeTransactionsRequest
from ...protocol.messages.end_txn import EndTxnRequest
from ...protocol.messages.init_producer_id import InitProducerIdRequest
from ...protocol.messages.list_transactions import ListTransactionsRequest
from ...protocol.records.batch import iter_headers
from ...protocol.records.record import decode_batch
from ...protocol.schema import Message
from ...protocol.varint import Buffer
from ..common.result import Record, UnknownRecord
from .operations import (
    Maintenance,
    abort_with_id,
    add_partitions,
    awaits,
    describe,
    end_needs_producer_id,
    end_txn,
    init_needs_producer_id,
    init_producer_id,
    list_transactions,
    markers_written,
    send_markers,
)
from .transaction import (
    PREPARED,
    MarkersWritten,
    Output,
    ProducerIdTaken,
    SendMarkers,
    TransactionRequest,
    TransactionsConfig,
    TransactionsState,
    decode_record,
)

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

    def handle(self, message: TransactionRequest | MarkersWritten | ProducerIdTaken, now: int) -> None:
        if type(message) is TransactionRequest:
            OPERATIONS[type(message.request)](self.state, message, now)
        elif type(message) is ProducerIdTaken:
            abort_with_id(self.state, message, now)
        else:
            assert isinstance(message, MarkersWritten)
            markers_written(self.state, message, now)
        self._maintenance.plan(now)

    def awaits(self, markers: SendMarkers, partition: TopicPartition) -> bool:
        """Returns whether the marker is still pending. A late marker would end the next transaction."""
        return awaits(self.state, markers, partition)

    def deadline(self) -> int | None:
        return self.state.timers.next_deadline()

    def expire(self, now: int) -> None:
        self._maintenance.expire(now)

    def take(self) -> Output:
        """Returns the output since the last call. The caller appends the records before it sends any reply."""
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
                send_markers(self.state, transaction)
        self._maintenance.plan(now)


# Loading of a transaction shard from its log. Of records with the same key only the last counts, as after compaction.
#
# The interface is that of the group loader: `feed` takes some batches at a time, `replay_some` replays some records.


log = logging.getLogger(__name__)


class TransactionLoader:
    def __init__(self, config: TransactionsConfig, name: str) -> None:
        self.shard = TransactionShard(config)
        #: The partition, for log lines.
        self.name = name
        self.record_count = 0
        self._latest: dict[bytes, bytes | None] = {}

    def feed(self, batches: Buffer) -> None:
        """Takes whole batches, from the start of the log to its end. Raises CorruptBatch and related errors."""
        latest = self._latest
        for position, header in iter_headers(batches):
            self.record_count += header.record_count
            if header.is_control:
                continue
            for record in decode_batch(batches, position, header):
                if record.key is not None:
                    latest.pop(record.key, None)
                    latest[record.key] = record.value

    def replay_some(self, count: int) -> bool:
        """Replays up to `count` of the fed records. Returns False when none is left."""
        latest = self._latest
        for key in [key for key, _ in zip(latest, range(count))]:
            value = latest.pop(key)
            try:
                self.shard.replay(decode_record(key, value))
            except (UnknownRecord, MalformedMessage) as error:
                log.warning("%s: a record is skipped: %s", self.name, error)
        return bool(latest)

    def loaded(self, log_end_offset: int, now: int) -> TransactionShard:
        """Returns the shard at the end of its log, ready for requests."""
        while self.replay_some(1_000):
            pass
        self.shard.state.next_offset = log_end_offset
        self.shard.loaded(now)
        return self.shard
