"""The quorum under seeded faults, and injected bugs that the invariants must catch.

`ODRADEK_QUORUM_SEEDS=10000 pytest tests/replication/quorum` for a long manual run; `ODRADEK_QUORUM_FIRST_SEED` repeats
one seed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from odradek.replication.quorum.core import Core
from odradek.replication.quorum.elections import Elections
from odradek.replication.quorum.following import DivergedCommit
from odradek.replication.quorum.leading import Leading
from odradek.replication.quorum.roles import Leader
from odradek.replication.quorum.voters import VoterSet

from tests.harness.examples import examples
from tests.replication.quorum.quorum_invariants import (
    COMMITTED,
    HIGH_WATERMARK_BACK,
    LOG_MATCHING,
    MAJORITY,
    ONE_LEADER,
    PROGRESS,
    Broken,
)
from tests.replication.quorum.quorum_simulator import Simulation

SEEDS = int(os.environ.get("ODRADEK_QUORUM_SEEDS") or examples(200))
FIRST_SEED = int(os.environ.get("ODRADEK_QUORUM_FIRST_SEED", "0"))
#: An injected bug is found within this many seeds.
SEEDS_FOR_A_BUG = 150
PARTS = 10


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(PARTS))
def test_invariants_hold_under_seeded_faults(part: int) -> None:
    for seed in range(FIRST_SEED + part, FIRST_SEED + SEEDS, PARTS):
        try:
            Simulation(seed).run()
        except AssertionError as broken:
            raise AssertionError(f"seed {seed}: {broken}") from broken


def test_same_seed_repeats_run() -> None:
    runs = [Simulation(7), Simulation(7)]
    for run in runs:
        run.run()
    assert runs[0].events == runs[1].events
    assert [e[:2] for e in runs[0].invariants.committed] == [e[:2] for e in runs[1].invariants.committed]


def votes_for_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Elections, "_grant", lambda self, candidate, is_up_to_date, now: is_up_to_date)


def votes_for_shorter_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Core, "is_log_up_to_date", lambda self, last_epoch, last_offset: True)


def commits_what_one_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VoterSet, "replicated_offset", lambda self, ends: max(ends.values(), default=0))


def counts_itself_unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    def appended(self: Leading, now: int) -> None:
        role = self._core.role
        assert isinstance(role, Leader)
        role.synced_offset = self._core.log.end_offset
        original(self, now)

    original = Leading.appended
    monkeypatch.setattr(Leading, "appended", appended)


def moves_the_high_watermark_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def advance(self: Core, offset: int) -> bool:
        self.high_watermark = max(0, min(offset, self.log.end_offset))
        return True

    monkeypatch.setattr(Core, "advance_high_watermark", advance)


def never_sees_divergence(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Leading._elsewhere

    def elsewhere(self: Leading, asked: Any) -> Any:
        response: Any = original(self, asked)
        diverges = response is not None and response.responses[0].partitions[0].diverging_epoch.epoch >= 0
        return None if diverges and asked.fetch_offset <= self._core.log.end_offset else response

    monkeypatch.setattr(Leading, "_elsewhere", elsewhere)


def never_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Elections, "expire", lambda self, now: None)


Inject = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("inject", "mutation", "found_by"),
    [
        (votes_for_everybody, "", {ONE_LEADER}),
        (None, "forgotten_state", {ONE_LEADER}),
        (votes_for_shorter_logs, "", {COMMITTED}),
        (commits_what_one_has, "", {MAJORITY}),
        (counts_itself_unsynced, "", {MAJORITY}),
        (None, "unsynced_fetch", {MAJORITY}),
        (moves_the_high_watermark_back, "", {HIGH_WATERMARK_BACK}),
        (never_sees_divergence, "", {LOG_MATCHING}),
        (never_stands, "", {PROGRESS}),
    ],
    ids=lambda value: getattr(value, "__name__", value if isinstance(value, str) else None),
)
def test_injected_bug_is_caught(
    inject: Inject | None, mutation: str, found_by: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if inject is not None:
        inject(monkeypatch)
    found: set[str] = set()
    for seed in range(SEEDS_FOR_A_BUG):
        try:
            Simulation(seed, frozenset({mutation})).run()
        except Broken as broken:
            found.add(broken.invariant)
        except DivergedCommit:
            found.add(COMMITTED)  # the state machine itself does not change what is committed
        except AssertionError:
            continue  # caught as well by the state machine's own assertions
        if found & found_by:
            return
    pytest.fail(f"only {found} found anything")
