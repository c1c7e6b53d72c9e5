"""Three simulated brokers that often fetch snapshots. They load these, and controller state, with one step per slice.

Images are published in slices of the usual size: the invariants rely on roles being taken before the image is published.
"""

from __future__ import annotations

import pytest
from odradek.replication.controller.state import ControllerState
from odradek.server.controller.commits import Commits
from odradek.server.runtime import sliced_work as slices
from odradek.server.runtime.sliced_work import SlicedWork, Steps, without_gc
from odradek.testing.simulation.cluster import Run, nodes

SEEDS = (0, 5)
DURATION_S = 12.0
#: The steps of a snapshot's load, and those of a new controller.
THIN = (without_gc.__name__, ControllerState.learn.__name__)
SMALL_LOG = {
    "metadata.max.retention.bytes": "1000",
    "internal.metadata.log.segment.bytes": "4000",
    "metadata.max.idle.interval.ms": "50",
}


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_a_cluster_keeps_its_invariants_while_snapshots_are_loaded_step_by_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded: list[int] = []
    load = Commits.load

    def counted(self: Commits) -> Steps[None]:
        steps = 0
        for _ in load(self):
            steps += 1
            yield
        loaded.append(steps)

    def cut(self: SlicedWork) -> None:
        monkeypatch.setattr(slices, "STEPS_PER_SLICE", 1 if getattr(self._steps, "__name__", "") in THIN else whole)
        cut_as_ever(self)

    whole, cut_as_ever = slices.STEPS_PER_SLICE, SlicedWork._slice
    monkeypatch.setattr(Commits, "load", counted)
    monkeypatch.setattr(SlicedWork, "_slice", cut)
    monkeypatch.setattr(nodes, "_PROPERTIES", {**nodes._PROPERTIES, **SMALL_LOG})
    monkeypatch.setitem(nodes._CHOICES, "metadata.log.max.record.bytes.between.snapshots", ("800", "2000"))
    assert all(Run(seed, DURATION_S).run().acknowledged > 0 for seed in SEEDS)
    assert sum(loaded) > 10, "snapshots were loaded, and not in one step"
