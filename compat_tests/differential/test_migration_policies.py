"""Groups with members of both protocols, under each `group.consumer.migration.policy`, compared with Apache Kafka 4.3.1.

`ODRADEK_MIGRATION_POLICIES=bidirectional,upgrade,downgrade,disabled` runs more than one.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from compat_tests.differential import known
from compat_tests.differential.compare import Difference, compare, versions_of
from compat_tests.differential.harness.sides import KNOWN, side
from compat_tests.differential.mixed_groups import MIXED, MIXED_AND_REVOKED
from compat_tests.differential.scenarios.group_migration import SCENARIOS
from compat_tests.fixtures import UNDER_TEST
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import ApacheKafka

POLICIES = os.environ.get("ODRADEK_MIGRATION_POLICIES", "downgrade").split(",")
_UNKNOWN_SERVER_ERROR = -1


def _is_new(one: Difference) -> bool:
    """Returns whether Kafka 4.4 answers as Odradek does: it assigns an empty group at once, and handles a JoinGroup
    without protocols.
    """
    return one.path.endswith(".assignment_epoch") or one.theirs == _UNKNOWN_SERVER_ERROR


@pytest.mark.oracle
@pytest.mark.parametrize("policy", POLICIES)
def test_both_brokers_answer_members_of_both_protocols_alike(java_tools: None, tmp_path: Path, policy: str) -> None:
    properties = {
        **UNDER_TEST,
        "group.consumer.migration.policy": policy,
        # 4.3.1 has no such interval: it assigns at once.
        "group.consumer.assignment.interval.ms": "0",
    }
    # With "disabled" no classic member joins a consumer group, so the coordinator revokes nothing.
    scenarios = [*SCENARIOS, *MIXED, *(MIXED_AND_REVOKED if policy != "disabled" else ())]
    left: list[tuple[str, Difference]] = []
    with ApacheKafka(tmp_path / "apache", properties) as apache, OdradekProcess(tmp_path / "ours", properties) as ours:
        sides = side("Apache Kafka", apache), side("Odradek", ours)
        for scenario in scenarios:
            newest = [max(versions_of(scenario))]
            done = compare(scenario, *sides, int(time.time() * 1000), versions=newest)
            found = known.unexplained(done.differences, known.of(scenario, KNOWN))
            left += [(scenario.name, one) for one in found if not _is_new(one)]
            assert done.executed == newest
    assert not left, "\n".join(f"{name}: {one}" for name, one in left)
