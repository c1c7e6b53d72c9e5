"""The check of a transactional Produce before it is written: its partitions must be in the transaction (KIP-890).

Each partition remembers its pending verification (`storage/log/producers.py`). A verification that completes after the
end of its transaction is void. Batches sent after a batch that has to be sent again are not written before it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.behaviour_versions import PRODUCE_ADDS_PARTITIONS, PRODUCE_WITH_ABORTABLE
from ...protocol.errors import ErrorCode
from ...protocol.records.batch import (
    FLAGS_AT,
    HEADER_BYTES,
    MAGIC,
    MAGIC_AT,
    PRODUCER_AT,
    TRANSACTIONAL_FLAG,
    unpack_producer,
)
from ..coordinators.transaction_verification import Membership
from .produce_authorization import WITH_TOPIC_IDS

if TYPE_CHECKING:
    from collections.abc import Callable, Set

    from ...metadata.image import TopicPartition
    from ...protocol.messages.produce import ProduceRequest
    from ...protocol.schema import Records
    from ...storage.log.verifications import Verification
    from ..config.broker_config import BrokerConfig
    from ..coordinators.transaction_verification import TransactionVerification
    from ..network.call import Call
    from ..partitions.partitions import Partitions
    from ..runtime.clock import Clock
    from .produce_authorization import TopicKey


#: The coordinator is away, or busy: a producer tries again by itself.
_RETRIABLE = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


class Unverified(NamedTuple):
    """The request to the coordinator, and the verification that each partition keeps of it.

    `sequences`: the first sequence number of each partition's batch.
    """

    membership: Membership
    verifications: dict[TopicPartition, Verification]
    sequences: dict[TopicPartition, int]


class TransactionalProduce:
    """Verifies the partitions of a transactional Produce with the transaction's coordinator."""

    def __init__(
        self, config: BrokerConfig, clock: Clock, partitions: Partitions, verification: TransactionVerification
    ) -> None:
        self._config = config
        self._clock = clock
        self._partitions = partitions
        self._verification = verification

    def is_trusted(self, version: int) -> bool:
        """Returns True if such clients are trusted to have added their partitions, as by brokers before KIP-890."""
        return version not in PRODUCE_ADDS_PARTITIONS and not self._config.get(
            "transaction.partition.verification.enable"
        )

    def unverified(self, call: Call[ProduceRequest], denied: Set[TopicKey] = frozenset()) -> Unverified | None:
        """Returns the partitions of the request of which this broker does not know that they are in the transaction; None
        when there are none. `denied`: names or ids of topics to leave out.
        """
        request = call.request
        adds = call.version in PRODUCE_ADDS_PARTITIONS
        by_id = call.version in WITH_TOPIC_IDS
        find: Any = self._partitions.get_by_id if by_id else self._partitions.get
        verifications: dict[TopicPartition, Verification] = {}
        sequences: dict[TopicPartition, int] = {}
        producer = (-1, -1)
        now_ms = self._clock.now_ms()
        for topic in request.topic_data:
            key = topic.topic_id if by_id else topic.name
            if key in denied:
                continue
            for data in topic.partition_data:
                hosted = find((key, data.index))
                found = _producer(data.records)
                if found is None or hosted is None or not hosted.is_leader or hosted.is_in_transaction(*found[:2]):
                    continue
                producer = found[:2]
                verification = hosted.log.producers.verify(*found, now_ms, bumps_epochs=adds)
                verifications[hosted.topic, hosted.index] = verification
                sequences[hosted.topic, hosted.index] = found[2]
        if not verifications:
            return None
        assert request.transactional_id is not None
        membership = Membership(request.transactional_id, *producer, tuple(verifications), adds)
        return Unverified(membership, verifications, sequences)

    def verify(
        self, call: Call[ProduceRequest], asked: Unverified, verified: Callable[[dict[TopicPartition, int]], None]
    ) -> None:
        """Has the coordinator verify the partitions. The connection's next request waits: batches stay in their order.

        `verified` gets an error code, or 0, for each partition whose verification is still valid.
        """
        for topic in call.request.topic_data:
            for data in topic.partition_data:
                if data.records is not None:
                    # The receive buffer will be used for others.
                    data.records = bytearray(data.records)
        call.hold_connection()

        def answered(errors: dict[TopicPartition, int]) -> None:
            verified(
                {
                    place: _for_producers(error, call.version)
                    for place, error in errors.items()
                    if error or self._is_valid(asked, place)
                }
            )

        self._verification.verify(call, asked.membership, answered, partial(self._begin_again, asked))

    def _begin_again(self, asked: Unverified) -> None:
        """Begins the verifications anew: the marker of the previous transaction, which the coordinator waited for, has
        ended the first ones.
        """
        _, producer_id, epoch, _, adds = asked.membership
        for place, sequence in asked.sequences.items():
            hosted = self._partitions.get(place)
            if hosted is not None:
                producers, now_ms = hosted.open_log().producers, self._clock.now_ms()
                found = producers.verify(producer_id, epoch, sequence, now_ms, bumps_epochs=adds)
                asked.verifications[place] = found

    def _is_valid(self, asked: Unverified, place: TopicPartition) -> bool:
        hosted = self._partitions.get(place)
        producer_id = asked.membership.producer_id
        return (
            hosted is not None
            and hosted.open_log().producers.verifications.get(producer_id) is asked.verifications[place]
        )


def _producer(records: Records) -> tuple[int, int, int] | None:
    """Returns id and epoch of a transactional batch's producer, and its first sequence number; None for other batches."""
    if records is None or len(records) < HEADER_BYTES or not records[FLAGS_AT] & TRANSACTIONAL_FLAG:
        return None
    # Only what is a batch of format 2 has them there; whatever else is wrong with it, its checks will find.
    return unpack_producer(records, PRODUCER_AT) if records[MAGIC_AT] == MAGIC else None


def _for_producers(error: int, version: int) -> int:
    if error in _RETRIABLE:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error == ErrorCode.CONCURRENT_TRANSACTIONS and version not in PRODUCE_ADDS_PARTITIONS:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error == ErrorCode.TRANSACTION_ABORTABLE and version not in PRODUCE_WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.INVALID_PRODUCER_EPOCH if error == ErrorCode.PRODUCER_FENCED else error
