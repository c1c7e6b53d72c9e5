"""AddPartitionsToTxn (key 24): partitions become part of a transaction before they are written to.

Up to version 3 from producers, from 4 on from brokers, for many transactions at once, also only to verify that a
partition is in one (KIP-890). All partitions of a transaction are added or none, the others answering
OPERATION_NOT_ATTEMPTED.

Versions 0-5, flexible from 3. Additions by version:
- 2: may answer PRODUCER_FENCED (KIP-588)
- 4: many transactions, verify only, an error for the whole (KIP-890)
- 5: may answer TRANSACTION_ABORTABLE
"""

from __future__ import annotations

from ..schema import BOOL, INT16, INT32, INT64, STRING, Message, Request, array, message, struct, wire


@struct
class AddPartitionsToTxnTopic(Message):
    name: str = wire(STRING)
    partitions: list[int] = wire(array(INT32))


@struct
class AddPartitionsToTxnTransaction(Message):
    transactional_id: str = wire(STRING, "4+")
    producer_id: int = wire(INT64, "4+")
    producer_epoch: int = wire(INT16, "4+")
    verify_only: bool = wire(BOOL, "4+")
    topics: list[AddPartitionsToTxnTopic] = wire(array(AddPartitionsToTxnTopic), "4+")


@message("0-5", flexible="3+", key=24)
class AddPartitionsToTxnRequest(Request["AddPartitionsToTxnResponse"]):
    transactions: list[AddPartitionsToTxnTransaction] = wire(array(AddPartitionsToTxnTransaction), "4+")
    v3_and_below_transactional_id: str = wire(STRING, "0-3")
    v3_and_below_producer_id: int = wire(INT64, "0-3")
    v3_and_below_producer_epoch: int = wire(INT16, "0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = wire(array(AddPartitionsToTxnTopic), "0-3")


@struct
class AddPartitionsToTxnPartitionResult(Message):
    partition_index: int = wire(INT32)
    partition_error_code: int = wire(INT16)


@struct
class AddPartitionsToTxnTopicResult(Message):
    name: str = wire(STRING)
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = wire(array(AddPartitionsToTxnPartitionResult))


@struct
class AddPartitionsToTxnResult(Message):
    transactional_id: str = wire(STRING, "4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = wire(array(AddPartitionsToTxnTopicResult), "4+")


@message("0-5", flexible="3+", key=24)
class AddPartitionsToTxnResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16, "4+")
    results_by_transaction: list[AddPartitionsToTxnResult] = wire(array(AddPartitionsToTxnResult), "4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = wire(
        array(AddPartitionsToTxnTopicResult), "0-3"
    )
