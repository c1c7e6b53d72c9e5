"""Groups with members of both protocols, through kill -9 of the broker: a little of what checker.py does by hand."""

from __future__ import annotations

import time
from pathlib import Path

from compat_tests.group_faults import checker

SECONDS = 5.0


def test_no_two_members_own_a_partition_and_every_record_is_handled(target: str, topic: str, tmp_path: Path) -> None:
    seed = int(time.time())
    with checker.BROKERS[target](tmp_path, checker.PROPERTIES, start_deadline_s=checker.START_DEADLINE_S) as broker:
        finding = checker.run(broker, topic=topic, seed=seed, seconds=SECONDS)
    assert not finding.problems, f"seed {seed}: {finding}"
    assert finding.records and finding.moves and finding.faults
