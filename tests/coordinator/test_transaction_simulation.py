"""Transactions are atomic and end as reported to their producers, despite crashes and losses between any two steps.

`ODRADEK_SEEDS=1000` runs more seeds. A producer id has six epochs here instead of 32,767, so that they run out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from odradek.coordinator import (
    init_producer_id,
    transaction,
    transaction_ends,
    transaction_maintenance,
    transaction_partitions,
)
from odradek.coordinator.groups.committed_offsets import OffsetStore
from odradek.coordinator.transaction import NOT_IN_TRANSACTION, Transaction, TransactionStatus
from odradek.coordinator.transaction_requests import SendMarkers, TransactionRequest
from odradek.coordinator.transaction_shard import TransactionShard
from odradek.coordinator.transactions_state import TransactionsState
from odradek.metadata.image import TopicPartition
from odradek.protocol.errors import ErrorCode
from odradek.protocol.records.batch import NO_PRODUCER_ID
from odradek.storage.log import transaction_checks as transaction_checks_module

from tests.coordinator import transaction_leaders
from tests.coordinator.injected_bugs import Bug, assert_caught, each_of
from tests.coordinator.transaction_leaders import Leader
from tests.coordinator.transaction_simulation import Simulation
from tests.harness.examples import examples

SEEDS = int(os.environ.get("ODRADEK_SEEDS") or examples(20))
STEPS = 3_000
MAX_EPOCH = 6


@pytest.fixture(autouse=True)
def short_epochs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(transaction, "MAX_EPOCH", MAX_EPOCH)
    monkeypatch.setattr(transaction_ends, "MAX_EPOCH", MAX_EPOCH)
    monkeypatch.setattr(transaction_checks_module, "MAX_PRODUCER_EPOCH", MAX_EPOCH)
    yield


def _run(seed: int) -> Simulation:
    simulation = Simulation(seed)
    simulation.run(STEPS)
    return simulation


@pytest.mark.parametrize("seed", range(SEEDS))
def test_transactions_are_atomic_and_end_as_reported(seed: int) -> None:
    _run(seed)


def test_seeds_cover_all_producer_events() -> None:
    seen = [_run(seed) for seed in range(6)]
    promises = [simulation.promises for simulation in seen]
    assert all(simulation.crashes for simulation in seen)
    assert any(committed for simulation in seen for committed in simulation.reported.values())
    assert sum(one.rotations for one in promises), "no producer got a new producer id"
    assert sum(one.repetitions for one in promises), "no end was retried"
    assert sum(one.recoveries for one in promises), "no producer recovered with its epoch"
    assert sum(one.timeouts for one in promises), "no transaction timed out"
    assert sum(one.expiries for one in promises), "no transactional id expired"
    assert any(simulation.offsets.visible for simulation in seen), "no transaction committed offsets"


def _markers_go_out_before_the_decision_is_committed(patch: pytest.MonkeyPatch) -> None:
    takes = Simulation.take

    def take(simulation: Simulation) -> None:
        takes(simulation)
        for parked in [one for one in simulation.parked if isinstance(one[2], SendMarkers)]:
            simulation.parked.remove(parked)
            simulation.release(parked[2])

    patch.setattr(Simulation, "take", take)


def _what_was_decided_is_not_taken_up_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionShard, "loaded", lambda shard, now: shard._maintenance.plan(now))


def _old_epochs_add_partitions(patch: pytest.MonkeyPatch) -> None:
    validate = transaction_partitions._validate_partitions

    def of_any_epoch(state: TransactionsState, asked: Any) -> Any:
        error, found = validate(state, asked)
        known = state.transactions.get(asked.transactional_id)
        return (ErrorCode.NONE, known) if error is ErrorCode.PRODUCER_FENCED else (error, found)

    patch.setattr(transaction_partitions, "_validate_partitions", of_any_epoch)


def _a_new_producer_gets_the_epoch_of_the_last_one(patch: pytest.MonkeyPatch) -> None:
    responses = init_producer_id._reply_init

    def respond(state: TransactionsState, message: TransactionRequest, found: Transaction) -> None:
        if message.request.producer_epoch < 0 < found.producer_epoch:  # type: ignore[attr-defined]
            state.records[-1].value.producer_epoch -= 1  # type: ignore[union-attr]
        responses(state, message, found)

    patch.setattr(init_producer_id, "_reply_init", respond)


def _a_repeated_end_is_answered_with_the_epoch_that_was_asked_for(patch: pytest.MonkeyPatch) -> None:
    responses = transaction_ends._reply_end

    def respond(state: TransactionsState, message: TransactionRequest, producer_id: int, epoch: int) -> None:
        request: Any = message.request
        if state.transactions[request.transactional_id].state in NOT_IN_TRANSACTION:
            producer_id, epoch = request.producer_id, request.producer_epoch
        responses(state, message, producer_id, epoch)

    patch.setattr(transaction_ends, "_reply_end", respond)


def _who_is_out_of_time_keeps_his_epoch(patch: pytest.MonkeyPatch) -> None:
    def fence(state: TransactionsState, found: Transaction, now: int, new_producer_id: int) -> None:
        transaction_ends.end(state, found, False, now)
        transaction_ends.send_markers(state, found)

    patch.setattr(init_producer_id, "fence", fence)
    patch.setattr(transaction_maintenance, "fence", fence)


def _a_rotation_forgets_the_previous_id(patch: pytest.MonkeyPatch) -> None:
    changes = Transaction.changed

    def changed(
        found: Transaction, state: TransactionStatus, now: int, places: set[TopicPartition] | None = None
    ) -> Any:
        value = changes(found, state, now, places)
        value.previous_producer_id = NO_PRODUCER_ID
        return value

    patch.setattr(Transaction, "changed", changed)


def _the_last_epoch_is_given_to_producers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transaction, "is_exhausted", lambda epoch: epoch >= MAX_EPOCH)


def _the_next_id_is_unknown_until_the_markers_are_written(patch: pytest.MonkeyPatch) -> None:
    """Restores a former bug."""
    adds = transaction_partitions._add

    def add(state: TransactionsState, asked: Any, version: int, now: int) -> ErrorCode:
        found = state.transactions.get(asked.transactional_id)
        if found is not None and found.producer_id != asked.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return adds(state, asked, version, now)

    patch.setattr(transaction_partitions, "_add", add)


def _going_on_takes_another_epoch_each_time(patch: pytest.MonkeyPatch) -> None:
    """Violates KIP-360: a retry after a lost response gets the same epoch."""
    goes_on = init_producer_id._next_epoch

    def next_epoch(state: TransactionsState, message: TransactionRequest, found: Transaction, now: int) -> ErrorCode:
        request: Any = message.request
        if request.producer_epoch == found.last_producer_epoch and not found.is_epoch_exhausted:
            message = replace(message, request=replace(request, producer_epoch=found.producer_epoch))
        return goes_on(state, message, found, now)

    patch.setattr(init_producer_id, "_next_epoch", next_epoch)


def _markers_of_an_old_coordinator_are_taken(patch: pytest.MonkeyPatch) -> None:
    check = transaction_checks_module.check_marker

    def check_marker(producers: Any, producer_id: int, epoch: int, coordinator_epoch: int, version: int) -> ErrorCode:
        return check(producers, producer_id, epoch, 1 << 30, version)

    patch.setattr(transaction_leaders, "check_marker", check_marker)


def _markers_of_an_old_epoch_are_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transaction_leaders, "check_marker", lambda *asked: ErrorCode.NONE)


def _an_id_with_an_open_transaction_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(init_producer_id, "NOT_IN_TRANSACTION", NOT_IN_TRANSACTION | {TransactionStatus.ONGOING})
    patch.setattr(transaction_maintenance, "NOT_IN_TRANSACTION", NOT_IN_TRANSACTION | {TransactionStatus.ONGOING})
    patch.setattr(transaction_partitions, "NOT_IN_TRANSACTION", NOT_IN_TRANSACTION | {TransactionStatus.ONGOING})
    patch.setitem(
        transaction.VALID_PREVIOUS_STATES, TransactionStatus.DEAD, NOT_IN_TRANSACTION | {TransactionStatus.ONGOING}
    )


def _offsets_are_seen_before_their_marker(patch: pytest.MonkeyPatch) -> None:
    replays = OffsetStore.replay
    patch.setattr(
        OffsetStore, "replay", lambda store, key, value, at, producer_id: replays(store, key, value, at, NO_PRODUCER_ID)
    )


def _offsets_of_an_aborted_transaction_are_seen(patch: pytest.MonkeyPatch) -> None:
    ended = OffsetStore.replay_end_of_transaction
    patch.setattr(
        OffsetStore, "replay_end_of_transaction", lambda store, producer_id, committed: ended(store, producer_id, True)
    )


def _offsets_that_are_pending_are_called_stable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OffsetStore, "is_pending", lambda store, group_id, topic, partition: False)


def _what_was_allowed_for_a_transaction_is_written_after_its_end(patch: pytest.MonkeyPatch) -> None:
    """Violates KIP-890: the write would belong to no transaction, and hang."""
    patch.setattr(Leader, "still_stands", lambda leader, question: True)


@pytest.mark.slow
@each_of(
    _markers_go_out_before_the_decision_is_committed,
    _what_was_decided_is_not_taken_up_again,
    _old_epochs_add_partitions,
    _a_new_producer_gets_the_epoch_of_the_last_one,
    _a_repeated_end_is_answered_with_the_epoch_that_was_asked_for,
    _who_is_out_of_time_keeps_his_epoch,
    _a_rotation_forgets_the_previous_id,
    _the_last_epoch_is_given_to_producers,
    _the_next_id_is_unknown_until_the_markers_are_written,
    _going_on_takes_another_epoch_each_time,
    _markers_of_an_old_coordinator_are_taken,
    _markers_of_an_old_epoch_are_taken,
    _an_id_with_an_open_transaction_is_forgotten,
    _offsets_are_seen_before_their_marker,
    _offsets_of_an_aborted_transaction_are_seen,
    _offsets_that_are_pending_are_called_stable,
    _what_was_allowed_for_a_transaction_is_written_after_its_end,
)
def test_simulation_detects_injected_bug_of_transactions(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_caught(bug, monkeypatch, _run)
