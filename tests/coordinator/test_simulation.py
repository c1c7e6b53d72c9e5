"""Seeded simulation of groups. Seeds are reproducible everywhere; `ODRADEK_SEEDS=1000` runs more of them."""

from __future__ import annotations

import os

import pytest
from odradek.coordinator.groups.classic.group import ClassicGroup, ClassicGroupState
from odradek.coordinator.groups.classic.member import ClassicMember
from odradek.coordinator.groups.classic.sync import synced
from odradek.protocol.internal.consumer_offsets import GroupMetadataValue

from tests.coordinator.injected_bugs import Bug, assert_caught, each_of
from tests.coordinator.simulation import Simulation
from tests.harness.examples import examples

SEEDS = int(os.environ.get("ODRADEK_SEEDS") or examples(25))
EVENTS = 1_500


@pytest.mark.parametrize("seed", range(SEEDS))
def test_group_invariants_hold_under_faults(seed: int) -> None:
    simulation = Simulation(seed)
    simulation.run(EVENTS)
    assert simulation.owners, "no group ever had an assignment"


@pytest.mark.parametrize("seed", range(SEEDS))
def test_groups_become_stable_without_faults(seed: int) -> None:
    simulation = Simulation(seed)
    simulation.run(EVENTS // 3)
    simulation.run_calm(180_000)
    for group in simulation.shard.state.groups.values():
        assert group.state in (ClassicGroupState.STABLE, ClassicGroupState.EMPTY), (
            f"{group.group_id} is {group.state.value}"
        )
    assert not simulation.open, "somebody was never answered"


def _sync_responds_before_the_leader_has_assigned(patch: pytest.MonkeyPatch) -> None:
    awaits = ClassicGroup.await_sync

    def hasty(group: ClassicGroup, member: ClassicMember, token: object) -> None:
        awaits(group, member, token)
        if group.leader_id != member.member_id:
            group.respond_to_sync(member, synced(group, member))

    patch.setattr(ClassicGroup, "await_sync", hasty)


def _generations_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    counts = ClassicGroup.next_generation

    def forgetful(group: ClassicGroup, now: int) -> None:
        counts(group, now)
        group.generation_id = max(group.generation_id - 1, 1)

    patch.setattr(ClassicGroup, "next_generation", forgetful)


def _a_static_member_that_comes_back_loses_its_assignment(patch: pytest.MonkeyPatch) -> None:
    replaces = ClassicGroup.replace_static

    def careless(group: ClassicGroup, group_instance_id: str, new_member_id: str) -> ClassicMember:
        member = replaces(group, group_instance_id, new_member_id)
        member.assignment = b""
        return member

    patch.setattr(ClassicGroup, "replace_static", careless)


def _records_do_not_say_who_leads(patch: pytest.MonkeyPatch) -> None:
    describes = ClassicGroup.as_record

    def vague(group: ClassicGroup, assignments: dict[str, bytes]) -> GroupMetadataValue:
        value = describes(group, assignments)
        value.leader = None
        return value

    patch.setattr(ClassicGroup, "as_record", vague)


def _responses_do_not_wait_for_the_log(patch: pytest.MonkeyPatch) -> None:
    release = Simulation._release

    def impatient(simulation: Simulation) -> None:
        simulation.parked = [(0, asked, response) for _, asked, response in simulation.parked]
        release(simulation)

    patch.setattr(Simulation, "_release", impatient)


def _a_member_that_leaves_is_not_answered(patch: pytest.MonkeyPatch) -> None:
    removes = ClassicGroup.remove

    def rude(group: ClassicGroup, member_id: str) -> None:
        member = group.members.get(member_id)
        if member is not None and member.awaiting_sync is not None:
            member.awaiting_sync = None
        removes(group, member_id)

    patch.setattr(ClassicGroup, "remove", rude)


def _run(seed: int) -> None:
    simulation = Simulation(seed)
    simulation.run(EVENTS)
    simulation.run_calm(180_000)
    assert not simulation.open, "somebody was never answered"


@pytest.mark.slow
@each_of(
    _sync_responds_before_the_leader_has_assigned,
    _generations_are_not_counted,
    _a_static_member_that_comes_back_loses_its_assignment,
    _records_do_not_say_who_leads,
    _responses_do_not_wait_for_the_log,
    _a_member_that_leaves_is_not_answered,
)
def test_simulation_detects_injected_bug_of_classic_groups(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_caught(bug, monkeypatch, _run, seeds=60)
