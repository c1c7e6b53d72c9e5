"""What goes into a shard of transactions and what comes out of it: as for groups, and markers to be written.

A `SendMarkers` stands among the replies and, as they do, goes out only AFTER the high watermark has passed the records
before it: a marker must not be in any log before the decision is in this one. What has become of it comes back as
`MarkersWritten`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ...protocol.schema import Message
from ..result import Record, Reply
from .transaction import NO_PRODUCER_ID, Place


@dataclass(slots=True)
class TransactionRequest:
    """A request to the shard that owns its transactional id.

    `token`: comes back with the reply, once. `version`: the one that the client sent. `new_producer_id`: one that nobody
    has had, where `TransactionShard.needs_producer_id` says that it takes one.
    """

    token: object
    request: Message
    version: int = 0
    new_producer_id: int = NO_PRODUCER_ID


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    """These partitions have the marker of the end that `producer_id` and `producer_epoch` name; or are no more."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    places: frozenset[Place]


class SendMarkers(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    transaction_version: int
    places: tuple[Place, ...]


class NeedProducerId(NamedTuple):
    """One that nobody has had, for a transaction that is out of time at its last epoch; to come as `ProducerIdTaken`."""

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
    """What the shard takes from the broker's configuration, and the cluster's `transaction.version`."""

    max_timeout_ms: int = 900_000
    expiration_ms: int = 7 * 24 * 60 * 60 * 1_000
    abort_interval_ms: int = 10_000
    remove_expired_interval_ms: int = 60 * 60 * 1_000
    transaction_version: int = 2
