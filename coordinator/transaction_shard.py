"""The coordinator of the transactional ids in one partition of `__transaction_state`. Uses no disk and no clock.

    shard = TransactionShard(config)
    shard.replay(record) ...          the log, from its start
    shard.loaded(now)                 the end of the log: requests the markers of decided ends
    shard.handle(message, now)        a TransactionRequest, MarkersWritten or ProducerIdTaken
    shard.take()                      -> Output: records to append, then replies, markers and producer id requests to
                                      send once the records are committed
    shard.deadline(), expire(now)     the next deadline, and the handling of expired timers

As for groups, a shard is dropped and reloaded if its records cannot be appended or its leadership ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ..metadata.image import TopicPartition
from ..protocol.codec import MalformedMessage
from ..protocol.errors import ErrorCode
from ..protocol.internal.transaction_state import TransactionLogValue
from ..protocol.messages.producers import InitProducerIdRequest, InitProducerIdResponse
from ..protocol.messages.transactions import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
    TopicData,
    TransactionState,
)
from ..protocol.records.batch import iter_headers
from ..protocol.records.record import decode_batch
from ..protocol.schema import Message
from ..protocol.varint import Buffer
from .patterns import InvalidRegularExpression, compiled
from .result import NEVER, Record, Timer, UnknownRecord
from .transaction import (
    BATCHED_VERSION,
    EPOCH_BUMP_VERSION,
    MAX_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    NOT_IN_TRANSACTION,
    PREPARED,
    MarkersWritten,
    NeedProducerId,
    Output,
    ProducerIdTaken,
    SendMarkers,
    State,
    Transaction,
    TransactionRequest,
    TransactionsConfig,
    TransactionsState,
    as_known,
    by_topic,
    decode_record,
    error_response,
    is_exhausted,
    result,
    results_by_topic,
)

# Adding partitions to a transaction: AddPartitionsToTxn 0-5 and AddOffsetsToTxn 0-4.
#
# Up to version 3 clients add partitions. From version 4 on a leader adds them when a producer writes to it, or verifies
# that they are in the transaction (`verify_only`). A group's offsets are represented by their partition of
# `__consumer_offsets`. The handler determines that partition and sends the request in the form of AddPartitionsToTxn.


def add_partitions(state: TransactionsState, message: TransactionRequest, now: int) -> None:
    request = message.request
    assert isinstance(request, AddPartitionsToTxnRequest)
    if message.version >= BATCHED_VERSION:
        # A leader adds partitions only for clients with transaction version 2; for others it only verifies them.
        results = [_of_broker(state, asked, EPOCH_BUMP_VERSION, now) for asked in request.transactions]
        state.reply(message, AddPartitionsToTxnResponse(results_by_transaction=results))
        return
    error = _add(state, _as_transaction(request), 0, now)
    said = as_known(error, message.version, 2)
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
    state: TransactionsState, asked: AddPartitionsToTxnTransaction, version: int, now: int
) -> AddPartitionsToTxnResult:
    if not asked.verify_only:
        return result(asked, _add(state, asked, version, now))
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


def _add(state: TransactionsState, asked: AddPartitionsToTxnTransaction, version: int, now: int) -> ErrorCode:
    known = state.transactions.get(asked.transactional_id)
    if known is not None and known.state in PREPARED:
        # This check comes first: a client can have the next producer id before the transaction does.
        return ErrorCode.CONCURRENT_TRANSACTIONS
    error, transaction = _validate_partitions(state, asked)
    if error or transaction is None:
        return error
    partitions: set[TopicPartition] = {(topic.name, index) for topic in asked.topics for index in topic.partitions}
    if transaction.state is State.ONGOING and partitions <= transaction.partitions:
        return ErrorCode.NONE
    value = transaction.changed(State.ONGOING, now, transaction.partitions | partitions)
    if transaction.state in NOT_IN_TRANSACTION:
        value.transaction_start_timestamp_ms = now
    value.client_transaction_version = version
    state.write(transaction.transactional_id, value)
    return ErrorCode.NONE


# The end of a transaction: EndTxn 0-5, the abort after fencing or a timeout, and completion after its markers.
#
# ```
# request          Ongoing          Prepare*        CompleteCommit      CompleteAbort     Empty
# commit           PrepareCommit    concurrent      done (a retry)      invalid           invalid
# abort            PrepareAbort     concurrent      invalid             done (a retry)    invalid
# commit, TV2      PrepareCommit    concurrent      done if a retry,    invalid           invalid
#                                                   else invalid
# abort, TV2       PrepareAbort     concurrent      invalid if a retry, done if a retry,  PrepareAbort
#                                                   else PrepareAbort   else PrepareAbort
# ```
#
# With transaction version 2 (TV2) an end takes the next epoch. So a retry is identified by its epoch: one lower, or
# the last one of the previous producer id. A producer may also end a transaction whose partitions were never added.
# In Prepare* every request gets CONCURRENT_TRANSACTIONS, whatever its producer id and epoch: a client can have the
# next producer id before the transaction does.
#
# The last epoch is for fencing only, and no producer gets it. An end that would reach it takes the next producer id
# instead, whether the producer or the coordinator decides the end.


#: The first version of EndTxn for clients with transaction version 2.
EPOCH_BUMP_END_TXN_VERSION = 5


def end_needs_producer_id(state: TransactionsState, request: EndTxnRequest, version: int) -> bool:
    transaction = state.transactions.get(request.transactional_id)
    bumps = version >= EPOCH_BUMP_END_TXN_VERSION
    return bumps and transaction is not None and transaction.is_epoch_exhausted and transaction.state not in PREPARED


def end_txn(state: TransactionsState, message: TransactionRequest, now: int) -> None:
    request = message.request
    assert isinstance(request, EndTxnRequest)
    transaction = state.transactions.get(request.transactional_id)
    if not request.transactional_id:
        error: ErrorCode | None = ErrorCode.INVALID_REQUEST
    elif transaction is None:
        error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    elif message.version >= EPOCH_BUMP_END_TXN_VERSION:
        error = _judge_with_epoch_bump(transaction, request)
    else:
        error = _validate_end(transaction, request)
    if error:
        state.reply(message, error_response(request, message.version, error))
        return
    assert transaction is not None
    if error is ErrorCode.NONE:
        _reply_end(state, message, transaction.producer_id, transaction.producer_epoch)
        return
    bumps = message.version >= EPOCH_BUMP_END_TXN_VERSION
    _end_for_client(state, message, transaction, bumps, now)


def _end_for_client(
    state: TransactionsState, message: TransactionRequest, transaction: Transaction, bumps: bool, now: int
) -> None:
    request = message.request
    assert isinstance(request, EndTxnRequest)
    new_id = message.new_producer_id if bumps and transaction.is_epoch_exhausted else NO_PRODUCER_ID
    end(state, transaction, request.committed, now, bumps=bumps, next_producer_id=new_id)
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
    if transaction.state is State.ONGOING:
        return None
    return _BY_STATE.get((transaction.state, request.committed), ErrorCode.INVALID_TXN_STATE)


_BY_STATE = {
    (State.COMPLETE_COMMIT, True): ErrorCode.NONE,
    (State.COMPLETE_ABORT, False): ErrorCode.NONE,
}


def _judge_with_epoch_bump(transaction: Transaction, request: EndTxnRequest) -> ErrorCode | None:
    asked, epoch, state = request.producer_epoch, transaction.producer_epoch, transaction.state
    if state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    ran_out = transaction.durable.previous_producer_id == request.producer_id != transaction.producer_id
    repeats_last = ran_out and asked == MAX_EPOCH - 1 and epoch == 0
    repeats = epoch == asked + 1
    if transaction.producer_id != request.producer_id and not repeats_last:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
        is_valid = repeats or repeats_last or asked == epoch
    else:
        is_valid = asked == epoch
    if not is_valid:
        return ErrorCode.PRODUCER_FENCED
    if state is State.ONGOING:
        return None
    if not (repeats or repeats_last):
        # No partition was added to this transaction: there is nothing to commit.
        return ErrorCode.INVALID_TXN_STATE if request.committed else None
    return _BY_STATE.get((state, request.committed), ErrorCode.INVALID_TXN_STATE)


def end(
    state: TransactionsState,
    transaction: Transaction,
    committed: bool,
    now: int,
    *,
    bumps: bool = False,
    is_fencing: bool = False,
    next_producer_id: int = NO_PRODUCER_ID,
) -> None:
    """Writes the decision; the caller then calls `send_markers`.

    `is_fencing`: the producer did not request the end, and the next epoch fences it.
    """
    bumps = bumps or (is_fencing and state.config.transaction_version >= EPOCH_BUMP_VERSION)
    value = transaction.changed(State.PREPARE_COMMIT if committed else State.PREPARE_ABORT, now)
    if bumps or is_fencing:
        transaction.last_producer_epoch = transaction.producer_epoch if bumps else NO_PRODUCER_EPOCH
        value.producer_epoch = min(transaction.producer_epoch + 1, MAX_EPOCH)
    if transaction.state is not State.ONGOING:
        value.transaction_start_timestamp_ms = now
    value.next_producer_id = next_producer_id
    value.client_transaction_version = EPOCH_BUMP_VERSION if bumps else 0
    state.write(transaction.transactional_id, value)


def rotates_when_fenced(state: TransactionsState, transaction: Transaction) -> bool:
    """Returns whether fencing the producer takes a new producer id, since no epoch is left."""
    return transaction.is_epoch_exhausted and state.config.transaction_version >= EPOCH_BUMP_VERSION


def fence(state: TransactionsState, transaction: Transaction, now: int, new_producer_id: int) -> None:
    """Aborts the transaction and fences its producer. `new_producer_id`: used if the epochs are exhausted."""
    next_id = new_producer_id if rotates_when_fenced(state, transaction) else NO_PRODUCER_ID
    end(state, transaction, False, now, is_fencing=True, next_producer_id=next_id)
    send_markers(state, transaction)


def send_markers(state: TransactionsState, transaction: Transaction) -> None:
    """Requests the markers of a transaction whose end this coordinator or a former one has written."""
    assert transaction.state in PREPARED
    transaction.unwritten = set(transaction.partitions)
    markers = SendMarkers(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.state is State.PREPARE_COMMIT,
        transaction.durable.client_transaction_version,
        tuple(sorted(transaction.partitions)),
    )
    state.replies.append(markers)


def markers_written(state: TransactionsState, message: MarkersWritten, now: int) -> None:
    """Handles written markers. The last one completes the transaction. Markers of another end are ignored."""
    transaction = state.transactions.get(message.transactional_id)
    if transaction is None or transaction.state not in PREPARED:
        return
    if (transaction.producer_id, transaction.producer_epoch) != (message.producer_id, message.producer_epoch):
        return
    transaction.unwritten -= message.partitions
    if not transaction.unwritten:
        _complete(state, transaction, now)


def awaits(state: TransactionsState, markers: SendMarkers, partition: TopicPartition) -> bool:
    transaction = state.transactions.get(markers.transactional_id)
    if transaction is None or transaction.state not in PREPARED:
        return False
    is_same = (transaction.producer_id, transaction.producer_epoch) == (markers.producer_id, markers.producer_epoch)
    is_same = is_same and markers.committed == (transaction.state is State.PREPARE_COMMIT)
    return is_same and partition in transaction.unwritten


def _complete(state: TransactionsState, transaction: Transaction, now: int) -> None:
    old = transaction.durable
    committed = transaction.state is State.PREPARE_COMMIT
    value = transaction.changed(State.COMPLETE_COMMIT if committed else State.COMPLETE_ABORT, now, set())
    if old.client_transaction_version >= EPOCH_BUMP_VERSION and old.next_producer_id != NO_PRODUCER_ID:
        value.producer_id, value.producer_epoch = old.next_producer_id, 0
    value.next_producer_id = NO_PRODUCER_ID
    state.write(transaction.transactional_id, value)


# InitProducerId 0-6 with a transactional id: a producer starts, and the previous producer with the id is fenced.
#
# A producer that sends its producer id and epoch gets the next epoch if it is still the current producer (KIP-360). A
# retry after a lost response gets the same epoch again. The epochs of a producer id run out at 32,766: then the
# coordinator assigns a new producer id.


def init_needs_producer_id(state: TransactionsState, request: InitProducerIdRequest) -> bool:
    """Returns whether the request takes a new producer id."""
    transaction = state.transactions.get(request.transactional_id or "")
    if transaction is None:
        return True
    if transaction.state is State.ONGOING:
        return rotates_when_fenced(state, transaction)
    return transaction.state in NOT_IN_TRANSACTION and _rotates(transaction, request)


def init_producer_id(state: TransactionsState, message: TransactionRequest, now: int) -> None:
    request = message.request
    assert isinstance(request, InitProducerIdRequest)
    transactional_id = request.transactional_id
    error = _validate_init(state, request)
    if error or transactional_id is None:
        state.reply(message, error_response(request, message.version, error or ErrorCode.INVALID_REQUEST))
        return
    transaction = state.transactions.get(transactional_id)
    if transaction is None:
        _begin(state, message, transactional_id, now)
        return
    if transaction.state in PREPARED:
        # This check comes first: a client can have the next producer id before the transaction does.
        error = ErrorCode.CONCURRENT_TRANSACTIONS
    elif request.producer_id != NO_PRODUCER_ID and not _may_go_on(transaction, request):
        error = ErrorCode.PRODUCER_FENCED
    elif transaction.state is State.ONGOING:
        # The response does not wait for the end: the client retries until the transaction is complete.
        fence(state, transaction, now, message.new_producer_id)
        error = ErrorCode.CONCURRENT_TRANSACTIONS
    else:
        error = _next_epoch(state, message, transaction, now)
    if error:
        state.reply(message, error_response(request, message.version, error))


def _validate_init(state: TransactionsState, request: InitProducerIdRequest) -> ErrorCode:
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if not 0 < request.transaction_timeout_ms <= state.config.max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


def _begin(state: TransactionsState, message: TransactionRequest, transactional_id: str, now: int) -> None:
    request = message.request
    assert isinstance(request, InitProducerIdRequest)
    assert message.new_producer_id != NO_PRODUCER_ID
    value = TransactionLogValue(
        producer_id=message.new_producer_id,
        previous_producer_id=message.new_producer_id,
        producer_epoch=0,
        transaction_timeout_ms=request.transaction_timeout_ms,
        transaction_status=State.EMPTY,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=now,
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


def _next_epoch(state: TransactionsState, message: TransactionRequest, transaction: Transaction, now: int) -> ErrorCode:
    request = message.request
    assert isinstance(request, InitProducerIdRequest)
    expected, epoch = request.producer_epoch, transaction.producer_epoch
    value = transaction.changed(State.EMPTY, now, set())
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


# Periodic tasks: abort timed-out transactions, and remove transactional ids that are unused for long.
#
# Both run in the broker's configured intervals, and only while the shard has transactions. A transaction with
# exhausted epochs is aborted once it gets a new producer id, which each interval requests (`NeedProducerId`).


class Maintenance:
    def __init__(self, state: TransactionsState) -> None:
        self._state = state
        self._abort = Timer(("abort",))
        self._forget = Timer(("forget",))

    def plan(self, now: int) -> None:
        """Sets unset timers. The caller calls it after every request that may have begun a transaction."""
        state = self._state
        if not state.transactions:
            return
        if self._forget.deadline_ms == NEVER:
            state.timers.set(self._forget, now + state.config.remove_expired_interval_ms)
        if self._abort.deadline_ms == NEVER:
            state.timers.set(self._abort, now + state.config.abort_interval_ms)

    def expire(self, now: int) -> None:
        while (timer := self._state.timers.due(now)) is not None:
            if timer is self._abort:
                _abort_timed_out(self._state, now)
            else:
                _forget_expired(self._state, now)
            self.plan(now)


def _abort_timed_out(state: TransactionsState, now: int) -> None:
    """Aborts timed-out transactions and fences their producers, so that later requests of theirs fail (KIP-588)."""
    for transaction in list(state.transactions.values()):
        if not _is_out_of_time(transaction, now):
            continue
        if rotates_when_fenced(state, transaction):
            state.replies.append(NeedProducerId(transaction.transactional_id))
        else:
            fence(state, transaction, now, NO_PRODUCER_ID)


def abort_with_id(state: TransactionsState, message: ProducerIdTaken, now: int) -> None:
    """Aborts the transaction with the new producer id if it is still timed out; else the id stays unused."""
    transaction = state.transactions.get(message.transactional_id)
    if transaction is not None and _is_out_of_time(transaction, now):
        fence(state, transaction, now, message.producer_id)


def _is_out_of_time(transaction: Transaction, now: int) -> bool:
    durable = transaction.durable
    until = durable.transaction_start_timestamp_ms + durable.transaction_timeout_ms
    return transaction.state is State.ONGOING and until < now


def _forget_expired(state: TransactionsState, now: int) -> None:
    oldest = now - state.config.expiration_ms
    for transaction in list(state.transactions.values()):
        if (
            transaction.state in NOT_IN_TRANSACTION
            and transaction.durable.transaction_last_update_timestamp_ms <= oldest
        ):
            state.forget(transaction)


# Admin requests on transactions (KIP-664): DescribeTransactions 0 and ListTransactions 0-2.


ANY_DURATION = -1
_NAMES = frozenset(state.shown for state in State)


def describe(state: TransactionsState, message: TransactionRequest, now: int) -> None:
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
        topics=[TopicData(topic=t.topic, partitions=t.partition_ids) for t in by_topic(transaction.partitions)],
    )


def list_transactions(state: TransactionsState, message: TransactionRequest, now: int) -> None:
    request = message.request
    assert isinstance(request, ListTransactionsRequest)
    response = ListTransactionsResponse(unknown_state_filters=unknown_states(request))
    try:
        matches = _matching(request.transactional_id_pattern)
    except InvalidRegularExpression:
        state.reply(message, ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION))
        return
    for transaction in state.transactions.values():
        if _is_wanted(transaction, request, now) and matches(transaction.transactional_id):
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


def _is_wanted(transaction: Transaction, request: ListTransactionsRequest, now: int) -> bool:
    if request.producer_id_filters and transaction.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and transaction.state.shown not in request.state_filters:
        return False
    running_ms = now - transaction.durable.transaction_start_timestamp_ms
    return request.duration_filter <= ANY_DURATION or running_ms > request.duration_filter


Operation = Callable[[TransactionsState, TransactionRequest, int], None]

OPERATIONS: dict[type[Message], Operation] = {
    InitProducerIdRequest: init_producer_id,
    AddPartitionsToTxnRequest: add_partitions,
    EndTxnRequest: end_txn,
    DescribeTransactionsRequest: describe,
    ListTransactionsRequest: list_transactions,
}


class TransactionShard:
    def __init__(self, config: TransactionsConfig, next_offset: int = 0) -> None:
        self.state = TransactionsState(config)
        self.state.next_offset = next_offset
        self._maintenance = Maintenance(self.state)

    def needs_producer_id(self, request: Message, version: int) -> bool:
        """Returns whether `request` currently needs a new producer id."""
        if type(request) is InitProducerIdRequest:
            return init_needs_producer_id(self.state, request)
        return type(request) is EndTxnRequest and end_needs_producer_id(self.state, request, version)

    def handle(self, message: TransactionRequest | MarkersWritten | ProducerIdTaken, now: int) -> None:
        if type(message) is TransactionRequest:
            OPERATIONS[type(message.request)](self.state, message, now)
        elif type(message) is ProducerIdTaken:
            abort_with_id(self.state, message, now)
        else:
            assert isinstance(message, MarkersWritten)
            markers_written(self.state, message, now)
        self._maintenance.plan(now)

    def awaits(self, markers: SendMarkers, partition: TopicPartition) -> bool:
        """Returns whether the marker is still pending. A late marker would end the next transaction."""
        return awaits(self.state, markers, partition)

    def deadline(self) -> int | None:
        return self.state.timers.next_deadline()

    def expire(self, now: int) -> None:
        self._maintenance.expire(now)

    def take(self) -> Output:
        """Returns the output since the last call. The caller appends the records before it sends any reply."""
        state = self.state
        output = Output(state.records[:], state.replies[:])
        state.records.clear()
        state.replies.clear()
        return output

    def replay(self, record: Record) -> None:
        self.state.replay(record)

    def loaded(self, now: int) -> None:
        for transaction in self.state.transactions.values():
            if transaction.state in PREPARED:
                send_markers(self.state, transaction)
        self._maintenance.plan(now)


# Loading of a transaction shard from its log. Of records with the same key only the last counts, as after compaction.
#
# The interface is that of the group loader: `feed` takes some batches at a time, `replay_some` replays some records.


log = logging.getLogger(__name__)


class TransactionLoader:
    def __init__(self, config: TransactionsConfig, name: str) -> None:
        self.shard = TransactionShard(config)
        #: The partition, for log lines.
        self.name = name
        self.record_count = 0
        self._latest: dict[bytes, bytes | None] = {}

    def feed(self, batches: Buffer) -> None:
        """Takes whole batches, from the start of the log to its end. Raises CorruptBatch and related errors."""
        latest = self._latest
        for position, header in iter_headers(batches):
            self.record_count += header.record_count
            if header.is_control:
                continue
            for record in decode_batch(batches, position, header):
                if record.key is not None:
                    latest.pop(record.key, None)
                    latest[record.key] = record.value

    def replay_some(self, count: int) -> bool:
        """Replays up to `count` of the fed records. Returns False when none is left."""
        latest = self._latest
        for key in [key for key, _ in zip(latest, range(count))]:
            value = latest.pop(key)
            try:
                self.shard.replay(decode_record(key, value))
            except (UnknownRecord, MalformedMessage) as error:
                log.warning("%s: a record is skipped: %s", self.name, error)
        return bool(latest)

    def loaded(self, log_end_offset: int, now: int) -> TransactionShard:
        """Returns the shard at the end of its log, ready for requests."""
        while self.replay_some(1_000):
            pass
        self.shard.state.next_offset = log_end_offset
        self.shard.loaded(now)
        return self.shard
