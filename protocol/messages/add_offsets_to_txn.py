"""AddOffsetsToTxn (key 25), versions 0-4, flexible from 3."""

from __future__ import annotations

from ..schema import INT16, INT32, INT64, STRING, Message, message, wire


@message("0-4", flexible="3+", key=25)
class AddOffsetsToTxnRequest(Message):
    transactional_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    group_id: str = wire(STRING)


@message("0-4", flexible="3+", key=25)
class AddOffsetsToTxnResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
