"""AllocateProducerIds (key 67), versions 0, flexible from 0."""

from __future__ import annotations

from ..schema import INT16, INT32, INT64, Message, message, wire


@message("0", flexible="0+", key=67)
class AllocateProducerIdsRequest(Message):
    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64, default=-1)


@message("0", flexible="0+", key=67)
class AllocateProducerIdsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    producer_id_start: int = wire(INT64)
    producer_id_len: int = wire(INT32)
