"""Seeded simulation of groups that change their protocol; `ODRADEK_SEEDS=1000` runs more seeds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest
from odradek.coordinator.groups.classic import join, leave, rebalance, sync
from odradek.coordinator.groups.classic.group import ClassicGroup
from odradek.coordinator.groups.consumer import classic_members, migration
from odradek.coordinator.groups.consumer.group import ConsumerGroup
from odradek.coordinator.groups.consumer.member import Partitions
from odradek.coordinator.groups.shard_state import ShardState

from tests.coordinator.injected_bugs import Bug, assert_caught, each_of
from tests.coordinator.migrating_clients import CONSUMER_SESSION_MS
from tests.coordinator.migration_simulation import MigrationSimulation
from tests.harness.examples import examples

SEEDS = int(os.environ.get("ODRADEK_SEEDS") or examples(15))
STEPS = 400


def _run(seed: int) -> MigrationSimulation:
    return MigrationSimulation(seed).execute(STEPS)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_partitions_have_one_owner_during_migrations(seed: int) -> None:
    simulation = _run(seed)
    assert simulation.handed_out, "no partition was ever assigned"


def test_simulation_has_migrations_both_ways_and_commits() -> None:
    executed = [_run(seed) for seed in range(4)]
    assert sum(len(simulation.kinds) for simulation in executed) >= 16
    assert all(simulation.committed for simulation in executed)


def _what_members_held_is_forgotten_on_the_way_down(patch: pytest.MonkeyPatch) -> None:
    downgrades = migration.downgrade

    def forgetful(state: ShardState, group: ConsumerGroup, *arguments: Any) -> ClassicGroup:
        classic = downgrades(state, group, *arguments)
        classic.predecessor = None
        return classic

    patch.setattr(classic_members, "downgrade", forgetful)
    patch.setattr(migration, "downgrade", forgetful)


def _targets_are_taken_for_holdings_on_the_way_up(patch: pytest.MonkeyPatch) -> None:
    def credulous(
        members: Any, assigned: Mapping[str, Partitions], held: Mapping[str, Partitions]
    ) -> dict[str, migration.Holding]:
        return {member.member_id: migration.Holding(assigned[member.member_id], {}) for member in members}

    patch.setattr(migration, "_of_targets", credulous)


def _what_cooperative_members_have_yet_to_give_back_is_free(patch: pytest.MonkeyPatch) -> None:
    holding = migration._holding
    patch.setattr(
        migration,
        "_holding",
        lambda member, assigned, rest: holding(member, assigned, rest if not member.assignment else {}),
    )


def _nobody_is_asked_to_join_when_the_last_new_member_is_gone(patch: pytest.MonkeyPatch) -> None:
    def calm(state: ShardState, group: ClassicGroup, now: int, reason: str) -> None:
        if reason != "the last member of the consumer protocol left":
            rebalance_prepares(state, group, now, reason)

    rebalance_prepares = rebalance.prepare
    patch.setattr(join, "prepare", calm)
    patch.setattr(leave, "prepare", calm)
    patch.setattr(rebalance, "prepare", calm)
    patch.setattr(sync, "prepare", calm)


def _nobody_is_asked_to_join_after_a_load(patch: pytest.MonkeyPatch) -> None:
    restores = ClassicGroup.restore

    def forgetful(group: ClassicGroup, now: int) -> None:
        restores(group, now)
        group.predecessor = None

    patch.setattr(ClassicGroup, "restore", forgetful)


def _sessions_of_classic_members_are_not_carried_over(patch: pytest.MonkeyPatch) -> None:
    upgrades = migration.upgrade

    def hasty(state: ShardState, classic: ClassicGroup, now: int) -> ConsumerGroup:
        group = upgrades(state, classic, now)
        for member_id in group.members:
            state.timers.set(group.session(member_id), now + CONSUMER_SESSION_MS // 3)
        return group

    patch.setattr(migration, "upgrade", hasty)


def _generations_start_anew_on_the_way_down(patch: pytest.MonkeyPatch) -> None:
    becomes = ClassicGroup.become_stable

    def young(group: ClassicGroup, protocol_type: str, generation_id: int, now: int) -> None:
        becomes(group, protocol_type, 1, now)

    patch.setattr(ClassicGroup, "become_stable", young)


@pytest.mark.slow
@each_of(
    _what_members_held_is_forgotten_on_the_way_down,
    _targets_are_taken_for_holdings_on_the_way_up,
    _what_cooperative_members_have_yet_to_give_back_is_free,
    _nobody_is_asked_to_join_when_the_last_new_member_is_gone,
    _nobody_is_asked_to_join_after_a_load,
    _sessions_of_classic_members_are_not_carried_over,
    _generations_start_anew_on_the_way_down,
)
def test_simulation_detects_injected_bug_of_migration(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_caught(bug, monkeypatch, _run, seeds=60)
