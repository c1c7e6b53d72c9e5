"""ListTransactions (key 66): the transactions that this broker coordinates.

Filters by state, by producer id, by how long they have run. An unknown state is returned as such (KIP-664).

Versions 0-2, all flexible. Additions by version:
- 1: how long they have run (KIP-994)
- 2: a pattern for the ids, INVALID_REGULAR_EXPRESSION (KIP-1152)
"""

from __future__ import annotations

from ..schema import INT16, INT32, INT64, STRING, Message, Request, array, message, struct, wire


@message("0-2", flexible="0+", key=66)
class ListTransactionsRequest(Request["ListTransactionsResponse"]):
    state_filters: list[str] = wire(array(STRING))
    producer_id_filters: list[int] = wire(array(INT64))
    duration_filter: int = wire(INT64, "1+", default=-1)
    transactional_id_pattern: str | None = wire(STRING, "2+", nullable="2+", default=None)


@struct
class ListedTransaction(Message):
    transactional_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    transaction_state: str = wire(STRING)


@message("0-2", flexible="0+", key=66)
class ListTransactionsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    unknown_state_filters: list[str] = wire(array(STRING))
    transaction_states: list[ListedTransaction] = wire(array(ListedTransaction))
