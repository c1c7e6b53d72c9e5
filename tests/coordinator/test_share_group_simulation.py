"""Seeded simulation of share groups; `ODRADEK_SEEDS=1000` runs more seeds."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
from odradek.coordinator.groups.share import (
    assignor,
    heartbeat,
    initialization,
    offset_requests,
    settings,
    state_partitions,
    targets,
    validation,
    writing,
)
from odradek.coordinator.groups.share.assignor import Assignment
from odradek.coordinator.groups.share.member import ShareMember

from tests.coordinator.injected_bugs import Bug, assert_caught, each_of
from tests.coordinator.share_group_simulation import ShareGroupSimulation
from tests.harness.examples import examples

SEEDS = int(os.environ.get("ODRADEK_SEEDS") or examples(25))
STEPS = 400


def _run(seed: int) -> ShareGroupSimulation:
    return ShareGroupSimulation(seed).execute(STEPS)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_subscribed_partitions_are_assigned_and_share_groups_converge(seed: int) -> None:
    assert _run(seed).handed_out, "no partition was ever assigned"


def _epochs_of_heartbeats_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(validation, "validate_epoch", lambda member, epoch: None)


def _the_epoch_before_is_not_remembered(patch: pytest.MonkeyPatch) -> None:
    writes = writing.write_current
    patch.setattr(
        writing, "write_current", lambda state, group_id, m: writes(state, group_id, replace(m, epoch=m.epoch - 1))
    )


def _new_subscriptions_make_no_new_epoch(patch: pytest.MonkeyPatch) -> None:
    updates = targets.update_epoch
    patch.setattr(heartbeat, "update_epoch", lambda state, group, changed: updates(state, group, False))


def _whoever_goes_makes_no_new_epoch(patch: pytest.MonkeyPatch) -> None:
    def removes(state: Any, group: Any, member_id: str) -> None:
        writing.remove_member(state, group.group_id, member_id)

    patch.setattr(targets, "remove_member", removes)
    patch.setattr(heartbeat, "remove_member", removes)


def _the_dead_are_not_missed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(settings, "session_timeout_ms", lambda state, group_id: 1 << 50)


def _assignments_are_not_written_down(patch: pytest.MonkeyPatch) -> None:
    def remembers(state: Any, group_id: str, member: ShareMember) -> None:
        state.groups[group_id].members[member.member_id] = member

    patch.setattr(writing, "write_current", remembers)


def _what_the_persister_began_is_forgotten_in_part(patch: pytest.MonkeyPatch) -> None:
    joins = state_partitions.joined

    def joined(a: Any, b: Any) -> Any:
        return dict(list(joins(a, b).items())[:1])

    patch.setattr(initialization, "joined", joined)
    patch.setattr(offset_requests, "joined", joined)


def _partitions_that_come_later_are_not_begun(patch: pytest.MonkeyPatch) -> None:
    missing = state_partitions.missing

    def missing_at_first(states: Any, image: Any, names: Any, retry_before_ms: int) -> Any:
        found = missing(states, image, names, retry_before_ms)
        return {} if states.initialized else found

    patch.setattr(initialization, "missing", missing_at_first)


def _the_last_partition_is_nobodys(patch: pytest.MonkeyPatch) -> None:
    assigns = assignor.simple

    def simple(members: Any, assignable: Any) -> Assignment:
        return assigns(members, {t: indexes - {max(indexes)} for t, indexes in assignable.items() if indexes})

    patch.setattr(targets, "simple", simple)


def _what_nobody_keeps_is_given_out(patch: pytest.MonkeyPatch) -> None:
    assigns = assignor.simple

    def simple(members: Any, assignable: Any) -> Assignment:
        return assigns(members, {t: indexes | {max(indexes) + 1} for t, indexes in assignable.items() if indexes})

    patch.setattr(targets, "simple", simple)


@pytest.mark.slow
@each_of(
    _epochs_of_heartbeats_are_not_looked_at,
    _the_epoch_before_is_not_remembered,
    _new_subscriptions_make_no_new_epoch,
    _whoever_goes_makes_no_new_epoch,
    _the_dead_are_not_missed,
    _assignments_are_not_written_down,
    _what_the_persister_began_is_forgotten_in_part,
    _partitions_that_come_later_are_not_begun,
    _the_last_partition_is_nobodys,
    _what_nobody_keeps_is_given_out,
)
def test_simulation_detects_injected_bug_of_share_groups(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_caught(bug, monkeypatch, _run)
