"""The same history of groups leaves the same records in `__consumer_offsets` of Apache Kafka and of Odradek."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.differential.compare import Side, compare, versions_of
from compat_tests.differential.group_records import GroupRecords
from compat_tests.differential.internal_records import differences
from compat_tests.differential.player import advertised, await_coordinators
from compat_tests.differential.scenarios import consumer_groups, group_migration
from compat_tests.fixtures import UNDER_TEST
from compat_tests.java.fetch import SPECIFICATION
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import ApacheKafka

MARK = "-in-the-log"


@pytest.fixture
def specification(java_tools: None, tmp_path: Path) -> Iterator[ApacheKafka]:
    """4.4.0: 4.3.1 does not write yet that a group's last member is gone."""
    with ApacheKafka(tmp_path, UNDER_TEST, version=SPECIFICATION) as broker:
        assert isinstance(broker, ApacheKafka)
        yield broker


@pytest.mark.oracle
def test_the_same_groups_leave_the_same_records(specification: ApacheKafka, odradek: OdradekProcess) -> None:
    brokers = (specification, odradek)
    for broker in brokers:
        await_coordinators(broker.bootstrap)
    kafka, ours = (Side(one.name, one.bootstrap, advertised(one.bootstrap)) for one in brokers)
    for scenario in (*consumer_groups.SCENARIOS, *group_migration.SCENARIOS):
        newest = max(version for version in versions_of(scenario) if version <= kafka.offers[scenario.api][1])
        compare(scenario, kafka, ours, int(time.time() * 1000), versions=[newest], mark=MARK)
    theirs, own = (GroupRecords(one.bootstrap, MARK).read(one.bootstrap) for one in brokers)
    assert len(theirs) > len(consumer_groups.SCENARIOS)
    told = list(differences(theirs, own))
    assert not told, "Apache Kafka's value first:\n" + "\n".join(told)
