"""Assertions of a transaction shard: a step that would break the order of epochs fails before it is written."""

from __future__ import annotations

import pytest
from odradek.coordinator.transaction import MAX_EPOCH, Transaction, TransactionStatus
from odradek.coordinator.transaction_ends import fence
from odradek.coordinator.transaction_requests import TransactionRequest, TransactionsConfig
from odradek.coordinator.transaction_shard import TransactionShard
from odradek.protocol.internal.transaction_state import PartitionsSchema, TransactionLogValue
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest

ID, PRODUCER, NOW = "id", 7, 1_000
FIRST_WITH_NEXT_PRODUCER = 5


def shard_with(epoch: int, status: TransactionStatus) -> tuple[TransactionShard, Transaction]:
    """A shard of transaction version 2, with one id."""
    shard = TransactionShard(TransactionsConfig(transaction_version=2))
    value = TransactionLogValue(
        producer_id=PRODUCER, previous_producer_id=PRODUCER, producer_epoch=epoch, transaction_timeout_ms=60_000,
        transaction_status=status, transaction_partitions=[PartitionsSchema("t", [0])],
        transaction_last_update_timestamp_ms=NOW, transaction_start_timestamp_ms=NOW,
    )  # fmt: skip
    transaction = shard.state.transactions[ID] = Transaction(ID, value)
    return shard, transaction


def next_value(transaction: Transaction, producer_id: int, epoch: int) -> TransactionLogValue:
    value = transaction.changed(TransactionStatus.EMPTY, NOW, set())
    value.producer_id, value.producer_epoch = producer_id, epoch
    return value


@pytest.mark.parametrize(("producer_id", "epoch"), [(PRODUCER, 4), (PRODUCER, 1), (PRODUCER + 1, 6), (PRODUCER + 1, 1)])
def test_epoch_of_another_order_is_not_written(producer_id: int, epoch: int) -> None:
    shard, transaction = shard_with(5, TransactionStatus.COMPLETE_COMMIT)
    before = transaction.durable
    with pytest.raises(AssertionError):
        shard.state.write(ID, next_value(transaction, producer_id, epoch))
    assert transaction.durable is before and not shard.take().records


@pytest.mark.parametrize(("producer_id", "epoch"), [(PRODUCER, 5), (PRODUCER, 6), (PRODUCER + 1, 0)])
def test_same_and_next_epoch_and_the_first_one_of_the_next_producer_are_written(producer_id: int, epoch: int) -> None:
    shard, transaction = shard_with(5, TransactionStatus.COMPLETE_COMMIT)
    shard.state.write(ID, next_value(transaction, producer_id, epoch))
    assert (transaction.producer_id, transaction.producer_epoch) == (producer_id, epoch)


def test_new_id_that_the_log_has_already_is_written() -> None:
    """A log may name any producer id, among them one that the controller assigns later."""
    shard, transaction = shard_with(MAX_EPOCH - 1, TransactionStatus.COMPLETE_COMMIT)
    request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=1_000)
    shard.handle(TransactionRequest(1, request, 4, new_producer_id=PRODUCER), NOW)
    assert (transaction.producer_id, transaction.producer_epoch) == (PRODUCER, 0)


def test_last_epoch_is_not_fenced_without_a_new_id() -> None:
    shard, transaction = shard_with(MAX_EPOCH - 1, TransactionStatus.ONGOING)
    with pytest.raises(AssertionError):
        fence(shard.state, transaction, NOW, -1)
    assert not shard.take().records


def test_last_epoch_does_not_end_without_a_new_id() -> None:
    shard, _ = shard_with(MAX_EPOCH - 1, TransactionStatus.ONGOING)
    request = EndTxnRequest(transactional_id=ID, producer_id=PRODUCER, producer_epoch=MAX_EPOCH - 1, committed=True)
    assert shard.needs_producer_id(request, FIRST_WITH_NEXT_PRODUCER)
    with pytest.raises(AssertionError):
        shard.handle(TransactionRequest(1, request, FIRST_WITH_NEXT_PRODUCER), NOW)
    assert not shard.take().records
