"""The transaction coordinators on this broker: shards of `__transaction_state`, and the markers that they request.

- `TransactionMarkers`: writes markers into partitions. The leader of a partition writes its marker.
- `TransactionDriver`: the coordinators' interface for the rest of the broker. The state machine is
  coordinator/transaction_shard.py.
- `TransactionShardDriver`: one shard, driven as those of groups are. A marker that cannot be written is retried until
  the shard is dropped. The next broker that loads the partition's log finds the decision in it and continues.
- `TransactionVerification`: verifies with the coordinator that partitions are in a producer's transaction, before
  anything is written (KIP-890).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ...client.shown_text import shown
from ...coordinator.result import Record, Reply
from ...coordinator.transaction import (
    NO_PRODUCER_ID,
    Effect,
    MarkersWritten,
    NeedProducerId,
    ProducerIdTaken,
    SendMarkers,
    TransactionRequest,
    TransactionsConfig,
    encode_record,
    error_response,
)
from ...coordinator.transaction_shard import TransactionLoader, TransactionShard
from ...metadata.features import TRANSACTION_VERSION
from ...metadata.image import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, MetadataImage, TopicPartition
from ...protocol.errors import ErrorCode
from ...protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ...protocol.schema import Message, ResponseCallback
from ..partitions.batch_validation import AppendResult
from ..partitions.hosted_partition import HostedPartition, Marker
from ..runtime.subsystem import MetadataCache
from .coordinator_driver import CoordinatorDriver, GroupDriver
from .shard_driver import Client, Pending, ShardDriver

if TYPE_CHECKING:
    from ...client.peers import Peers
    from ...metadata.delta import MetadataDelta
    from ..config.broker_config import BrokerConfig
    from ..controller.cluster_view import Leaders
    from ..controller.producer_ids import ProducerIds
    from ..partitions.partitions import Partitions
    from ..runtime.clock import Clock
    from ..runtime.subsystem import Lazy
    from .topic_creation import TopicCreation


# ---- markers
#
# Writes the markers of transactions into partitions.
#
# Markers for partitions led by this broker come from WriteTxnMarkers requests and from this broker's coordinator. For
# partitions led by other brokers, the coordinator sends those brokers WriteTxnMarkers.


#: The time for another broker to write and replicate a marker; afterwards the coordinator retries.
MARKERS_TIMEOUT_MS = 30_000
MARKERS_PURPOSE = "transaction-markers"


class TransactionMarkers:
    """Writes markers into the logs of partitions led here, and has the leaders of other partitions write theirs."""

    def __init__(
        self, partitions: Partitions, clock: Clock, groups: GroupDriver, leaders: Leaders, peers: Lazy[Peers]
    ) -> None:
        self._partitions = partitions
        self._clock = clock
        self._groups = groups
        self._leaders = leaders
        self._peers = peers
        #: The markers to write in the next turn, by partition, and the calls that follow.
        self._due: dict[HostedPartition, list[Asked]] = {}
        self._then: list[Callable[[], None]] = []

    def send(self, topic: str, index: int, marker: Marker, done: Callable[[int], None]) -> None:
        """Writes a marker as `write` does, on the partition's leader wherever it is."""
        endpoint = self._leaders.other_leader(topic, index)
        if endpoint is None:
            self.write(topic, index, marker, done)
            return
        producer_id, epoch, committed, coordinator_epoch, transaction_version = marker
        topics = [WritableTxnMarkerTopic(topic, [index])]
        asked = WritableTxnMarker(producer_id, epoch, committed, topics, coordinator_epoch, transaction_version)

        def answered(response: WriteTxnMarkersResponse | None) -> None:
            if response is None:
                done(ErrorCode.NETWORK_EXCEPTION)
            else:
                done(response.markers[0].topics[0].partitions[0].error_code)

        request = WriteTxnMarkersRequest([asked])
        self._peers().send(endpoint, request, answered, timeout_ms=MARKERS_TIMEOUT_MS, purpose=MARKERS_PURPOSE)

    def write(self, topic: str, index: int, marker: Marker, done: Callable[[int], None]) -> None:
        """Writes a marker into a partition led here, in the next turn. `done` gets an error code, or 0 when the marker is
        committed. A marker for a group's offsets also goes to the group's shard.
        """
        hosted = self._partitions.get((topic, index))
        if hosted is None:
            done(self._leaders.absent_error(topic, index))
        elif topic == GROUP_METADATA_TOPIC:
            self._groups.end_transaction(index, marker, done)
        else:
            if not self._due:
                asyncio.get_running_loop().call_soon(self._write_due)
            self._due.setdefault(hosted, []).append((marker, done))

    def when_written(self, then: Callable[[], None]) -> None:
        """Calls `then` once the markers that are due here have been written; immediately if there are none."""
        if self._due:
            self._then.append(then)
        else:
            then()

    def _write_due(self) -> None:
        """Writes the markers that came in one turn: those of a partition together, whatever their coordinators."""
        due, self._due = self._due, {}
        then, self._then = self._then, []
        for hosted, asked in due.items():
            for part in of_distinct_producers(asked):
                self._write_some(hosted, part)
        for call in then:
            _contained(call, "a reply")

    def _write_some(self, hosted: HostedPartition, asked: list[Asked]) -> None:
        try:
            results = hosted.end_transactions([marker for marker, _ in asked], self._clock.now_ms())
        except Exception:
            log.exception("a bug: markers could not be written into %s", hosted.name)
            results = [AppendResult(ErrorCode.UNKNOWN_SERVER_ERROR)] * len(asked)
        for (_, done), result in zip(asked, results, strict=True):
            if result.error:
                _contained(partial(done, result.error), hosted.name)
            else:
                _contained(partial(hosted.when_committed, result.end_offset, done), hosted.name)


