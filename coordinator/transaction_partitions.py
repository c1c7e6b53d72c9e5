"""Adding partitions to a transaction: AddPartitionsToTxn 0-5 and AddOffsetsToTxn 0-4.

Up to version 3 clients add partitions. From version 4 on a leader adds them when a producer writes to it, or verifies
that they are in the transaction (`verify_only`). A group's offsets are represented by their partition of
`__consumer_offsets`. The handler determines that partition and sends the request in the form of AddPartitionsToTxn.
"""

from __future__ import annotations

from ..metadata.image import TopicPartition
from ..protocol.behaviour_versions import WITH_PRODUCER_FENCED
from ..protocol.errors import ErrorCode
from ..protocol.feature_levels import TRANSACTIONS_BUMP_EPOCHS
from ..protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from .transaction import NOT_IN_TRANSACTION, PREPARED, Transaction, TransactionStatus
from .transaction_requests import TransactionRequest
from .transactions_state import WITH_TRANSACTIONS, TransactionsState, as_known, result, results_by_topic


def add_partitions(state: TransactionsState, message: TransactionRequest, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, AddPartitionsToTxnRequest)
    if message.version in WITH_TRANSACTIONS:
        # A leader adds partitions only for clients with transaction version 2; for others it only verifies them.
        results = [_of_broker(state, asked, TRANSACTIONS_BUMP_EPOCHS, now_ms) for asked in request.transactions]
        state.reply(message, AddPartitionsToTxnResponse(results_by_transaction=results))
        return
    error = _add(state, _as_transaction(request), 0, now_ms)
    said = as_known(error, message.version, WITH_PRODUCER_FENCED["AddPartitionsToTxn"])
    topics = results_by_topic(request.v3_and_below_topics, said)
    state.reply(message, AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics))


def _as_transaction(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _of_broker(
    state: TransactionsState, asked: AddPartitionsToTxnTransaction, version: int, now_ms: int
) -> AddPartitionsToTxnResult:
    if not asked.verify_only:
        return result(asked, _add(state, asked, version, now_ms))
    error, transaction = _validate_partitions(state, asked)
    if error or transaction is None:
        return result(asked, error)
    topics = [_verified(transaction, topic) for topic in asked.topics]
    return AddPartitionsToTxnResult(transactional_id=asked.transactional_id, topic_results=topics)


def _verified(transaction: Transaction, topic: AddPartitionsToTxnTopic) -> AddPartitionsToTxnTopicResult:
    responses = []
    for index in topic.partitions:
        is_in = (topic.name, index) in transaction.partitions
        error = ErrorCode.NONE if is_in else ErrorCode.TRANSACTION_ABORTABLE
        responses.append(AddPartitionsToTxnPartitionResult(index, error))
    return AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=responses)


def _validate_partitions(
    state: TransactionsState, asked: AddPartitionsToTxnTransaction
) -> tuple[ErrorCode, Transaction | None]:
    """Returns an error, or NONE and a transaction that accepts partitions."""
    if not asked.transactional_id:
        return ErrorCode.INVALID_REQUEST, None
    transaction = state.transactions.get(asked.transactional_id)
    if transaction is None or transaction.producer_id != asked.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING, None
    if transaction.producer_epoch != asked.producer_epoch:
        return ErrorCode.PRODUCER_FENCED, None
    if transaction.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS, None
    return ErrorCode.NONE, transaction


def _add(state: TransactionsState, asked: AddPartitionsToTxnTransaction, version: int, now_ms: int) -> ErrorCode:
    known = state.transactions.get(asked.transactional_id)
    if known is not None and known.state in PREPARED:
        # This check comes first: a client can have the next producer id before the transaction does.
        return ErrorCode.CONCURRENT_TRANSACTIONS
    error, transaction = _validate_partitions(state, asked)
    if error or transaction is None:
        return error
    partitions: set[TopicPartition] = {(topic.name, index) for topic in asked.topics for index in topic.partitions}
    if transaction.state is TransactionStatus.ONGOING and partitions <= transaction.partitions:
        return ErrorCode.NONE
    value = transaction.changed(TransactionStatus.ONGOING, now_ms, transaction.partitions | partitions)
    if transaction.state in NOT_IN_TRANSACTION:
        value.transaction_start_timestamp_ms = now_ms
    value.client_transaction_version = version
    state.write(transaction.transactional_id, value)
    return ErrorCode.NONE
