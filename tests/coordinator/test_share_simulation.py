"""Seeded simulation of a share partition; `ODRADEK_SEEDS=1000` runs more seeds."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest
from odradek.coordinator import share_state, share_state_operations
from odradek.coordinator.share_partition import SharePartition
from odradek.coordinator.share_runs import RecordState, Run
from odradek.coordinator.state_batches import StateBatch

from tests.coordinator.injected_bugs import Bug, assert_caught, each_of
from tests.coordinator.share_simulation import ShareSimulation
from tests.coordinator.share_state_log import ShareStateLog
from tests.harness.examples import examples

SEEDS = int(os.environ.get("ODRADEK_SEEDS") or examples(25))
STEPS = 400


def _run(seed: int) -> ShareSimulation:
    simulation = ShareSimulation(seed)
    simulation.run(STEPS)
    simulation.run_calm()
    return simulation


@pytest.mark.parametrize("seed", range(SEEDS))
def test_records_are_acknowledged_once_and_delivery_limit_holds(seed: int) -> None:
    assert _run(seed).deliveries, "no record was ever delivered"


def _what_is_being_written_is_given_out(patch: pytest.MonkeyPatch) -> None:
    def is_available(run: Run) -> bool:
        return run.state is RecordState.AVAILABLE or run.before is not None

    def give(partition: SharePartition, run: Run, member_id: str, now: int) -> None:
        run.before = None
        run.delivery_count += 1
        partition._lock(run, member_id, now)

    patch.setattr(Run, "is_available", property(is_available))
    patch.setattr(SharePartition, "give", give)


def _records_are_delivered_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharePartition, "_outcome", lambda partition, run, state, **_: state)


def _anybody_may_acknowledge(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharePartition, "_validate", lambda partition, run, member_id, kind: None)


def _responses_do_not_wait_for_the_persister(patch: pytest.MonkeyPatch) -> None:
    writes = SharePartition._write

    def write(partition: SharePartition, token: object, runs: list[Run], *, is_tentative: bool) -> None:
        writes(partition, token, [], is_tentative=is_tentative)
        writes(partition, None, runs, is_tentative=is_tentative)

    patch.setattr(SharePartition, "_write", write)


def _the_persister_writes_nothing_down(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(share_state, "combine", lambda batches, start_offset: ())
    patch.setattr(share_state_operations, "combine", lambda batches, start_offset: ())


def _the_persister_responds_before_it_commits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ShareStateLog, "waits_for_commits", False)


def _locks_never_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SharePartition, "expire", lambda partition, now: None)


def _a_new_leader_sends_no_letters_again(patch: pytest.MonkeyPatch) -> None:
    load = SharePartition._load

    def load_without(partition: SharePartition, batches: Iterable[StateBatch]) -> None:
        load(partition, batches)
        partition._dead_letter_records.clear()

    patch.setattr(SharePartition, "_load", load_without)


def _letters_of_locks_that_ended_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    def outcome(partition: SharePartition, run: Run, state: RecordState, *, is_rejected: bool = False) -> RecordState:
        if is_rejected:
            return RecordState.ARCHIVING if partition.limits.has_dead_letters else RecordState.ARCHIVED
        is_last = state is RecordState.AVAILABLE and run.delivery_count >= partition.limits.delivery_count
        return RecordState.ARCHIVED if is_last else state

    patch.setattr(SharePartition, "_outcome", outcome)


def _letters_go_out_before_that_is_written(patch: pytest.MonkeyPatch) -> None:
    """If the write fails, the member still has its record and may accept it."""
    write = SharePartition._write

    def write_and_send(partition: SharePartition, token: object, changes: Any, *, is_tentative: bool) -> None:
        write(partition, token, changes, is_tentative=is_tentative)
        last = max(partition._pending, default=0)
        if last and partition._pending[last].dead_letter_records:
            partition._dead_letter_records += partition._pending[last].dead_letter_records
            partition._pending[last] = partition._pending[last]._replace(dead_letter_records=())

    patch.setattr(SharePartition, "_write", write_and_send)


@pytest.mark.slow
@each_of(
    _a_new_leader_sends_no_letters_again,
    _letters_of_locks_that_ended_are_forgotten,
    _letters_go_out_before_that_is_written,
    _what_is_being_written_is_given_out,
    _records_are_delivered_for_ever,
    _anybody_may_acknowledge,
    _responses_do_not_wait_for_the_persister,
    _the_persister_writes_nothing_down,
    _the_persister_responds_before_it_commits,
    _locks_never_end,
)
def test_simulation_detects_injected_bug_of_share_partitions(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    # Only every other seed has dead-letter records.
    assert_caught(bug, monkeypatch, _run, seeds=40)
