"""The same history of transactions leaves the same records in the internal topics of Apache Kafka and of Odradek."""

from __future__ import annotations

import time

import pytest

from compat_tests.differential.compare import Side, compare, versions_of
from compat_tests.differential.internal_records import Internals, differences
from compat_tests.differential.player import advertised, await_coordinators
from compat_tests.differential.scenario import Scenario
from compat_tests.differential.scenarios import transactional_offsets, transactions, transactions_with_epochs
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import ApacheKafka

MARK = "-written"
APIS = ("InitProducerId", "AddPartitionsToTxn", "EndTxn", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit")
_ALL = (*transactions.SCENARIOS, *transactional_offsets.SCENARIOS, *transactions_with_epochs.SCENARIOS)
HISTORIES = [one for one in _ALL if one.api in APIS]


@pytest.fixture(scope="module")
def sides(apache_kafka: ApacheKafka, odradek: OdradekProcess) -> tuple[Side, Side]:
    for broker in (apache_kafka, odradek):
        await_coordinators(broker.bootstrap)
    kafka = Side("Apache Kafka", apache_kafka.bootstrap, advertised(apache_kafka.bootstrap))
    return kafka, Side("Odradek", odradek.bootstrap, advertised(odradek.bootstrap))


def versions(scenario: Scenario) -> list[int]:
    """The oldest and the newest: what is between differs in the answers only."""
    found = versions_of(scenario)
    return sorted({found[0], found[-1]})


@pytest.mark.oracle
def test_the_same_transactions_leave_the_same_records(sides: tuple[Side, Side]) -> None:
    kafka, ours = sides
    for scenario in HISTORIES:
        compare(scenario, kafka, ours, int(time.time() * 1000), versions=versions(scenario), mark=MARK)
    theirs, own = Internals(kafka.bootstrap, MARK).read(), Internals(ours.bootstrap, MARK).read()
    assert len(theirs.states) > len(HISTORIES) and theirs.offsets and theirs.topics
    told = [
        one
        for what in ("states", "offsets", "topics")
        for one in differences(getattr(theirs, what), getattr(own, what))
    ]
    assert not told, "Apache Kafka's value first:\n" + "\n".join(told)
