"""Static voters under seeded faults: kraft.version is raised, and then voters are added and removed."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from odradek.replication.quorum.core import QuorumConfig
from odradek.replication.quorum.effects import RaiseKRaftVersion
from odradek.replication.quorum.voters import ReplicaKey, Voter, VoterHistory, VoterSet

from tests.harness.examples import examples
from tests.replication.quorum.quorum_simulator import Simulation, voter

SEEDS = int(os.environ.get("ODRADEK_QUORUM_SEEDS") or examples(60))


class StaticSimulation(Simulation):
    """Every node has the same configuration: the ids and addresses of the voters."""

    def history(self, node_id: int) -> VoterHistory:
        return VoterHistory(VoterSet.of(Voter(ReplicaKey(id), voter(id).addresses) for id in self.initial_voters.ids))

    def config(self, node_id: int) -> QuorumConfig:
        return replace(super().config(node_id), addresses=voter(node_id).addresses)

    def _change_voters(self) -> None:
        super()._change_voters()
        for node in self.nodes.values():
            replica = node.replica
            if replica is None or not replica.is_leader or replica.kraft_version > 0:
                continue
            if replica.kraft_upgrade_error(1) is None:
                node.handle(RaiseKRaftVersion(1))

    @property
    def raised(self) -> set[int]:
        return {node.replica.kraft_version for node in self.nodes.values() if node.replica is not None}


@pytest.mark.slow
def test_invariants_hold_while_voters_move_into_log() -> None:
    raised = 0
    for seed in range(SEEDS):
        simulation = StaticSimulation(seed)
        try:
            simulation.run()
            assert len(simulation.raised) == 1, "all nodes have the same kraft.version"
        except AssertionError as broken:
            raise AssertionError(f"seed {seed}: {broken}") from broken
        raised += simulation.raised == {1}
    assert raised > SEEDS // 10, f"it was raised in {raised} of {SEEDS} runs"
