"""Error responses for whole requests, in the form of each response. Older versions do not have every error code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...protocol.errors import ErrorCode
from ...protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ...protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from ...protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from ...protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ...protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ...protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ...protocol.schema import Message

#: The first version of AddPartitionsToTxn that brokers send to each other, for several transactions.
BATCHED_VERSION = 4
LATEST = 99


def error_response(request: Message, error: int, version: int = LATEST) -> Message:
    """Returns the response to `request` with `error` in every error field."""
    made: Message = _ERROR_RESPONSES[type(request)](request, error, version)
    return made


def as_known(error: int, version: int, first_version: int) -> int:
    """Replaces PRODUCER_FENCED (KIP-588) in versions without it."""
    if error == ErrorCode.PRODUCER_FENCED and version < first_version:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def _init(request: InitProducerIdRequest, error: int, version: int) -> Message:
    return InitProducerIdResponse(error_code=as_known(error, version, 4), producer_id=-1, producer_epoch=-1)


def _add_partitions(request: AddPartitionsToTxnRequest, error: int, version: int) -> Message:
    if request.transactions:
        return AddPartitionsToTxnResponse(results_by_transaction=[result(t, error) for t in request.transactions])
    said = as_known(error, version, 2)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=by_topic(request.v3_and_below_topics, said))


def result(transaction: AddPartitionsToTxnTransaction, error: int) -> AddPartitionsToTxnResult:
    return AddPartitionsToTxnResult(
        transactional_id=transaction.transactional_id, topic_results=by_topic(transaction.topics, error)
    )


def by_topic(topics: list[AddPartitionsToTxnTopic], error: int) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[AddPartitionsToTxnPartitionResult(index, error) for index in topic.partitions],
        )
        for topic in topics
    ]


def _add_offsets(request: AddOffsetsToTxnRequest, error: int, version: int) -> Message:
    return AddOffsetsToTxnResponse(error_code=as_known(error, version, 2))


def _end(request: EndTxnRequest, error: int, version: int) -> Message:
    return EndTxnResponse(error_code=as_known(error, version, 2))


def _describe(request: DescribeTransactionsRequest, error: int, version: int) -> Message:
    return DescribeTransactionsResponse(
        transaction_states=[TransactionState(error_code=error, transactional_id=i) for i in request.transactional_ids]
    )


def _list(request: ListTransactionsRequest, error: int, version: int) -> Message:
    return ListTransactionsResponse(error_code=error)


_ERROR_RESPONSES: dict[type[Message], Callable[[Any, int, int], Message]] = {
    InitProducerIdRequest: _init,
    AddPartitionsToTxnRequest: _add_partitions,
    AddOffsetsToTxnRequest: _add_offsets,
    EndTxnRequest: _end,
    DescribeTransactionsRequest: _describe,
    ListTransactionsRequest: _list,
}
