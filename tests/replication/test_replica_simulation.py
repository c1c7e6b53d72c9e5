"""Replicas of a partition under a faulty network and crashes, by seed; and injected bugs that the checks must catch.

ODRADEK_REPLICA_SEEDS sets the number of seeds (make test: 60; thousands for manual runs).
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from odradek.replication.replica_role import ReplicaRole

from tests.harness.examples import examples
from tests.replication.replica_simulator import Fetch, Node, Registration, Simulation

SEEDS = int(os.environ.get("ODRADEK_REPLICA_SEEDS") or examples(60))
EVENTS = 2_000
#: After the faults: enough for every replica to catch up and to join the ISR.
CALM_EVENTS = 1_500


class Violation(AssertionError):
    """A violated invariant."""


class Invariants:
    """The invariants checked after each event."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        #: Every record that was ever below a leader's high watermark, and so was acknowledged.
        self.committed: list[tuple[int, int]] = []
        self._last: tuple[Node, int, int] | None = None
        self._high_watermarks: dict[tuple[int, int, int], int] = {}

    def __call__(self) -> None:
        for node in self._simulation.nodes.values():
            if node.role.is_leader:
                self._check_leader(node)
        for node in self._simulation.nodes.values():
            high_watermark = node.role.high_watermark
            if high_watermark > node.log.end or node.role.log_end_offset != node.log.end:
                raise Violation(f"replica {node.number} has less than its high watermark says")
            if high_watermark > len(self.committed):
                raise Violation(f"replica {node.number} holds for committed what no leader did")
            if node.log.records[:high_watermark] != self.committed[:high_watermark]:
                raise Violation(f"replica {node.number} has other records below its high watermark")
        for member in self._simulation.registration.isr:
            if self._simulation.logs[member].records[: len(self.committed)] != self.committed:
                raise Violation(f"replica {member} is in sync and lacks what was acknowledged")

    def check_calm(self) -> None:
        """Checks that without faults all replicas are equal, committed and in sync, and no request is open."""
        simulation = self._simulation
        registration = simulation.registration
        if set(registration.isr) != set(simulation.replicas) or registration.leader not in simulation.nodes:
            raise Violation(f"the ISR is not whole: {registration}")
        for node in simulation.nodes.values():
            if node.log.records != self.committed or node.role.high_watermark != node.log.end:
                raise Violation(f"replica {node.number} differs from what is committed")
            if node.role.proposal is not None or node.role.partition_epoch != registration.partition_epoch:
                raise Violation(f"replica {node.number} still waits for the controller")

    def _check_leader(self, node: Node) -> None:
        role = node.role
        life = (node.number, node.broker_epoch, role.leader_epoch)
        before = self._high_watermarks.get(life, 0)
        if role.high_watermark < before:
            raise Violation(f"the high watermark of {life} went back from {before} to {role.high_watermark}")
        self._high_watermarks[life] = role.high_watermark
        records = node.log.records[len(self.committed) : role.high_watermark]
        if node.log.records[: role.high_watermark] != self.committed[: role.high_watermark] + records:
            raise Violation(f"leader {life} commits other records than were committed")
        self.committed += records


def run(seed: int, simulated: type[Simulation] = Simulation, partition: type[ReplicaRole] = ReplicaRole) -> Invariants:
    simulation = simulated(seed, partition)
    invariants = Invariants(simulation)
    simulation.run(EVENTS, invariants)
    simulation.calm_down(CALM_EVENTS, invariants)
    invariants.check_calm()
    return invariants


def test_committed_records_stay_on_all_in_sync_replicas() -> None:
    committed = elections = 0
    for seed in range(SEEDS):
        try:
            simulation = Simulation(seed)
            invariants = Invariants(simulation)
            simulation.run(EVENTS, invariants)
            simulation.calm_down(CALM_EVENTS, invariants)
            invariants.check_calm()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        committed += len(invariants.committed)
        elections += simulation.elections
    assert committed > 20 * SEEDS, "too few records were committed for a meaningful run"
    assert elections > 10 * SEEDS


# ---- injected bugs


class CountsOnlyTheCommittedIsr(ReplicaRole):
    """A bug: the high watermark ignores joining replicas that the controller may have added already."""

    __slots__ = ()

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        return self.isr

    def _is_joining(self, *_: object) -> bool:
        return False


class CountsWhoLeavesAsGone(ReplicaRole):
    """A bug: a proposal to shrink the ISR counts as accepted."""

    __slots__ = ()

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        return self.isr if self.proposal is None else self.proposal.isr

    def _is_joining(self, *_: object) -> bool:
        return False


class TakesAnybodyIn(ReplicaRole):
    """A bug: any fetching follower is proposed, whatever its offset."""

    __slots__ = ()

    def propose_joining(self, replica: int) -> object:  # type: ignore[override]
        if self.proposal is not None or replica in self.isr or replica not in self.followers:
            return None
        return self._propose((*self.isr, replica))


class ForgetsWhatItCommitted(ReplicaRole):
    """A bug: the high watermark follows the slowest replica, backwards as well."""

    __slots__ = ()

    def _advance(self, now_ms: int) -> bool:
        ends = [self.followers[member].end_offset for member in self.maximal_isr if member in self.followers]
        self.high_watermark = max(0, min([*ends, self.log_end_offset]))
        return True


class BelievesTheLeader(ReplicaRole):
    """A bug: a follower's high watermark covers records that it does not have."""

    __slots__ = ()

    def follow(self, high_watermark: int) -> bool:
        if not self.is_leader:
            self.high_watermark = max(self.high_watermark, high_watermark)
        return False


class CutsAtTheHighWatermark(Simulation):
    """A bug: followers truncate to the high watermark, as before leader epochs. KIP-101 explains how that loses records."""

    def _learn(self, node: Node, registration: Registration) -> None:
        epoch = node.role.leader_epoch
        super()._learn(node, registration)
        if node.role.leader_epoch != epoch and not node.role.is_leader:
            node.log.truncate(node.role.high_watermark)
            node.role.truncated(node.log.end)


class NeverCuts(Simulation):
    """A bug: leader epochs of the logs are not compared."""

    def _serve(self, leader: Node, asked: Fetch) -> None:
        super()._serve(leader, asked._replace(last_fetched_epoch=-1))


@pytest.mark.parametrize(
    "injected",
    [
        CountsOnlyTheCommittedIsr,
        CountsWhoLeavesAsGone,
        TakesAnybodyIn,
        ForgetsWhatItCommitted,
        BelievesTheLeader,
    ],
)
def test_injected_partition_bug_is_caught(injected: type[ReplicaRole]) -> None:
    assert_caught(lambda seed: run(seed, partition=injected))


class CutsNothing(Simulation):
    """A bug: a diverged follower truncates to its own end, and asks for ever."""

    def _cut(self, asked: Fetch, differs: tuple[int, int]) -> None:
        self._awaits(asked)


@pytest.mark.parametrize("injected", [CutsAtTheHighWatermark, NeverCuts, CutsNothing])
def test_injected_follower_bug_is_caught(injected: type[Simulation]) -> None:
    assert_caught(lambda seed: run(seed, simulated=injected))


def assert_caught(attempt: Callable[[int], object]) -> None:
    for seed in range(200):
        try:
            attempt(seed)
        except AssertionError:
            return
    pytest.fail("nobody noticed")
