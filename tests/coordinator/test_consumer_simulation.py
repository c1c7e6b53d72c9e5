"""Seeded simulation of consumer groups; `ODRADEK_SEEDS=1000` runs more seeds."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from odradek.coordinator.groups import member_commits
from odradek.coordinator.groups.consumer import heartbeat as validation
from odradek.coordinator.groups.consumer import reconciliation, writing
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.member import ConsumerMember
from odradek.protocol.errors import ErrorCode

from tests.coordinator.consumer_simulation import ConsumerSimulation
from tests.coordinator.injected_bugs import Bug, assert_caught, each_of
from tests.harness.examples import examples

SEEDS = int(os.environ.get("ODRADEK_SEEDS") or examples(25))
STEPS = 500


def _run(seed: int) -> ConsumerSimulation:
    return ConsumerSimulation(seed).execute(STEPS)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_partitions_have_one_owner_and_consumer_groups_converge(seed: int) -> None:
    simulation = _run(seed)
    assert simulation.handed_out and simulation.commits, "no partition was ever assigned"


def _partitions_are_given_out_while_others_hold_them(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerGroup, "is_held", lambda group, topic_id, index: False)


def _members_advance_before_they_gave_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reconciliation, "_overlap", lambda held, owned: False)


def _what_is_to_be_given_back_is_not_recorded(patch: pytest.MonkeyPatch) -> None:
    writes = writing.write_current
    patch.setattr(
        writing,
        "write_current",
        lambda state, group_id, member: writes(state, group_id, replace(member, revoking={})),
    )


def _fenced_members_keep_what_they_held(patch: pytest.MonkeyPatch) -> None:
    def keeps(group: ConsumerGroup, member: ConsumerMember) -> None:
        pass

    patch.setattr(ConsumerGroup, "_release", keeps)


def _epochs_of_heartbeats_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(validation, "validate_epoch", lambda member, epoch, owned: None)


def _epochs_of_commits_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(member_commits, "stale", lambda member: ErrorCode.NONE)


@pytest.mark.slow
@each_of(
    _epochs_of_heartbeats_are_not_looked_at,
    _epochs_of_commits_are_not_looked_at,
    _partitions_are_given_out_while_others_hold_them,
    _members_advance_before_they_gave_back,
    _what_is_to_be_given_back_is_not_recorded,
    _fenced_members_keep_what_they_held,
)
def test_simulation_detects_injected_bug_of_consumer_groups(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_caught(bug, monkeypatch, _run)
