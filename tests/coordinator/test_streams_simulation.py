"""Seeded simulation of streams groups; `ODRADEK_SEEDS=1000` runs more seeds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

import pytest
from odradek.coordinator.groups.shard_state import ShardState
from odradek.coordinator.groups.streams import description, reconciliation, writing
from odradek.coordinator.groups.streams import heartbeat as validation
from odradek.coordinator.groups.streams.group import StreamsGroup
from odradek.coordinator.groups.streams.holders import TaskHolders
from odradek.coordinator.groups.streams.member import StreamsMember
from odradek.coordinator.groups.streams.tasks import NOTHING_HELD, TaskId
from odradek.protocol.internal.streams_group_records import StreamsGroupTopologyValue

from tests.coordinator.injected_bugs import Bug, assert_caught, each_of
from tests.coordinator.streams_simulation import StreamsSimulation
from tests.harness.examples import examples

SEEDS = int(os.environ.get("ODRADEK_SEEDS") or examples(25))
STEPS = 500


def _run(seed: int) -> StreamsSimulation:
    return StreamsSimulation(seed).execute(STEPS)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_tasks_have_one_owner_and_streams_groups_converge(seed: int) -> None:
    simulation = _run(seed)
    assert simulation.handed_out, "no task was ever assigned"
    assert simulation.warmed_up, "no task ever warmed up"


def _active_tasks_are_given_out_while_others_hold_them(patch: pytest.MonkeyPatch) -> None:
    def nobody(holders: TaskHolders, task: TaskId) -> Mapping[str, str]:
        return {}

    patch.setattr(TaskHolders, "of_active", nobody)


def _copies_of_the_same_process_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reconciliation, "_is_here", lambda member, holders: False)


def _warm_up_tasks_of_the_same_process_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    def nobody(holders: TaskHolders, task: TaskId) -> Mapping[str, str]:
        return {}

    patch.setattr(TaskHolders, "of_warmup", nobody)


def _warm_up_tasks_do_not_wait_for_whoever_has_the_task(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reconciliation, "_waiting_warmup", lambda member, wanted, holders: set())


def _warm_up_tasks_are_not_written_down(patch: pytest.MonkeyPatch) -> None:
    """The member has the tasks, but the next coordinator does not load them."""
    writes = writing.write_current

    def write(state: ShardState, group_id: str, member: StreamsMember) -> None:
        writes(state, group_id, replace(member, assigned=replace(member.assigned, warmup=frozenset())))
        group = state.find(StreamsGroup, group_id)
        assert group is not None
        group._put(group.members[member.member_id], member)

    patch.setattr(writing, "write_current", write)


def _members_advance_before_they_gave_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reconciliation, "_is_not_released", lambda revoking, owned: False)


def _what_is_to_be_given_back_is_not_recorded(patch: pytest.MonkeyPatch) -> None:
    writes = writing.write_current
    patch.setattr(
        writing,
        "write_current",
        lambda state, group_id, member: writes(state, group_id, replace(member, revoking=NOTHING_HELD)),
    )


def _fenced_members_keep_what_they_held(patch: pytest.MonkeyPatch) -> None:
    def keeps(holders: TaskHolders, member: StreamsMember) -> None:
        pass

    patch.setattr(TaskHolders, "release", keeps)


def _epochs_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(validation, "validate_epoch", lambda member, epoch, owned: None)


def _descriptions_are_not_written_down(patch: pytest.MonkeyPatch) -> None:
    def remembers(state: ShardState, group_id: str, value: StreamsGroupTopologyValue) -> None:
        group = state.find(StreamsGroup, group_id)
        assert group is not None
        if group.topology is None:
            writes(state, group_id, value)
        group.topology = value

    writes = writing.write_topology
    patch.setattr(writing, "write_topology", remembers)


def _descriptions_are_asked_for_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(description, "asks", lambda group, now: True)


@pytest.mark.slow
@each_of(
    _descriptions_are_not_written_down,
    _descriptions_are_asked_for_for_ever,
    _active_tasks_are_given_out_while_others_hold_them,
    _copies_of_the_same_process_are_not_looked_at,
    _warm_up_tasks_of_the_same_process_are_not_looked_at,
    _warm_up_tasks_do_not_wait_for_whoever_has_the_task,
    _warm_up_tasks_are_not_written_down,
    _members_advance_before_they_gave_back,
    _what_is_to_be_given_back_is_not_recorded,
    _fenced_members_keep_what_they_held,
    _epochs_are_not_looked_at,
)
def test_simulation_detects_injected_bug_of_streams_groups(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_caught(bug, monkeypatch, _run)
