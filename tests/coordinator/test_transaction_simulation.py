"""Transactions end as a whole, and as their producers were told, whatever crashes or is lost between any two steps."""

from __future__ import annotations

import os

import pytest
from odradek.coordinator.transactions.shard import TransactionShard

from tests.coordinator.transaction_simulation import Simulation

SEEDS = int(os.environ.get("ODRADEK_SEEDS", "20"))
STEPS = 3_000
#: A planted bug must show in one of so many.
SEEDS_FOR_BUGS = 5


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_transaction_ends_whole_and_as_it_was_told(seed: int) -> None:
    simulation = Simulation(seed)
    simulation.run(STEPS)
    assert simulation.crashes > 5
    assert len(simulation.told) > 1, "there was something to hold"


def failures(**bug: bool) -> int:
    count = 0
    for seed in range(SEEDS_FOR_BUGS):
        try:
            Simulation(seed, **bug).run(STEPS)
        except AssertionError:
            count += 1
    return count


def test_markers_before_the_decision_is_committed_are_caught() -> None:
    assert failures(early_markers=True)


def test_a_coordinator_that_forgets_what_was_decided_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TransactionShard, "loaded", lambda shard, now: shard._upkeep.plan(now))
    assert failures()
