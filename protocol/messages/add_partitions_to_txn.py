"""AddPartitionsToTxn (key 24), versions 0-5, flexible from 3."""

from __future__ import annotations

from ..schema import BOOL, INT16, INT32, INT64, STRING, Message, array, message, struct, wire


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
class AddPartitionsToTxnRequest(Message):
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
