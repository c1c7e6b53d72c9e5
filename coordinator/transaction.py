"""Transactions: the state machine of a transactional id, its records, and the state of the shard that has them.

- `State`, `Transaction`: a transactional id, with its producer id and epoch, and the state of its transaction.
- `encode_record`, `decode_record`: the records of `__transaction_state`.
- `TransactionRequest`, `Output`: the input and output of a transaction shard.
- `TransactionsState`: the state of a shard.

```
state            meaning                                                 next state: event
Empty            no partitions were added yet                            Ongoing: partitions are added
                                                                         PrepareAbort: abort without partitions (TV2)
Ongoing          partitions are in the transaction                       PrepareCommit, PrepareAbort: EndTxn
                                                                         PrepareAbort: timeout, or InitProducerId by a
                                                                         new producer (via PrepareEpochFence)
PrepareCommit    decided; its markers are being written                  CompleteCommit: all markers are written
PrepareAbort     decided; its markers are being written                  CompleteAbort: all markers are written
CompleteCommit   all markers are written; the next one can begin         Ongoing, Empty, PrepareAbort: as above
CompleteAbort    all markers are written; the next one can begin         Ongoing, Empty, PrepareAbort: as above
Dead             its tombstone is written                                none
```

InitProducerId leads from Empty and the two Complete states to Empty, with the next epoch, so that the previous
producer is fenced (KIP-98). If the transaction is Ongoing, InitProducerId first aborts it with the next epoch, and
the client must retry (CONCURRENT_TRANSACTIONS). PrepareEpochFence is the moment in between; it is never written and
exists here only for its name. With transaction version 2 (KIP-890) every end takes a new epoch as well, so that
records sent for one transaction never become part of the next. When the epochs run out, the end takes the next
producer id. It is in `next_producer_id` until the markers are written, which still have the old producer id.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from ..metadata.image import TopicPartition
from ..protocol.error_responses import error_response_to
from ..protocol.errors import ErrorCode
from ..protocol.internal.transaction_state import PartitionsSchema, TransactionLogKey, TransactionLogValue
from ..protocol.messages.producers import InitProducerIdRequest
from ..protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
)
from ..protocol.schema import Message
from ..protocol.varint import Buffer
from .result import Record, Reply, Timers, UnknownRecord, decode_key, decode_value, encode_framed, number_of, prefix

# ---- the state machine

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1
MAX_EPOCH = 32_767
#: From this transaction version on, ends bump the epoch and partitions are added by writing to them.
EPOCH_BUMP_VERSION = 2

#: Topic and partition.


class State(IntEnum):
    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def shown(self) -> str:
        """Returns the name in tools and filters: CompleteCommit."""
        return self.name.title().replace("_", "")


_ENDED = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})

#: State -> its valid previous states. Any other transition is a bug. None stands for an unknown id.
VALID_PREVIOUS_STATES: dict[int, frozenset[State | None]] = {
    State.EMPTY: _ENDED | {None},
    State.ONGOING: _ENDED | {State.ONGOING},
    State.PREPARE_COMMIT: frozenset({State.ONGOING}),
    State.PREPARE_ABORT: _ENDED | {State.ONGOING},
    State.COMPLETE_COMMIT: frozenset({State.PREPARE_COMMIT}),
    State.COMPLETE_ABORT: frozenset({State.PREPARE_ABORT}),
    State.DEAD: _ENDED,
}

#: States without a transaction: one may begin, and the id may be removed.
NOT_IN_TRANSACTION = _ENDED
#: States with a decided but incomplete end: other requests must wait.
PREPARED = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})


class Transaction:
    """A transactional id and its transaction. `durable`: the state in the log; only this part is durable."""

    __slots__ = ("_durable", "last_producer_epoch", "partitions", "state", "transactional_id", "unwritten")

    def __init__(self, transactional_id: str, durable: TransactionLogValue) -> None:
        self.transactional_id = transactional_id
        self._durable = durable
        #: The previous epoch if the same producer had it: the producer may retry its request (KIP-360).
        self.last_producer_epoch = NO_PRODUCER_EPOCH
        #: Partitions without a confirmed marker.
        self.unwritten: set[TopicPartition] = set()
        self.partitions: set[TopicPartition] = set()
        self.state = State.EMPTY
        self.durable = durable

    @property
    def durable(self) -> TransactionLogValue:
        return self._durable

    @durable.setter
    def durable(self, value: TransactionLogValue) -> None:
        before, self._durable = self._durable, value
        status = value.transaction_status
        self.state = status if type(status) is State else State(status)
        topics = value.transaction_partitions
        if topics is not before.transaction_partitions or before is value:
            self.partitions = {(topic.topic, index) for topic in topics or () for index in topic.partition_ids}

    @property
    def producer_id(self) -> int:
        return self._durable.producer_id

    @property
    def producer_epoch(self) -> int:
        return self._durable.producer_epoch

    @property
    def is_epoch_exhausted(self) -> bool:
        return is_exhausted(self._durable.producer_epoch)

    def changed(self, state: State, now: int, partitions: set[TopicPartition] | None = None) -> TransactionLogValue:
        """Returns the next value for the log; the caller changes further fields. `partitions` None: unchanged."""
        old = self._durable
        topics = None
        if state is not State.EMPTY:
            # A list in a value is never changed, so the next value can share it.
            topics = old.transaction_partitions if partitions is None else by_topic(partitions)
            topics = [] if topics is None else topics
        return TransactionLogValue(
            producer_id=old.producer_id,
            # As in Kafka: the producer id at the decision, which differs only if the epochs ran out.
            previous_producer_id=old.producer_id,
            next_producer_id=old.next_producer_id,
            producer_epoch=old.producer_epoch,
            transaction_timeout_ms=old.transaction_timeout_ms,
            transaction_status=state,
            transaction_partitions=topics,
            transaction_last_update_timestamp_ms=now,
            transaction_start_timestamp_ms=old.transaction_start_timestamp_ms,
            client_transaction_version=old.client_transaction_version,
        )


def is_exhausted(epoch: int) -> bool:
    """Returns whether a producer can get no further epoch. The last epoch is reserved for fencing."""
    return epoch >= MAX_EPOCH - 1


def by_topic(partitions: set[TopicPartition]) -> list[PartitionsSchema]:
    if len(partitions) == 1:
        ((topic, index),) = partitions
        return [PartitionsSchema(topic, [index])]
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in topics.items()]


# Encoding and decoding of `__transaction_state` records, framed as those of `__consumer_offsets`.
#
# Values have version 1, with tagged fields, if the cluster's `transaction.version` is 1 or more; else version 0.


_KIND = 0
_PREFIX = prefix(_KIND)


# ---- records


def transaction_record(transactional_id: str, value: TransactionLogValue | None, transaction_version: int) -> Record:
    return Record(TransactionLogKey(transactional_id=transactional_id), value, 1 if transaction_version >= 1 else 0)


def encode_record(record: Record) -> tuple[bytes, bytes | None]:
    return encode_framed(_PREFIX, record)


def decode_record(key: Buffer, value: Buffer | None) -> Record:
    """Decodes a record. Raises UnknownRecord for an unknown type and MalformedMessage for malformed bytes."""
    kind = number_of(key)
    if kind != _KIND:
        raise UnknownRecord(f"a record of kind {kind}")
    return decode_value(decode_key(TransactionLogKey, key), TransactionLogValue, value)


# ---- input and output
#
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


# ---- the state of a shard
#
# Only `write` and `forget` change it: each records a change and replays it.


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
