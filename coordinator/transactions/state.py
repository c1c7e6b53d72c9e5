"""The state of a transaction shard. Only `write` and `forget` change it: each records a change and replays it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ...metadata.image import TopicPartition
from ...protocol.error_responses import error_response_to
from ...protocol.errors import ErrorCode
from ...protocol.internal.transaction_state import TransactionLogKey, TransactionLogValue
from ...protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ...protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from ...protocol.messages.end_txn import EndTxnRequest
from ...protocol.messages.init_producer_id import InitProducerIdRequest
from ...protocol.schema import Message
from ..common.result import Record, Reply
from ..common.timers import Timers
from .transaction import NO_PRODUCER_ID, VALID_PREVIOUS_STATES, State, Transaction, transaction_record

# The input and output of a transaction shard: as for groups, and markers to be written.
#
# A `SendMarkers` is one of the replies. Like them it is sent only AFTER the high watermark has passed the records
# before it: a marker must not be in any log before the decision is in this one. Its result comes back as
# `MarkersWritten`.


@dataclass(slots=True)
class TransactionRequest:
    """A request to the shard that owns its transactional id.

    `token`: returned with the reply, once. `version`: the version that the client sent. `new_producer_id`: an unused
    producer id, if `TransactionShard.needs_producer_id` requires one.
    """

    token: object
    request: Message
    version: int = 0
    new_producer_id: int = NO_PRODUCER_ID


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    """These partitions have the marker for `producer_id` and `producer_epoch`, or were deleted."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]


class SendMarkers(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    transaction_version: int
    partitions: tuple[TopicPartition, ...]


class NeedProducerId(NamedTuple):
    """A request for a new producer id, for a timed-out transaction at its last epoch. `ProducerIdTaken` answers it."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class ProducerIdTaken:
    transactional_id: str
    producer_id: int


Effect = Reply | SendMarkers | NeedProducerId


class Output(NamedTuple):
    records: list[Record]
    replies: list[Effect]


@dataclass(frozen=True, slots=True)
class TransactionsConfig:
    """The broker configuration that the shard uses, and the cluster's `transaction.version`."""

    max_timeout_ms: int = 900_000
    expiration_ms: int = 7 * 24 * 60 * 60 * 1_000
    abort_interval_ms: int = 10_000
    remove_expired_interval_ms: int = 60 * 60 * 1_000
    transaction_version: int = 2


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


#: The first version of AddPartitionsToTxn that brokers send to each other, for several transactions.
BATCHED_VERSION = 4
#: The first versions whose clients know PRODUCER_FENCED (KIP-588).
_FENCED_VERSIONS: dict[type[Message], int] = {
    InitProducerIdRequest: 4,
    AddPartitionsToTxnRequest: 2,
    AddOffsetsToTxnRequest: 2,
    EndTxnRequest: 2,
}


def error_response(request: Message, version: int, error: int) -> Message:
    """Returns the response to a request that failed as a whole; of a batched AddPartitionsToTxn, each transaction did."""
    said = as_known(error, version, _FENCED_VERSIONS.get(type(request), 0))
    return error_response_to(request, version, ErrorCode(said), at_items=isinstance(request, AddPartitionsToTxnRequest))


def as_known(error: int, version: int, first_version: int) -> int:
    """Replaces PRODUCER_FENCED (KIP-588) in versions without it."""
    if error == ErrorCode.PRODUCER_FENCED and version < first_version:
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
