"""Transactions: partitions and groups that join one, its end, its markers, descriptions."""

from __future__ import annotations

from ..schema import BOOL, INT8, INT16, INT32, INT64, STRING, Message, array, message, struct, wire

# AddPartitionsToTxn (key 24): partitions become part of a transaction before they are written to.
#
# Up to version 3 from producers, from 4 on from brokers, for many transactions at once, also only to verify that a
# partition is in one (KIP-890). All partitions of a transaction are added or none, the others answering
# OPERATION_NOT_ATTEMPTED.
#
# Versions 0-5, flexible from 3. Additions by version:
# - 2: may answer PRODUCER_FENCED (KIP-588)
# - 4: many transactions, verify only, an error for the whole (KIP-890)
# - 5: may answer TRANSACTION_ABORTABLE


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


# AddOffsetsToTxn (key 25): a group's offsets become part of a transaction.
#
# Adds the partition of `__consumer_offsets` that holds the group; TxnOffsetCommit to the group's coordinator follows.
#
# Versions 0-4, flexible from 3. Additions by version:
# - 2: may answer PRODUCER_FENCED (KIP-588)
# - 4: may answer TRANSACTION_ABORTABLE (KIP-890)


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


# EndTxn (key 26): commits or aborts a transaction.
#
# Answered when the decision is in `__transaction_state`; the markers follow to all its partitions.
# CONCURRENT_TRANSACTIONS while an earlier end is not through. The same decision twice is a success, the other one
# INVALID_TXN_STATE.
#
# Versions 0-5, flexible from 3. Additions by version:
# - 2: may answer PRODUCER_FENCED (KIP-588)
# - 4: may answer TRANSACTION_ABORTABLE (KIP-890)
# - 5: the epoch is bumped with every end and returned (KIP-890, part 2)


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


# WriteTxnMarkers (key 27): the transaction coordinator tells leaders to end transactions.
#
# Between brokers only. Each marker becomes a control batch in its partitions; for `__consumer_offsets` the pending
# commits are applied or dropped. A coordinator epoch older than the last seen is TRANSACTION_COORDINATOR_FENCED.
#
# Versions 1-2, all flexible. Additions by version:
# - 2: transaction version of each marker, which decides how the epoch is checked (KIP-1228)


@struct
class WritableTxnMarkerTopic(Message):
    name: str = wire(STRING)
    partition_indexes: list[int] = wire(array(INT32))


@struct
class WritableTxnMarker(Message):
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    transaction_result: bool = wire(BOOL)
    topics: list[WritableTxnMarkerTopic] = wire(array(WritableTxnMarkerTopic))
    coordinator_epoch: int = wire(INT32)
    transaction_version: int = wire(INT8, "2+")


@message("1-2", flexible="1+", key=27)
class WriteTxnMarkersRequest(Message):
    markers: list[WritableTxnMarker] = wire(array(WritableTxnMarker))


@struct
class WritableTxnMarkerPartitionResult(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


@struct
class WritableTxnMarkerTopicResult(Message):
    name: str = wire(STRING)
    partitions: list[WritableTxnMarkerPartitionResult] = wire(array(WritableTxnMarkerPartitionResult))


@struct
class WritableTxnMarkerResult(Message):
    producer_id: int = wire(INT64)
    topics: list[WritableTxnMarkerTopicResult] = wire(array(WritableTxnMarkerTopicResult))


@message("1-2", flexible="1+", key=27)
class WriteTxnMarkersResponse(Message):
    markers: list[WritableTxnMarkerResult] = wire(array(WritableTxnMarkerResult))


# DescribeTransactions (key 65): state, producer, timeout and partitions of transactions.
#
# Asked of each id's coordinator; TRANSACTIONAL_ID_NOT_FOUND. Partitions that the caller may not describe are left out
# (KIP-664).
#
# Version 0, flexible.


@message("0", flexible="0+", key=65)
class DescribeTransactionsRequest(Message):
    transactional_ids: list[str] = wire(array(STRING))


@struct
class TopicData(Message):
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
    topics: list[TopicData] = wire(array(TopicData))


@message("0", flexible="0+", key=65)
class DescribeTransactionsResponse(Message):
    throttle_time_ms: int = wire(INT32)
    transaction_states: list[TransactionState] = wire(array(TransactionState))


# ListTransactions (key 66): the transactions that this broker coordinates.
#
# Filters by state, by producer id, by how long they have run. An unknown state is returned as such (KIP-664).
#
# Versions 0-2, all flexible. Additions by version:
# - 1: how long they have run (KIP-994)
# - 2: a pattern for the ids, INVALID_REGULAR_EXPRESSION (KIP-1152)


@message("0-2", flexible="0+", key=66)
class ListTransactionsRequest(Message):
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
