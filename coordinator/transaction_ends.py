"""The end of a transaction: EndTxn 0-5, the abort after fencing or a timeout, and completion after its markers.

```
request          Ongoing          Prepare*        CompleteCommit      CompleteAbort     Empty
commit           PrepareCommit    concurrent      done (a retry)      invalid           invalid
abort            PrepareAbort     concurrent      invalid             done (a retry)    invalid
commit, TV2      PrepareCommit    concurrent      done if a retry,    invalid           invalid
                                                  else invalid
abort, TV2       PrepareAbort     concurrent      invalid if a retry, done if a retry,  PrepareAbort
                                                  else PrepareAbort   else PrepareAbort
```

With transaction version 2 (TV2) an end takes the next epoch. So a retry is identified by its epoch: one lower, or
the last one of the previous producer id. A producer may also end a transaction whose partitions were never added.
In Prepare* every request gets CONCURRENT_TRANSACTIONS, whatever its producer id and epoch: a client can have the
next producer id before the transaction does.

The last epoch is for fencing only, and no producer gets it. An end that would reach it takes the next producer id
instead, whether the producer or the coordinator decides the end.
"""

from __future__ import annotations

from ..metadata.image import TopicPartition
from ..protocol.errors import ErrorCode
from ..protocol.feature_levels import TRANSACTIONS_BUMP_EPOCHS
from ..protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ..protocol.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from .transaction import MAX_EPOCH, PREPARED, Transaction, TransactionStatus
from .transaction_requests import MarkersWritten, SendMarkers, TransactionRequest
from .transactions_state import TransactionsState, transaction_error_response

#: The versions of EndTxn for clients with transaction version 2.
WITH_NEXT_PRODUCER = EndTxnResponse.versions_with("producer_id")
_BY_STATE = {
    (TransactionStatus.COMPLETE_COMMIT, True): ErrorCode.NONE,
    (TransactionStatus.COMPLETE_ABORT, False): ErrorCode.NONE,
}


def end_needs_producer_id(state: TransactionsState, request: EndTxnRequest, version: int) -> bool:
    transaction = state.transactions.get(request.transactional_id)
    bumps = version in WITH_NEXT_PRODUCER
    return bumps and transaction is not None and transaction.is_epoch_exhausted and transaction.state not in PREPARED


def end_txn(state: TransactionsState, message: TransactionRequest, now_ms: int) -> None:
    request = message.request
    assert isinstance(request, EndTxnRequest)
    transaction = state.transactions.get(request.transactional_id)
    if not request.transactional_id:
        error: ErrorCode | None = ErrorCode.INVALID_REQUEST
    elif transaction is None:
        error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    elif message.version in WITH_NEXT_PRODUCER:
        error = _judge_with_epoch_bump(transaction, request)
    else:
        error = _validate_end(transaction, request)
    if error:
        state.reply(message, transaction_error_response(request, message.version, error))
        return
    assert transaction is not None
    if error is ErrorCode.NONE:
        _reply_end(state, message, transaction.producer_id, transaction.producer_epoch)
        return
    bumps = message.version in WITH_NEXT_PRODUCER
    _end_for_client(state, message, transaction, bumps, now_ms)


def _end_for_client(
    state: TransactionsState, message: TransactionRequest, transaction: Transaction, bumps: bool, now_ms: int
) -> None:
    request = message.request
    assert isinstance(request, EndTxnRequest)
    rotates = bumps and transaction.is_epoch_exhausted
    assert message.new_producer_id != NO_PRODUCER_ID or not rotates, transaction.durable
    new_id = message.new_producer_id if rotates else NO_PRODUCER_ID
    end(state, transaction, request.committed, now_ms, bumps=bumps, next_producer_id=new_id)
    # The response precedes the markers.
    if new_id != NO_PRODUCER_ID:
        _reply_end(state, message, new_id, 0)
    else:
        _reply_end(state, message, transaction.producer_id, transaction.producer_epoch)
    send_markers(state, transaction)


def _reply_end(state: TransactionsState, message: TransactionRequest, producer_id: int, epoch: int) -> None:
    state.reply(message, EndTxnResponse(producer_id=producer_id, producer_epoch=epoch))


def _validate_end(transaction: Transaction, request: EndTxnRequest) -> ErrorCode | None:
    """Validates an end. Returns None if the transaction must be ended, NONE if it already ended that way."""
    if transaction.producer_id != request.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.producer_epoch != request.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    if transaction.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if transaction.state is TransactionStatus.ONGOING:
        return None
    return _BY_STATE.get((transaction.state, request.committed), ErrorCode.INVALID_TXN_STATE)


