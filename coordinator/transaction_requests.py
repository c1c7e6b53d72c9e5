"""The input and output of a transaction shard: requests, effects and the configuration.

The input and output of a transaction shard: as for groups, and markers to be written.

A `SendMarkers` is one of the replies. Like them it is sent only AFTER the high watermark has passed the records
before it: a marker must not be in any log before the decision is in this one. Its result comes back as
`MarkersWritten`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..metadata.image import TopicPartition
from ..protocol.records.batch import NO_PRODUCER_ID
from ..protocol.schema import Message
from .result import Record, Reply


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


class TransactionOutput(NamedTuple):
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
