"""Hostile frames to three simulated brokers while nodes crash and links break: invariants hold, clients are served."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from odradek.server.endpoints import metadata
from odradek.testing.simulation.cluster import Broken
from odradek.testing.simulation.cluster.invariants import NO_BUG

from tests.hostile.simulated_frames import execute

SEEDS = int(os.environ.get("ODRADEK_HOSTILE_SEEDS", "2"))
DURATION_S = 10.0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_cluster_keeps_its_invariants_under_hostile_frames(seed: int) -> None:
    ran, sent = execute(seed, DURATION_S)
    assert sent > 20
    assert ran.acknowledged > 0


@pytest.mark.slow
def test_bug_in_a_handler_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(services: object, call: object) -> None:
        raise KeyError("of the test")

    monkeypatch.setattr(metadata, "ENDPOINT", replace(metadata.ENDPOINT, handle=broken))
    with pytest.raises(Broken) as found:
        execute(0, DURATION_S)
    assert found.value.invariant == NO_BUG
