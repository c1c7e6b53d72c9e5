"""One round of faults, with a fixed seed; more of them run by hand (fault_rounds.py)."""

from __future__ import annotations

from pathlib import Path

from .fault_rounds import execute

SEED, STEPS = 3, 2


def test_nothing_acknowledged_is_lost_or_read_wrong_in_faults_of_store_and_brokers(tmp_path: Path) -> None:
    outcome = execute(tmp_path, SEED, STEPS)
    assert outcome.anomalies == [], str(outcome)
    assert outcome.acknowledged > 500 and outcome.remote_segments > 2 and len(outcome.steps) == STEPS
