"""AddOffsetsToTxn (key 25): a group's offsets become part of a transaction.

Adds the partition of `__consumer_offsets` that holds the group; TxnOffsetCommit to the group's coordinator follows.

Versions 0-4, flexible from 3. Additions by version:
- 2: may answer PRODUCER_FENCED (KIP-588)
- 4: may answer TRANSACTION_ABORTABLE (KIP-890)
"""

from __future__ import annotations

from ..schema import INT16, INT32, INT64, STRING, Message, Request, message, wire


@message("0-4", flexible="3+", key=25)
class AddOffsetsToTxnRequest(Request["AddOffsetsToTxnResponse"]):
    transactional_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    group_id: str = wire(STRING)


@message("0-4", flexible="3+", key=25)
class AddOffsetsToTxnResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