def _judge_with_epoch_bump(transaction: Transaction, request: EndTxnRequest) -> ErrorCode | None:
    asked, epoch, state = request.producer_epoch, transaction.producer_epoch, transaction.state
    if state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    ran_out = transaction.durable.previous_producer_id == request.producer_id != transaction.producer_id
    repeats_last = ran_out and asked == MAX_EPOCH - 1 and epoch == 0
    repeats = epoch == asked + 1
    if transaction.producer_id != request.producer_id and not repeats_last:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if state in (TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT):
        is_valid = repeats or repeats_last or asked == epoch
    else:
        is_valid = asked == epoch
    if not is_valid:
        return ErrorCode.PRODUCER_FENCED
    if state is TransactionStatus.ONGOING:
        return None
    if not (repeats or repeats_last):
        # No partition was added to this transaction: there is nothing to commit.
        return ErrorCode.INVALID_TXN_STATE if request.committed else None
    return _BY_STATE.get((state, request.committed), ErrorCode.INVALID_TXN_STATE)


def end(
    state: TransactionsState,
    transaction: Transaction,
    committed: bool,
    now_ms: int,
    *,
    bumps: bool = False,
    is_fencing: bool = False,
    next_producer_id: int = NO_PRODUCER_ID,
) -> None:
    """Writes the decision; the caller then calls `send_markers`.

    `is_fencing`: the producer did not request the end, and the next epoch fences it.
    """
    bumps = bumps or (is_fencing and state.config.transaction_version >= TRANSACTIONS_BUMP_EPOCHS)
    value = transaction.changed(
        TransactionStatus.PREPARE_COMMIT if committed else TransactionStatus.PREPARE_ABORT, now_ms
    )
    if bumps or is_fencing:
        transaction.last_producer_epoch = transaction.producer_epoch if bumps else NO_PRODUCER_EPOCH
        value.producer_epoch = min(transaction.producer_epoch + 1, MAX_EPOCH)
    if transaction.state is not TransactionStatus.ONGOING:
        value.transaction_start_timestamp_ms = now_ms
    value.next_producer_id = next_producer_id
    value.client_transaction_version = TRANSACTIONS_BUMP_EPOCHS if bumps else 0
    state.write(transaction.transactional_id, value)


def rotates_when_fenced(state: TransactionsState, transaction: Transaction) -> bool:
    """Returns whether fencing the producer takes a new producer id, since no epoch is left."""
    return transaction.is_epoch_exhausted and state.config.transaction_version >= TRANSACTIONS_BUMP_EPOCHS


def fence(state: TransactionsState, transaction: Transaction, now_ms: int, new_producer_id: int) -> None:
    """Aborts the transaction and fences its producer. `new_producer_id`: used if the epochs are exhausted."""
    rotates = rotates_when_fenced(state, transaction)
    assert new_producer_id != NO_PRODUCER_ID or not rotates, transaction.durable
    next_id = new_producer_id if rotates else NO_PRODUCER_ID
    end(state, transaction, False, now_ms, is_fencing=True, next_producer_id=next_id)
    send_markers(state, transaction)


def send_markers(state: TransactionsState, transaction: Transaction) -> None:
    """Requests the markers of a transaction whose end this coordinator or a former one has written."""
    assert transaction.state in PREPARED
    transaction.unwritten = set(transaction.partitions)
    markers = SendMarkers(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.state is TransactionStatus.PREPARE_COMMIT,
        transaction.durable.client_transaction_version,
        tuple(sorted(transaction.partitions)),
    )
    state.replies.append(markers)


def markers_written(state: TransactionsState, message: MarkersWritten, now_ms: int) -> None:
    """Handles written markers. The last one completes the transaction. Markers of another end are ignored."""
    transaction = state.transactions.get(message.transactional_id)
    if transaction is None or transaction.state not in PREPARED:
        return
    if (transaction.producer_id, transaction.producer_epoch) != (message.producer_id, message.producer_epoch):
        return
    transaction.unwritten -= message.partitions
    if not transaction.unwritten:
        _complete(state, transaction, now_ms)


def awaits(state: TransactionsState, markers: SendMarkers, partition: TopicPartition) -> bool:
    transaction = state.transactions.get(markers.transactional_id)
    if transaction is None or transaction.state not in PREPARED:
        return False
    is_same = (transaction.producer_id, transaction.producer_epoch) == (markers.producer_id, markers.producer_epoch)
    is_same = is_same and markers.committed == (transaction.state is TransactionStatus.PREPARE_COMMIT)
    return is_same and partition in transaction.unwritten


def _complete(state: TransactionsState, transaction: Transaction, now_ms: int) -> None:
    old = transaction.durable
    committed = transaction.state is TransactionStatus.PREPARE_COMMIT
    value = transaction.changed(
        TransactionStatus.COMPLETE_COMMIT if committed else TransactionStatus.COMPLETE_ABORT, now_ms, set()
    )
    if old.client_transaction_version >= TRANSACTIONS_BUMP_EPOCHS and old.next_producer_id != NO_PRODUCER_ID:
        value.producer_id, value.producer_epoch = old.next_producer_id, 0
    value.next_producer_id = NO_PRODUCER_ID
    state.write(transaction.transactional_id, value)
