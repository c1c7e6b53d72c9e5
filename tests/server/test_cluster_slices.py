"""Three simulated brokers whose every work in slices is cut as finely as can be, and who often are given snapshots."""

from __future__ import annotations

import pytest
from odradek.server import slices
from odradek.server.quorum_commits import Commits
from odradek.server.slices import Steps
from odradek.server.testing.simulation.cluster import Run, nodes

DURATION_S = 12.0
SMALL_LOG = {
    "metadata.max.retention.bytes": "1000",
    "internal.metadata.log.segment.bytes": "4000",
    "metadata.max.idle.interval.ms": "50",
}


@pytest.mark.parametrize("seed", [0, 5])
def test_a_cluster_keeps_its_invariants_when_all_that_can_be_interrupted_is(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    loaded: list[int] = []
    load = Commits.load

    def counted(self: Commits) -> Steps[None]:
        steps = 0
        for _ in load(self):
            steps += 1
            yield
        loaded.append(steps)

    monkeypatch.setattr(Commits, "load", counted)
    monkeypatch.setattr(slices, "STEPS_PER_SLICE", 1)
    monkeypatch.setattr(nodes, "_PROPERTIES", {**nodes._PROPERTIES, **SMALL_LOG})
    monkeypatch.setitem(nodes._CHOICES, "metadata.log.max.record.bytes.between.snapshots", ("800", "2000"))
    ran = Run(seed, DURATION_S).run()
    assert ran.acknowledged > 0
    assert sum(loaded) > 10, "snapshots were loaded, and not in one step"
