"""EndTxn (key 26): commits or aborts a transaction.

Answered when the decision is in `__transaction_state`; the markers follow to all its partitions.
CONCURRENT_TRANSACTIONS while an earlier end is not through. The same decision twice is a success, the other one
INVALID_TXN_STATE.

Versions 0-5, flexible from 3. Additions by version:
- 2: may answer PRODUCER_FENCED (KIP-588)
- 4: may answer TRANSACTION_ABORTABLE (KIP-890)
- 5: the epoch is bumped with every end and returned (KIP-890, part 2)
"""

from __future__ import annotations

from ..schema import BOOL, INT16, INT32, INT64, STRING, Message, Request, message, wire


@message("0-5", flexible="3+", key=26)
class EndTxnRequest(Request["EndTxnResponse"]):
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
