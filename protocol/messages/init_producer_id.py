"""InitProducerId (key 22): a producer id and epoch, for idempotence or for a transactional id.

Without a transactional id any broker answers with an id of the block that it holds. With one, the coordinator bumps
the epoch, which fences earlier producers of that id, and aborts the transaction that they left
(CONCURRENT_TRANSACTIONS until it has). Version 6 is not offered: two-phase commit is unstable.

Versions 0-6, flexible from 2. Additions by version:
- 3: the id and epoch that the producer has, to go on after an error (KIP-360)
- 4: may answer PRODUCER_FENCED (KIP-588)
- 5: may answer TRANSACTION_ABORTABLE (KIP-890)
- 6: two-phase commit, a prepared transaction may be kept (KIP-939)
"""

from __future__ import annotations

from ..schema import BOOL, INT16, INT32, INT64, STRING, Message, Request, message, wire


@message("0-6", flexible="2+", key=22)
class InitProducerIdRequest(Request["InitProducerIdResponse"]):
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
