"""Seeded simulation of the persister of share groups; `ODRADEK_SEEDS=1000` runs more seeds."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
from odradek.coordinator import share_state_checks, share_state_operations
from odradek.coordinator.persister_loader import PersisterLoader
from odradek.coordinator.persister_shard import PersisterShard, Redundant
from odradek.coordinator.result import Record
from odradek.coordinator.share_state import PersisterState, ShareKey, ShareState
from odradek.coordinator.state_batches import combine
from odradek.protocol.buffer import Buffer
from odradek.protocol.internal.share_group_state import ShareSnapshotValue

from tests.coordinator.injected_bugs import Bug, assert_caught, each_of
from tests.coordinator.share_state_log import ShareStateLog
from tests.coordinator.share_state_simulation import ShareStateSimulation
from tests.harness.examples import examples

SEEDS = int(os.environ.get("ODRADEK_SEEDS") or examples(20))
STEPS = 300


def _run(seed: int) -> ShareStateSimulation:
    simulation = ShareStateSimulation(seed)
    simulation.run(STEPS)
    return simulation


@pytest.mark.parametrize("seed", range(SEEDS))
def test_persister_keeps_acknowledged_state_after_crash_and_cut(seed: int) -> None:
    assert _run(seed).reported, "no request ever got a response"


def _responses_do_not_wait_for_the_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ShareStateLog, "waits_for_commits", False)


def _snapshots_leave_out_batches(patch: pytest.MonkeyPatch) -> None:
    """The state in memory is right: only a reload of the log shows the bug."""

    def write(state: PersisterState, record: Record) -> None:
        value = record.value
        state.replay(record)
        if isinstance(value, ShareSnapshotValue):
            record = record._replace(value=replace(value, state_batches=value.state_batches[1:]))
        state.records.append(record)

    patch.setattr(PersisterState, "_write", write)


def _updates_before_the_snapshot_are_replayed(patch: pytest.MonkeyPatch) -> None:
    replays = PersisterState._replay_snapshot

    def replay(state: PersisterState, key: ShareKey, value: ShareSnapshotValue) -> None:
        before = state.partitions.get(key)
        replays(state, key, value)
        if before is not None:
            after = state.partitions[key]
            batches = combine((*before.batches, *after.batches), after.start_offset)
            state.partitions[key] = replace(after, batches=batches)

    patch.setattr(PersisterState, "_replay_snapshot", replay)


def _of_each_key_the_last_record_is_loaded(patch: pytest.MonkeyPatch) -> None:
    """Loads like group logs, although updates build on earlier records."""
    feeds = PersisterLoader.feed

    def feed(loader: PersisterLoader, batches: Buffer) -> None:
        feeds(loader, batches)
        last = {key: (offset, key, value) for offset, key, value in loader._fed}
        loader._fed.clear()
        loader._fed.extend(sorted(last.values()))

    patch.setattr(PersisterLoader, "feed", feed)


def _deleted_states_come_back(patch: pytest.MonkeyPatch) -> None:
    replays = PersisterShard.replay
    patch.setattr(
        PersisterShard, "replay", lambda shard, record: replays(shard, record) if record.value is not None else None
    )


def _the_log_is_cut_up_to_the_newest_snapshot(patch: pytest.MonkeyPatch) -> None:
    def redundant(shard: PersisterShard) -> Redundant:
        newest = shard.state.newest_snapshot_offset
        return Redundant(newest, newest + 1)

    patch.setattr(PersisterShard, "redundant", redundant)


def _the_log_is_cut_below_snapshots_that_may_be_lost(patch: pytest.MonkeyPatch) -> None:
    """Checks only that the oldest snapshot is not above the high watermark."""
    redundant = PersisterShard.redundant

    def redundant_early(shard: PersisterShard) -> Redundant | None:
        found = redundant(shard)
        return None if found is None else Redundant(found.below, found.below)

    patch.setattr(PersisterShard, "redundant", redundant_early)


def _leader_epochs_of_writes_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    _without(patch, "WRITE", share_state_checks.leader_epoch_is_current)


def _leader_epochs_of_reads_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    _without(patch, "READ", share_state_checks.leader_epoch_is_current)


def _state_epochs_of_writes_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    _without(patch, "WRITE", share_state_checks.state_epoch_is_current)


def _state_epochs_of_initializations_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    _without(patch, "INITIALIZE", share_state_checks.state_epoch_is_current)


def _without(patch: pytest.MonkeyPatch, name: str, check: share_state_checks.Check) -> None:
    patch.setattr(
        share_state_operations, name, tuple(one for one in getattr(share_state_checks, name) if one is not check)
    )


def _a_leader_that_reads_is_not_written_down(patch: pytest.MonkeyPatch) -> None:
    changes = share_state_operations._write_change

    def change(
        state: PersisterState, key: ShareKey, known: ShareState, now: int, leader_epoch: int, *rest: Any
    ) -> None:
        if leader_epoch == share_state_checks.NO_EPOCH:
            changes(state, key, known, now, leader_epoch, *rest)
        else:
            state.partitions[key] = replace(known, leader_epoch=leader_epoch, fencing_leader_epoch=leader_epoch)

    patch.setattr(share_state_operations, "_write_change", change)


def _the_start_goes_back_to_where_some_leader_was(patch: pytest.MonkeyPatch) -> None:
    changes = share_state_operations._write_change

    def change(
        state: PersisterState, key: ShareKey, known: ShareState, now: int, leader_epoch: int, start: int, *rest: Any
    ) -> None:
        changes(state, key, replace(known, start_offset=start), now, leader_epoch, start, *rest)

    patch.setattr(share_state_operations, "_write_change", change)


@each_of(
    _responses_do_not_wait_for_the_commit,
    _snapshots_leave_out_batches,
    _updates_before_the_snapshot_are_replayed,
    _of_each_key_the_last_record_is_loaded,
    _deleted_states_come_back,
    _the_log_is_cut_up_to_the_newest_snapshot,
    _the_log_is_cut_below_snapshots_that_may_be_lost,
    _leader_epochs_of_writes_are_not_looked_at,
    _leader_epochs_of_reads_are_not_looked_at,
    _state_epochs_of_writes_are_not_looked_at,
    _state_epochs_of_initializations_are_not_looked_at,
    _a_leader_that_reads_is_not_written_down,
    _the_start_goes_back_to_where_some_leader_was,
)
def test_simulation_detects_injected_bug_of_persister(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_caught(bug, monkeypatch, _run)
