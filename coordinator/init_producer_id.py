"""InitProducerId 0-6 with a transactional id: a producer starts, and the previous producer with the id is fenced.

A producer that sends its producer id and epoch gets the next epoch if it is still the current producer (KIP-360). A
retry after a lost response gets the same epoch again. The epochs of a producer id run out at 32,766: then the
coordinator assigns a new producer id.
"""

from __future__ import annotations

from ..protocol.errors import ErrorCode
from ..protocol.internal.transaction_state import TransactionLogValue
from ..protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ..protocol.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP
from .transaction import NOT_IN_TRANSACTION, PREPARED, Transaction, TransactionStatus, is_exhausted
from .transaction_ends import fence, rotates_when_fenced
from .transaction_requests import TransactionRequest
from .transactions_state import TransactionsState, transaction_error_response


def init_needs_producer_id(state: TransactionsState, request: InitProducerIdRequest) -> bool:
    """Returns whether the request takes a new producer id."""
    transaction = state.transactions.get(request.transactional_id or "")
    if transaction is None:
        return True
    if transaction.state is TransactionStatus.ONGOING:
        return rotates_when_fenced(state, transaction)
    return transaction.state in NOT_IN_TRANSACTION and _rotates(transaction, request)


def init_producer_id(state: TransactionsState, message: TransactionRequest, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, InitProducerIdRequest)
    transactional_id = request.transactional_id
    error = _validate_init(state, request)
    if error or transactional_id is None:
        state.reply(message, transaction_error_response(request, message.version, error or ErrorCode.INVALID_REQUEST))
        return
    transaction = state.transactions.get(transactional_id)
    if transaction is None:
        _begin(state, message, transactional_id, now_ms)
        return
    if transaction.state in PREPARED:
        # This check comes first: a client can have the next producer id before the transaction does.
        error = ErrorCode.CONCURRENT_TRANSACTIONS
    elif request.producer_id != NO_PRODUCER_ID and not _may_go_on(transaction, request):
        error = ErrorCode.PRODUCER_FENCED
    elif transaction.state is TransactionStatus.ONGOING:
        # The response does not wait for the end: the client retries until the transaction is complete.
        fence(state, transaction, now_ms, message.new_producer_id)
        error = ErrorCode.CONCURRENT_TRANSACTIONS
    else:
        error = _next_epoch(state, message, transaction, now_ms)
    if error:
        state.reply(message, transaction_error_response(request, message.version, error))


def _validate_init(state: TransactionsState, request: InitProducerIdRequest) -> ErrorCode:
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if not 0 < request.transaction_timeout_ms <= state.config.max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


def _begin(state: TransactionsState, message: TransactionRequest, transactional_id: str, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, InitProducerIdRequest)
    assert message.new_producer_id != NO_PRODUCER_ID
    value = TransactionLogValue(
        producer_id=message.new_producer_id,
        previous_producer_id=message.new_producer_id,
        producer_epoch=0,
        transaction_timeout_ms=request.transaction_timeout_ms,
        transaction_status=TransactionStatus.EMPTY,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=now_ms,
        transaction_start_timestamp_ms=NO_TIMESTAMP,
    )
    _reply_init(state, message, state.write(transactional_id, value))


def _may_go_on(transaction: Transaction, request: InitProducerIdRequest) -> bool:
    """Returns whether the producer id is current, or the exhausted previous one (a retry after a lost response).

    `_next_epoch` checks the epoch afterwards.
    """
    if request.producer_id == transaction.producer_id:
        return True
    ran_out = request.producer_id == transaction.durable.previous_producer_id
    return ran_out and is_exhausted(request.producer_epoch)


def _rotates(transaction: Transaction, request: InitProducerIdRequest) -> bool:
    expected = request.producer_epoch
    return transaction.is_epoch_exhausted and expected in (NO_PRODUCER_EPOCH, transaction.producer_epoch)


def _next_epoch(
    state: TransactionsState, message: TransactionRequest, transaction: Transaction, now_ms: int
) -> ErrorCode:
    request = message.request
    assert isinstance(request, InitProducerIdRequest)
    expected, epoch = request.producer_epoch, transaction.producer_epoch
    value = transaction.changed(TransactionStatus.EMPTY, now_ms, set())
    value.transaction_timeout_ms = request.transaction_timeout_ms
    value.transaction_start_timestamp_ms = NO_TIMESTAMP
    last = epoch if expected != NO_PRODUCER_EPOCH else NO_PRODUCER_EPOCH
    if _rotates(transaction, request):
        assert message.new_producer_id != NO_PRODUCER_ID
        value.producer_id, value.producer_epoch = message.new_producer_id, 0
    elif expected in (NO_PRODUCER_EPOCH, epoch):
        value.producer_epoch = epoch + 1
    elif expected == transaction.last_producer_epoch:
        last = transaction.last_producer_epoch
    else:
        return ErrorCode.PRODUCER_FENCED
    transaction.last_producer_epoch = last
    _reply_init(state, message, state.write(transaction.transactional_id, value))
    return ErrorCode.NONE


def _reply_init(state: TransactionsState, message: TransactionRequest, transaction: Transaction) -> None:
    state.reply(
        message,
        InitProducerIdResponse(producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch),
    )