def _contained(call: Callable[[], None], what: str) -> None:
    """Isolates failures: the markers of other transactions are still written."""
    try:
        call()
    except Exception:
        log.exception("a bug: the end of a transaction failed: %s", what)


#: The markers of one write: 8 KB.
MOST_MARKERS = 100
Asked = tuple[Marker, Callable[[int], None]]


def of_distinct_producers(asked: Sequence[Asked]) -> Iterator[list[Asked]]:
    """Yields the markers in their order, in parts with one of each producer: the first of two decides on the second."""
    part: list[Asked] = []
    producers: set[int] = set()
    for one in asked:
        if one[0].producer_id in producers or len(part) == MOST_MARKERS:
            yield part
            part, producers = [], set()
        part.append(one)
        producers.add(one[0].producer_id)
    if part:
        yield part


# ---- coordinators

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

    def _not_here(self, request: Message, version: int) -> Message:
        return error_response(request, version, ErrorCode.NOT_COORDINATOR)

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
    _error_response: Callable[[Message, int, ErrorCode], Message] = staticmethod(error_response)

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

    def submit(self, request: Message, version: int, client: Client, reply: ResponseCallback) -> None:
        shard = self._shard
        if shard is not None and shard.needs_producer_id(request, version):
            self._producer_ids.take(partial(self._submit_with_id, request, version, client, reply))
        else:
            super().submit(request, version, client, reply)

    def _submit_with_id(
        self,
        request: Message,
        version: int,
        client: Client,
        reply: ResponseCallback,
        error: int,
        producer_id: int,
    ) -> None:
        if error:
            reply(error_response(request, version, error))
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
        """Fails the replies. The decisions stand: `_answer` sends their markers once the replicas have caught up."""
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
        if not error:
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
        now = self._clock()
        shard.handle(
            MarkersWritten(markers.transactional_id, markers.producer_id, markers.producer_epoch, partitions), now
        )
        self._collect_output(shard, now)


# ---- verification

