"""The transaction coordinators on this broker: shards of `__transaction_state`.

- `TransactionDriver`: the coordinators' interface for the rest of the broker. The state machine is
  coordinator/transaction_shard.py.
- `TransactionShardDriver`: one shard, driven as those of groups are. A marker that cannot be written is retried until
  the shard is dropped. The next broker that loads the partition's log finds the decision in it and continues.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ...client.shown_text import shown
from ...coordinator.result import Record, Reply
from ...coordinator.transaction_loader import TransactionLoader
from ...coordinator.transaction_records import encode_record
from ...coordinator.transaction_requests import (
    Effect,
    MarkersWritten,
    NeedProducerId,
    ProducerIdTaken,
    SendMarkers,
    TransactionRequest,
    TransactionsConfig,
)
from ...coordinator.transaction_shard import TransactionShard
from ...coordinator.transactions_state import transaction_error_response
from ...metadata.features import TRANSACTION_VERSION
from ...metadata.image import MetadataImage, TopicPartition
from ...metadata.internal_topics import TRANSACTION_STATE_TOPIC
from ...protocol.errors import ErrorCode
from ...protocol.records.batch import NO_PRODUCER_ID
from ...protocol.schema import Message, Request, ResponseCallback
from ..partitions.hosted_partition import HostedPartition
from ..partitions.transaction_marker import Marker
from ..runtime.metadata_cache import MetadataCache
from .coordinator_driver import CoordinatorDriver
from .open_requests import Client, Pending
from .shard_driver import ShardDriver
from .transaction_markers import TransactionMarkers

if TYPE_CHECKING:
    from ...metadata.delta import MetadataDelta
    from ..config.broker_config import BrokerConfig
    from ..controller.producer_ids import ProducerIds
    from ..partitions.partitions import Partitions
    from ..runtime.clock import Clock
    from ..runtime.lazy import Lazy
    from .topic_creation import TopicCreation

log = logging.getLogger("odradek.transactions")
#: Delay between two attempts to write a marker.
MARKER_RETRY_MS = 50
#: A partition missing from the published metadata was deleted. Just after a start, the metadata may only be incomplete.
TRIES_FOR_UNKNOWN_PARTITIONS = 20
COMMIT_TIMEOUT_MS = 5_000
#: The retries last longer than a broker's session (9 s). Within a session a replaced coordinator learns of its
#: replacement and drops its shard. A coordinator that is cut off ends no transaction either, because the replicas of
#: its log follow another leader.
OVERTAKEN_RETRY_MS = 1_000
OVERTAKEN_TRIES = 12
#: The partition has seen a later epoch: of another coordinator that took over, or in a marker that no coordinator sent.
_OVERTAKEN = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)


class TransactionDriver(CoordinatorDriver["TransactionShardDriver"]):
    """The transaction coordinators' interface for the rest of the broker: like that of groups, but by transactional id."""

    topic = TRANSACTION_STATE_TOPIC
    partitions_key = "transaction.state.log.num.partitions"
    replication_key = "transaction.state.log.replication.factor"

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        partitions: Partitions,
        topic_creation: Lazy[TopicCreation],
        metadata: MetadataCache,
        producer_ids: ProducerIds,
        markers: TransactionMarkers,
    ) -> None:
        super().__init__(config, clock, partitions, topic_creation)
        self._metadata = metadata
        self._producer_ids = producer_ids
        self._markers = markers
        self._transaction_version = 0

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        level = image.features.level(TRANSACTION_VERSION)
        if level != self._transaction_version:
            self._transaction_version = level
            for shard in self._shards.values():
                shard.reconfigure(self._transactions_config())
        super().apply(delta, image)

    def _topic_configs(self) -> dict[str, str]:
        config = self._config
        return {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "unclean.leader.election.enable": "false",
            "min.insync.replicas": str(config.get("transaction.state.log.min.isr")),
            "segment.bytes": str(config.get("transaction.state.log.segment.bytes")),
        }

    def _new_shard(self, partition: HostedPartition) -> TransactionShardDriver:
        return TransactionShardDriver(
            partition,
            self._transactions_config(),
            self._clock,
            self._metadata,
            self._producer_ids,
            self._markers,
        )

    def _not_here(self, request: Request, version: int) -> Message:
        return transaction_error_response(request, version, ErrorCode.NOT_COORDINATOR)

    def _transactions_config(self) -> TransactionsConfig:
        config = self._config
        return TransactionsConfig(
            max_timeout_ms=config.get("transaction.max.timeout.ms"),
            expiration_ms=config.get("transactional.id.expiration.ms"),
            abort_interval_ms=config.get("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            remove_expired_interval_ms=config.get("transaction.remove.expired.transaction.cleanup.interval.ms"),
            transaction_version=self._transaction_version,
        )


class TransactionShardDriver(ShardDriver[TransactionShard]):
    """Drives the shard of one partition of `__transaction_state`, and sends the markers that it requests."""

    _encode: Callable[[Record], tuple[bytes, bytes | None]] = staticmethod(encode_record)
    _error_response: Callable[[Message, int, ErrorCode], Message] = staticmethod(transaction_error_response)

    def __init__(
        self,
        partition: HostedPartition,
        config: TransactionsConfig,
        clock: Callable[[], int],
        metadata: MetadataCache,
        producer_ids: ProducerIds,
        markers: TransactionMarkers,
    ) -> None:
        super().__init__(partition, config, clock, COMMIT_TIMEOUT_MS)
        self._metadata = metadata
        self._producer_ids = producer_ids
        self._markers = markers
        #: The new producer id for the request that is being submitted.
        self._new_producer_id = NO_PRODUCER_ID

    def _new_loader(self) -> TransactionLoader:
        return TransactionLoader(self._config, self.partition.name)

    # Requests.

    def submit(self, request: Request, version: int, client: Client, reply: ResponseCallback) -> None:
        shard = self._shard
        if shard is not None and shard.needs_producer_id(request, version):
            self._producer_ids.take(partial(self._submit_with_id, request, version, client, reply))
        else:
            super().submit(request, version, client, reply)

    def _submit_with_id(
        self,
        request: Request,
        version: int,
        client: Client,
        reply: ResponseCallback,
        error: int,
        producer_id: int,
    ) -> None:
        if error:
            reply(transaction_error_response(request, version, error))
            return
        self._new_producer_id = producer_id
        super().submit(request, version, client, reply)
        self._new_producer_id = NO_PRODUCER_ID

    def _message(self, pending: Pending, version: int, client: Client) -> TransactionRequest:
        return TransactionRequest(pending, pending.request, version, self._new_producer_id)

    # Markers.

    def _respond(self, replies: Sequence[Effect]) -> None:
        """Answers the requests. Where markers are due on this broker, it does so once they are written: the producers'
        next transactions need not wait for them.
        """
        responses, has_markers = list[Reply](), False
        for reply in replies:
            if type(reply) is SendMarkers:
                has_markers = True
                self._send(reply)
            elif type(reply) is NeedProducerId:
                self._producer_ids.take(partial(self._id_taken, reply.transactional_id))
            else:
                responses.append(reply)  # type: ignore[arg-type]
        if has_markers:
            self._markers.when_written(partial(super()._respond, responses))
        else:
            super()._respond(responses)

    def _reject(self, replies: Sequence[Effect], error: ErrorCode) -> None:
        """Fails the replies. The decisions stand: `_respond` sends their markers once the replicas have caught up."""
        responses = [reply for reply in replies if type(reply) not in (SendMarkers, NeedProducerId)]
        super()._reject(responses, error)  # type: ignore[arg-type]

    def _id_taken(self, transactional_id: str, error: int, producer_id: int) -> None:
        if not error and self._shard is not None:
            self.tell(ProducerIdTaken(transactional_id, producer_id))

    def _send(self, markers: SendMarkers) -> None:
        if not markers.partitions:
            self._hand_written(markers, frozenset())
        for partition in markers.partitions:
            self._send_one(markers, partition, 0)

    def _send_one(self, markers: SendMarkers, partition: TopicPartition, tries: int, overtaken: int = 0) -> None:
        if self._shard is None or not self._shard.awaits(markers, partition):
            return
        topic, index = partition
        if self._metadata.image.partition(topic, index) is None and tries >= TRIES_FOR_UNKNOWN_PARTITIONS:
            self._hand_written(markers, frozenset({partition}))
            return
        marker = Marker(
            markers.producer_id, markers.producer_epoch, markers.committed, self.epoch, markers.transaction_version
        )
        self._markers.send(topic, index, marker, partial(self._sent, markers, partition, tries + 1, overtaken))

    def _sent(self, markers: SendMarkers, partition: TopicPartition, tries: int, overtaken: int, error: int) -> None:
        if not error or error == ErrorCode.POLICY_VIOLATION:
            # A topic that has become a mirror meanwhile has the transaction as far as its source has it.
            self._hand_written(markers, frozenset({partition}))
        elif error in _OVERTAKEN:
            self._overtaken(markers, partition, tries, overtaken + 1)
        else:
            self._loop.call_later(MARKER_RETRY_MS / 1000, self._send_one, markers, partition, tries)

    def _overtaken(self, markers: SendMarkers, partition: TopicPartition, tries: int, overtaken: int) -> None:
        """Retries while another coordinator may exist; then ends the transaction without this marker.

        Otherwise the transactional id would be unusable until it expires, and it does not expire while it waits.
        """
        name = shown(markers.transactional_id)
        if overtaken == 1:
            log.warning(
                "%s: partition %s has a transaction marker with a later coordinator epoch; the marker is retried",
                name,
                partition,
            )
        if overtaken < OVERTAKEN_TRIES:
            self._loop.call_later(OVERTAKEN_RETRY_MS / 1000, self._send_one, markers, partition, tries, overtaken)
        elif self._shard is not None and self._shard.awaits(markers, partition):
            decision = "committed" if markers.committed else "aborted"
            log.error(
                "%s: the transaction is %s, but %s has a marker with a later coordinator epoch and rejects this "
                "transaction's marker",
                name,
                decision,
                partition,
            )
            self._hand_written(markers, frozenset({partition}))

    def _hand_written(self, markers: SendMarkers, partitions: frozenset[TopicPartition]) -> None:
        shard = self._shard
        if shard is None:
            return
        now_ms = self._clock()
        shard.handle(
            MarkersWritten(markers.transactional_id, markers.producer_id, markers.producer_epoch, partitions), now_ms
        )
        self._collect_output(shard, now_ms)
