"""Groups with members of both protocols, while brokers and members are killed: a short run of checker.py."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from compat_tests.group_faults import checker
from compat_tests.group_faults.faults import BEYOND

pytestmark = pytest.mark.timeout(600)
#: Enough for a freeze beyond the session, and then one or two faults of other kinds.
SECONDS = 11.0


@pytest.mark.parametrize(("brokers", "assignor"), [("one", "cooperative-sticky"), ("three", "range")])
def test_no_two_members_own_a_partition_and_every_record_is_handled(
    brokers: str, assignor: str, target: str, topic: str, tmp_path: Path
) -> None:
    if brokers == "three" and target != "odradek":
        pytest.skip("Apache Kafka is one here")
    seed = int(time.time())
    kind = target if brokers == "one" else "cluster"
    with checker.BROKERS[kind](tmp_path, checker.PROPERTIES, start_deadline_s=checker.START_DEADLINE_S) as broker:
        finding = checker.run(broker, tmp_path, topic=topic, seed=seed, seconds=SECONDS, assignor=assignor)
    assert not finding.problems, f"seed {seed}: {finding}"
    assert finding.records and finding.moves and finding.faults[BEYOND]
