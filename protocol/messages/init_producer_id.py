"""InitProducerId (key 22), versions 0-6, flexible from 2."""

from __future__ import annotations

from ..schema import BOOL, INT16, INT32, INT64, STRING, Message, message, wire


@message("0-6", flexible="2+", key=22)
class InitProducerIdRequest(Message):
    transactional_id: str | None = wire(STRING, nullable="0+")
    transaction_timeout_ms: int = wire(INT32)
    producer_id: int = wire(INT64, "3+", default=-1)
    producer_epoch: int = wire(INT16, "3+", default=-1)
    enable2_pc: bool = wire(BOOL, "6+")
    keep_prepared_txn: bool = wire(BOOL, "6+")


@message("0-6", flexible="2+", key=22)
class InitProducerIdResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    producer_id: int = wire(INT64, default=-1)
    producer_epoch: int = wire(INT16)
    ongoing_txn_producer_id: int = wire(INT64, "6+", default=-1)
    ongoing_txn_producer_epoch: int = wire(INT16, "6+", default=-1)
