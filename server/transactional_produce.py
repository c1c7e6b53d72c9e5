"""What a transactional Produce asks before it is written: whether its partitions are in the transaction (KIP-890)."""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Any

from ..protocol.errors import ErrorCode
from ..protocol.messages.produce import ProduceRequest
from ..protocol.records.batch import HEADER_BYTES, MAGIC, TRANSACTIONAL_FLAG
from .transaction_membership import Membership, Place, ask

if TYPE_CHECKING:
    from collections.abc import Callable

    from .dispatch import Call

#: From here on clients speak transaction version 2: writing to a partition adds it.
FIRST_ADDING_VERSION = 12
#: From here on they know TRANSACTION_ABORTABLE.
FIRST_ABORTABLE_VERSION = 11
FIRST_VERSION_WITH_TOPIC_IDS = 13
_MAGIC_AT, _ATTRIBUTES_AT, _PRODUCER_AT = 16, 22, 43
_unpack_producer = struct.Struct(">qh").unpack_from

#: The coordinator is away, or busy: a producer tries again by itself.
_LATER = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


def is_trusted(call: Call) -> bool:
    """Whether the client is believed that it has added its partitions, as brokers did before KIP-890."""
    return call.version < FIRST_ADDING_VERSION and not call.broker.config.get(
        "transaction.partition.verification.enable"
    )


def unasked(call: Call) -> Membership | None:
    """The partitions written to of which it is not known here that they are in the transaction; None for none."""
    request: ProduceRequest = call.request
    adds = call.version >= FIRST_ADDING_VERSION
    by_id = call.version >= FIRST_VERSION_WITH_TOPIC_IDS
    partitions = call.broker.partitions
    find: Any = partitions.get_by_id if by_id else partitions.get
    places: list[Place] = []
    producer = (-1, -1)
    for topic in request.topic_data:
        key = topic.topic_id if by_id else topic.name
        for data in topic.partition_data:
            hosted = find((key, data.index))
            found = _producer(data.records)
            if found is None or hosted is None or not hosted.is_leader or hosted.is_in_transaction(*found):
                continue
            producer = found
            places.append((hosted.topic, hosted.index))
    if not places:
        return None
    assert request.transactional_id is not None
    return Membership(request.transactional_id, *producer, tuple(places), adds)


def _producer(records: Any) -> tuple[int, int] | None:
    """Id and epoch of a transactional batch's producer."""
    if records is None or len(records) < HEADER_BYTES or not records[_ATTRIBUTES_AT] & TRANSACTIONAL_FLAG:
        return None
    # Only what is a batch of format 2 has them there; whatever else is wrong with it, its checks will find.
    return _unpack_producer(records, _PRODUCER_AT) if records[_MAGIC_AT] == MAGIC else None


def ask_first(call: Call, asked: Membership, go_on: Callable[[dict[Place, int]], None]) -> None:
    """Has the coordinator asked; the connection's next request waits, so that batches stay in their order."""
    for topic in call.request.topic_data:
        for data in topic.partition_data:
            if data.records is not None:
                # The receive buffer will be used for others.
                data.records = bytearray(data.records)
    call.hold_connection()
    ask(call, asked, partial(_answered, call, go_on))


def _answered(call: Call, go_on: Callable[[dict[Place, int]], None], errors: dict[Place, int]) -> None:
    go_on({place: _for_producers(error, call.version) for place, error in errors.items()})


def _for_producers(error: int, version: int) -> int:
    if error in _LATER:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error == ErrorCode.CONCURRENT_TRANSACTIONS and version < FIRST_ADDING_VERSION:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error == ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_ABORTABLE_VERSION:
        return ErrorCode.INVALID_TXN_STATE
    return ErrorCode.INVALID_PRODUCER_EPOCH if error == ErrorCode.PRODUCER_FENCED else error
