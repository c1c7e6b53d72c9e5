"""DescribeTransactions (key 65): state, producer, timeout and partitions of transactions.

Asked of each id's coordinator; TRANSACTIONAL_ID_NOT_FOUND. Partitions that the caller may not describe are left out
(KIP-664).

Version 0, flexible.
"""

from __future__ import annotations

from ..schema import INT16, INT32, INT64, STRING, Message, Request, array, message, struct, wire


@message("0", flexible="0+", key=65)
class DescribeTransactionsRequest(Request["DescribeTransactionsResponse"]):
    transactional_ids: list[str] = wire(array(STRING))


@struct
class TransactionTopic(Message):
    topic: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


@struct
class TransactionState(Message):
    error_code: int = wire(INT16)
    transactional_id: str = wire(STRING)
    transaction_state: str = wire(STRING)
    transaction_timeout_ms: int = wire(INT32)
    transaction_start_time_ms: int = wire(INT64)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    topics: list[TransactionTopic] = wire(array(TransactionTopic))


@message("0", flexible="0+", key=65)
class DescribeTransactionsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    transaction_states: list[TransactionState] = wire(array(TransactionState))