ADDING_VERSION = 5
VERIFICATION_TIMEOUT_MS = 10_000
VERIFICATION_PURPOSE = "transaction-membership"

#: Called with an error code, or 0, for each of the partitions.
Answered = Callable[[dict[TopicPartition, int]], None]
#: Called before the coordinator is requested again.
Retried = Callable[[], None]


class Membership(NamedTuple):
    """A producer's request for verification: `adds` the partitions, or only looks them up."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    adds: bool


class TransactionVerification:
    """Sends verifications to the coordinators of transactions, on this broker or another.

    For clients with transaction version 2, a write adds the partition to the transaction. Older clients add
    partitions beforehand, so their partitions are only looked up. When partitions are added while the previous
    transaction is still ending (CONCURRENT_TRANSACTIONS), the broker waits a little, because the client would only
    retry.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        transactions: TransactionDriver,
        leaders: Leaders,
        peers: Lazy[Peers],
    ) -> None:
        self._config = config
        self._clock = clock
        self._transactions = transactions
        self._leaders = leaders
        self._peers = peers

    def verify(self, client: Client, asked: Membership, answered: Answered, retried: Retried) -> None:
        """Verifies the partitions. `answered` may be called immediately, or when the coordinator's log is committed."""
        most_backoff_ms: int = self._config.get("add.partitions.to.txn.retry.backoff.max.ms")
        self._ask(client, asked, answered, retried, self._clock.now_ms() + most_backoff_ms)

    def _ask(self, client: Client, asked: Membership, answered: Answered, retried: Retried, until_ms: int) -> None:
        topics: dict[str, list[int]] = {}
        for topic, index in asked.partitions:
            topics.setdefault(topic, []).append(index)
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=asked.transactional_id,
            producer_id=asked.producer_id,
            producer_epoch=asked.producer_epoch,
            verify_only=not asked.adds,
            topics=[AddPartitionsToTxnTopic(topic, indexes) for topic, indexes in topics.items()],
        )
        request = AddPartitionsToTxnRequest(transactions=[transaction])
        reply = partial(self._replied, client, asked, answered, retried, until_ms)
        transactions = self._transactions
        index = transactions.partition_for(asked.transactional_id)
        endpoint = self._leaders.other_leader(transactions.topic, index)
        if endpoint is None:
            transactions.submit(asked.transactional_id, request, ADDING_VERSION, client, reply)
        else:
            self._peers().send(
                endpoint, request, reply, timeout_ms=VERIFICATION_TIMEOUT_MS, purpose=VERIFICATION_PURPOSE
            )

    def _replied(
        self,
        client: Client,
        asked: Membership,
        answered: Answered,
        retried: Retried,
        until_ms: int,
        response: AddPartitionsToTxnResponse | None,
    ) -> None:
        """Handles the coordinator's response; None when a coordinator on another broker could not be reached."""
        error = ErrorCode.NETWORK_EXCEPTION if response is None else ErrorCode(response.error_code)
        errors: dict[TopicPartition, int] = dict.fromkeys(asked.partitions, int(error))
        if response is not None and not error:
            errors |= {
                (topic.name, one.partition_index): one.partition_error_code
                for transaction in response.results_by_transaction
                for topic in transaction.topic_results
                for one in topic.results_by_partition
            }
        now_ms = self._clock.now_ms()
        if asked.adds and ErrorCode.CONCURRENT_TRANSACTIONS in errors.values() and now_ms < until_ms:
            backoff_ms: int = self._config.get("add.partitions.to.txn.retry.backoff.ms")
            again = partial(self._ask_again, client, asked, answered, retried, until_ms)
            self._clock.call_at(now_ms + backoff_ms, again)
        else:
            answered(errors)

    def _ask_again(
        self, client: Client, asked: Membership, answered: Answered, retried: Retried, until_ms: int
    ) -> None:
        retried()
        self._ask(client, asked, answered, retried, until_ms)
