"""The check of a transactional Produce before it is written: its partitions must be in the transaction (KIP-890).

Each partition remembers its pending verification (`storage/log/verifications.py`). A verification that completes after the
end of its transaction is void. Batches sent after a batch that has to be sent again are not written before it.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ...metadata.topic_partitions import TopicPartition
from ...protocol.errors import ErrorCode
from ...protocol.messages.produce import ProduceRequest
from ...protocol.records.batch import HEADER_BYTES, MAGIC, TRANSACTIONAL_FLAG
from ...storage.log.verifications import Verification
from ..coordinators.transaction_verification import Membership

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..network.call import Call

#: From here on clients speak transaction version 2: writing to a partition adds it.
FIRST_ADDING_VERSION = 12
#: From here on they know TRANSACTION_ABORTABLE.
FIRST_ABORTABLE_VERSION = 11
FIRST_VERSION_WITH_TOPIC_IDS = 13
_MAGIC_AT, _ATTRIBUTES_AT, _PRODUCER_AT = 16, 22, 43
_unpack_producer = struct.Struct(">qhi").unpack_from

#: The coordinator is away, or busy: a producer tries again by itself.
_LATER = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


class Unasked(NamedTuple):
    """The request to the coordinator, and the verification that each partition keeps of it."""

    membership: Membership
    verifications: dict[TopicPartition, Verification]


def is_trusted(call: Call) -> bool:
    """Returns True if the client is trusted to have added its partitions, as by brokers before KIP-890."""
    return call.version < FIRST_ADDING_VERSION and not call.broker.config.get(
        "transaction.partition.verification.enable"
    )


def unasked(call: Call) -> Unasked | None:
    """The partitions written to of which it is not known here that they are in the transaction; None for none."""
    request: ProduceRequest = call.request
    adds = call.version >= FIRST_ADDING_VERSION
    by_id = call.version >= FIRST_VERSION_WITH_TOPIC_IDS
    partitions = call.broker.partitions
    find: Any = partitions.get_by_id if by_id else partitions.get
    verifications: dict[TopicPartition, Verification] = {}
    producer = (-1, -1)
    now_ms = call.broker.now_ms()
    for topic in request.topic_data:
        key = topic.topic_id if by_id else topic.name
        for data in topic.partition_data:
            hosted = find((key, data.index))
            found = _producer(data.records)
            if found is None or hosted is None or not hosted.is_leader or hosted.is_in_transaction(*found[:2]):
                continue
            producer = found[:2]
            verification = hosted.log.producers.verify(*found, now_ms, bumps_epochs=adds)
            verifications[hosted.topic, hosted.index] = verification
    if not verifications:
        return None
    assert request.transactional_id is not None
    return Unasked(Membership(request.transactional_id, *producer, tuple(verifications), adds), verifications)


def _producer(records: Any) -> tuple[int, int, int] | None:
    """Id and epoch of a transactional batch's producer, and its first sequence number."""
    if records is None or len(records) < HEADER_BYTES or not records[_ATTRIBUTES_AT] & TRANSACTIONAL_FLAG:
        return None
    # Only what is a batch of format 2 has them there; whatever else is wrong with it, its checks will find.
    return _unpack_producer(records, _PRODUCER_AT) if records[_MAGIC_AT] == MAGIC else None


def ask_first(call: Call, asked: Unasked, go_on: Callable[[dict[TopicPartition, int]], None]) -> None:
    """Has the coordinator asked; the connection's next request waits, so that batches stay in their order.

    `go_on` gets an error code, or 0, for each partition whose question still stands.
    """
    for topic in call.request.topic_data:
        for data in topic.partition_data:
            if data.records is not None:
                # The receive buffer will be used for others.
                data.records = bytearray(data.records)
    call.hold_connection()
    call.broker.transaction_verification.verify(call, asked.membership, partial(_answered, call, asked, go_on))


def _answered(
    call: Call, asked: Unasked, go_on: Callable[[dict[TopicPartition, int]], None], errors: dict[TopicPartition, int]
) -> None:
    go_on(
        {
            place: _for_producers(error, call.version)
            for place, error in errors.items()
            if error or _still_stands(call, asked, place)
        }
    )


def _still_stands(call: Call, asked: Unasked, place: TopicPartition) -> bool:
    hosted = call.broker.partitions.get(place)
    producer_id = asked.membership.producer_id
    return hosted is not None and hosted.log.producers.verifications.get(producer_id) is asked.verifications[place]


def _for_producers(error: int, version: int) -> int:
    if error in _LATER:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error == ErrorCode.CONCURRENT_TRANSACTIONS and version < FIRST_ADDING_VERSION:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error == ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_ABORTABLE_VERSION:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.INVALID_PRODUCER_EPOCH if error == ErrorCode.PRODUCER_FENCED else error
