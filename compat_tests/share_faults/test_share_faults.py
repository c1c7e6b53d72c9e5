"""A share group through kill -9 of brokers and members: a short run of checker.py."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from compat_tests.share_faults import checker

pytestmark = pytest.mark.timeout(600)
SECONDS = 8.0


def test_no_record_is_done_with_twice_or_lost_and_deliveries_are_counted(
    target: str, topic: str, tmp_path: Path
) -> None:
    """Runs three of our brokers, or a single node of Kafka, which the checker must pass too."""
    seed = int(time.time())
    kind = "cluster" if target == "odradek" else target
    with checker.BROKERS[kind](tmp_path, checker.PROPERTIES, start_deadline_s=120) as brokers:
        finding = checker.run(brokers, tmp_path, topic=topic, seed=seed, seconds=SECONDS)
    assert not finding.problems, f"seed {seed}: {finding}"
    assert finding.confirmed and finding.faults
