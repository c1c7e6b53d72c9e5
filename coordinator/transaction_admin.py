"""Admin requests on transactions (KIP-664): DescribeTransactions 0 and ListTransactions 0-2."""

from __future__ import annotations

from collections.abc import Callable

from ..protocol.errors import ErrorCode
from ..protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
    TransactionTopic,
)
from ..protocol.messages.list_transactions import ListedTransaction, ListTransactionsRequest, ListTransactionsResponse
from .patterns import InvalidRegularExpression, compiled
from .transaction import Transaction, TransactionStatus, by_topic
from .transaction_requests import TransactionRequest
from .transactions_state import TransactionsState

ANY_DURATION = -1
_NAMES = frozenset(state.shown for state in TransactionStatus)


def describe(state: TransactionsState, message: TransactionRequest, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, DescribeTransactionsRequest)
    described = [_described(state, transactional_id) for transactional_id in request.transactional_ids]
    state.reply(message, DescribeTransactionsResponse(transaction_states=described))


def _described(state: TransactionsState, transactional_id: str) -> TransactionState:
    transaction = state.transactions.get(transactional_id)
    if transaction is None:
        error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if transactional_id else ErrorCode.INVALID_REQUEST
        return TransactionState(error_code=error, transactional_id=transactional_id)
    return TransactionState(
        error_code=ErrorCode.NONE,
        transactional_id=transactional_id,
        transaction_state=transaction.state.shown,
        transaction_timeout_ms=transaction.durable.transaction_timeout_ms,
        transaction_start_time_ms=transaction.durable.transaction_start_timestamp_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[TransactionTopic(topic=t.topic, partitions=t.partition_ids) for t in by_topic(transaction.partitions)],
    )


def list_transactions(state: TransactionsState, message: TransactionRequest, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, ListTransactionsRequest)
    response = ListTransactionsResponse(unknown_state_filters=unknown_states(request))
    try:
        matches = _matching(request.transactional_id_pattern)
    except InvalidRegularExpression:
        state.reply(message, ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION))
        return
    for transaction in state.transactions.values():
        if _is_wanted(transaction, request, now_ms) and matches(transaction.transactional_id):
            response.transaction_states.append(
                ListedTransaction(transaction.transactional_id, transaction.producer_id, transaction.state.shown)
            )
    state.reply(message, response)


def _matching(pattern: str | None) -> Callable[[str], bool]:
    if not pattern:
        return lambda transactional_id: True
    match = compiled(pattern)
    return lambda transactional_id: match(transactional_id) is not None


def unknown_states(request: ListTransactionsRequest) -> list[str]:
    return [name for name in request.state_filters if name not in _NAMES]


def _is_wanted(transaction: Transaction, request: ListTransactionsRequest, now_ms: int) -> bool:
    if request.producer_id_filters and transaction.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and transaction.state.shown not in request.state_filters:
        return False
    running_ms = now_ms - transaction.durable.transaction_start_timestamp_ms
    return request.duration_filter <= ANY_DURATION or running_ms > request.duration_filter
