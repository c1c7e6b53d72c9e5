"""Replicas of a partition under a bad network and crashes, by seeds; and planted bugs, to know that the checks bite.

ODRADEK_REPLICA_SEEDS sets the number of seeds (make test: 60; by hand thousands).
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from odradek.replication.partition import Partition

from tests.replication.replica_simulator import Fetch, Node, Registration, Simulation

SEEDS = int(os.environ.get("ODRADEK_REPLICA_SEEDS", "60"))
EVENTS = 2_000


class Violation(AssertionError):
    """Something happened that must not."""


class Invariants:
    """What must hold after each event."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        #: What was ever below a leader's high watermark, and so was acknowledged.
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


def run(seed: int, simulated: type[Simulation] = Simulation, partition: type[Partition] = Partition) -> Invariants:
    simulation = simulated(seed, partition)
    invariants = Invariants(simulation)
    simulation.run(EVENTS, invariants)
    return invariants


def test_what_is_committed_stays_with_everybody_who_is_in_sync() -> None:
    committed = elections = 0
    for seed in range(SEEDS):
        try:
            simulation = Simulation(seed)
            invariants = Invariants(simulation)
            simulation.run(EVENTS, invariants)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        committed += len(invariants.committed)
        elections += simulation.elections
    assert committed > 20 * SEEDS, "too little came through for this to say much"
    assert elections > 10 * SEEDS


# ---- planted bugs


class CountsOnlyTheCommittedIsr(Partition):
    """Who is about to join is not waited for, while the controller may have taken it in already."""

    __slots__ = ()

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        return self.isr

    def _is_joining(self, *_: object) -> bool:
        return False


class CountsWhoLeavesAsGone(Partition):
    """A proposal to shrink is taken for granted."""

    __slots__ = ()

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        return self.isr if self.proposal is None else self.proposal.isr

    def _is_joining(self, *_: object) -> bool:
        return False


class TakesAnybodyIn(Partition):
    """Whoever fetches is proposed, wherever it is."""

    __slots__ = ()

    def propose_joining(self, replica: int) -> object:  # type: ignore[override]
        if self.proposal is not None or replica in self.isr or replica not in self.followers:
            return None
        return self._propose((*self.isr, replica))


class ForgetsWhatItCommitted(Partition):
    """The high watermark follows the slowest, back as well as forth."""

    __slots__ = ()

    def _advance(self, now_ms: int) -> bool:
        ends = [self.followers[member].end_offset for member in self.maximal_isr if member in self.followers]
        self.high_watermark = max(0, min([*ends, self.log_end_offset]))
        return True


class BelievesTheLeader(Partition):
    """A follower holds for committed what it does not have."""

    __slots__ = ()

    def follow(self, high_watermark: int) -> bool:
        if not self.is_leader:
            self.high_watermark = max(self.high_watermark, high_watermark)
        return False


class CutsAtTheHighWatermark(Simulation):
    """What followers did before leader epochs: KIP-101 tells how it loses records."""

    def _learn(self, node: Node, registration: Registration) -> None:
        epoch = node.role.leader_epoch
        super()._learn(node, registration)
        if node.role.leader_epoch != epoch and not node.role.is_leader:
            node.log.truncate(node.role.high_watermark)
            node.role.truncated(node.log.end)


class NeverCuts(Simulation):
    """The logs' epochs are not compared."""

    def _serve(self, leader: Node, asked: Fetch) -> None:
        super()._serve(leader, asked._replace(last_fetched_epoch=-1))


@pytest.mark.parametrize(
    "planted",
    [
        CountsOnlyTheCommittedIsr,
        CountsWhoLeavesAsGone,
        TakesAnybodyIn,
        ForgetsWhatItCommitted,
        BelievesTheLeader,
    ],
)
def test_a_planted_bug_of_a_partition_is_caught(planted: type[Partition]) -> None:
    assert_caught(lambda seed: run(seed, partition=planted))


@pytest.mark.parametrize("planted", [CutsAtTheHighWatermark, NeverCuts])
def test_a_planted_bug_of_followers_is_caught(planted: type[Simulation]) -> None:
    assert_caught(lambda seed: run(seed, simulated=planted))


def assert_caught(attempt: Callable[[int], object]) -> None:
    for seed in range(200):
        try:
            attempt(seed)
        except AssertionError:
            return
    pytest.fail("nobody noticed")
