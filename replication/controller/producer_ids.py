"""AllocateProducerIds (KIP-730): brokers get blocks of producer ids. Each id is used once in the lifetime of a
cluster.
"""

from __future__ import annotations

from ...metadata.producer_id_floor import producer_id_floor
from ...protocol.errors import ErrorCode
from ...protocol.internal.cluster_metadata import ProducerIdsRecord
from ...protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from .brokers import check_epoch
from .result import ControllerResult, RequestError
from .state import ControllerState

PRODUCER_IDS_PER_BLOCK = 1000
_LAST_PRODUCER_ID = (1 << 63) - 1


def allocate_producer_ids(
    state: ControllerState, request: AllocateProducerIdsRequest, version: int
) -> ControllerResult:
    check_epoch(state, request.broker_id, request.broker_epoch)
    first = max(state.image.next_producer_id, producer_id_floor(state.image))
    if first > _LAST_PRODUCER_ID - PRODUCER_IDS_PER_BLOCK:
        raise RequestError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"Exhausted all producerIds as the next block starts at {first}"
        )
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=first + PRODUCER_IDS_PER_BLOCK,
    )
    response = AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=PRODUCER_IDS_PER_BLOCK)
    return ControllerResult([record], response)
