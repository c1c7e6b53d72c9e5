"""EndTxn (key 26), versions 0-5, flexible from 3."""

from __future__ import annotations

from ..schema import BOOL, INT16, INT32, INT64, STRING, Message, message, wire


@message("0-5", flexible="3+", key=26)
class EndTxnRequest(Message):
    transactional_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    committed: bool = wire(BOOL)


@message("0-5", flexible="3+", key=26)
class EndTxnResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    producer_id: int = wire(INT64, "5+", default=-1)
    producer_epoch: int = wire(INT16, "5+", default=-1)
