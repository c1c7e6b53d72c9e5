"""The same history leaves the same records in the internal topics of Apache Kafka and of Odradek, field by field.

The reference is 4.4.0. 4.3.1 differs: it writes no record when a group's last member leaves, and keeps no topic ids of
offsets in transactions. It has other rules for initializing existing share-group states again. It revokes a streams task
before the task changes its role within a member.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from compat_tests.differential.compare import Side, compare, versions_of
from compat_tests.differential.group_records import GroupLog, is_departure
from compat_tests.differential.internal_records import History, Internals, differences
from compat_tests.differential.runner import advertised, await_coordinators
from compat_tests.differential.scenario import Scenario
from compat_tests.differential.scenarios import (
    consumer_groups,
    group_migration,
    groups,
    offsets,
    share_fetches,
    share_groups,
    share_isolation,
    share_redelivery,
    share_states,
    streams_groups,
    streams_offsets,
    transactional_offsets,
    transactions,
    transactions_verified,
    transactions_with_epochs,
)
from compat_tests.differential.share_records import states
from compat_tests.differential.streams_records import StreamsLog
from compat_tests.fixtures import UNDER_TEST
from compat_tests.java.fetch import SPECIFICATION
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import ApacheKafka

pytestmark = pytest.mark.oracle


def of(*modules: object) -> list[Scenario]:
    return [one for module in modules for one in module.SCENARIOS]  # type: ignore[attr-defined]


GROUPS = of(groups, offsets, consumer_groups, group_migration, streams_offsets)
SHARES = [
    one
    for one in of(share_states, share_fetches, share_isolation, share_redelivery, share_groups)
    if "Share" in one.api
]
#: The APIs of transactions that write records.
_WRITING = ("InitProducerId", "AddPartitionsToTxn", "EndTxn", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit")
_OF_TRANSACTIONS = of(transactions, transactional_offsets, transactions_with_epochs, transactions_verified)
TRANSACTIONS = [one for one in _OF_TRANSACTIONS if one.api in _WRITING]
#: APIs whose version decides what the broker stores, not only what it answers.
_IN_MANY_VERSIONS = (*_WRITING, "OffsetCommit", "JoinGroup", "SyncGroup")

Sides = tuple[Side, Side]
#: Returns the new records of a broker's groups with a mark in their names.
Reader = Callable[[str], History]


@pytest.fixture(scope="module")
def sides(java_tools: None, odradek: OdradekProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    with ApacheKafka(tmp_path_factory.mktemp("specification"), UNDER_TEST, version=SPECIFICATION) as kafka:
        for broker in (kafka, odradek):
            await_coordinators(broker.bootstrap)
        theirs = Side("Apache Kafka", kafka.bootstrap, advertised(kafka.bootstrap))
        yield theirs, Side("Odradek", odradek.bootstrap, advertised(odradek.bootstrap))


def execute(scenario: Scenario, sides: Sides, mark: str) -> None:
    found = [version for version in versions_of(scenario) if version <= sides[0].offers[scenario.api][1]]
    wanted = {found[0], found[-1]} if scenario.api in _IN_MANY_VERSIONS else {found[-1]}
    compare(scenario, *sides, int(time.time() * 1000), versions=wanted, mark=mark)


def executed(
    scenarios: Iterable[Scenario], sides: Sides, mark: str, readers: Iterable[Reader]
) -> Iterator[tuple[History, ...]]:
    """Runs each scenario, and yields its records from both brokers before the next scenario runs."""
    for number, scenario in enumerate(scenarios):
        execute(scenario, sides, f"{mark}-{number}")
        yield tuple(read(f"{mark}-{number}-v") for read in readers)


def judge(pairs: Iterable[tuple[History, ...]], least: int) -> None:
    reported, written = [], 0
    for theirs, own in pairs:
        reported += differences(theirs, own)
        written += len(theirs)
    assert written >= least
    assert not reported, "Apache Kafka's value first:\n" + "\n".join(reported)


def group_readers(sides: Sides) -> list[Reader]:
    theirs, own = sides
    return [GroupLog(theirs.bootstrap).since_then, GroupLog(own.bootstrap, has_departures=True).since_then]


def test_only_a_record_of_departures_is_left_out() -> None:
    def record(generation: int, *sessions: int) -> Any:
        members = [
            {"member_id": str(number), "session_timeout": session, "rebalance_timeout": session}
            for number, session in enumerate(sessions)
        ]
        return 3, {"generation": generation, "members": members}

    assert is_departure(record(1, 9, 9), record(1, 9, 0))
    assert not is_departure(record(1, 9, 9), record(1, 9, 9))
    assert not is_departure(record(1, 9, 9), record(1, 9, 5))
    assert not is_departure(record(1, 9, 9), record(2, 9, 0))
    assert not is_departure(record(1, 9, 9), record(1, 9))
    assert not is_departure(None, record(1, 9, 0)) and not is_departure(record(1, 9), None)


def test_the_same_groups_leave_the_same_records(sides: Sides) -> None:
    readers = group_readers(sides)
    judge(executed(GROUPS, sides, "-in-the-log", readers), len(GROUPS))


def test_the_same_streams_groups_leave_the_same_records_in_the_same_order(sides: Sides) -> None:
    readers = [StreamsLog(side.bootstrap).since_then for side in sides]
    judge(executed(streams_groups.ASSIGNMENTS, sides, "-in-the-streams-log", readers), len(streams_groups.ASSIGNMENTS))


def test_the_same_history_of_share_groups_leaves_the_same_records(sides: Sides) -> None:
    readers = group_readers(sides)
    judge(executed(SHARES, sides, "-in-the-share-log", readers), len(share_groups.SCENARIOS))
    # The broker releases the records of a departed member in the background, so their states are read last.
    judge([tuple(states(side.bootstrap, "-in-the-share-log") for side in sides)], len(share_fetches.SCENARIOS))


def test_the_same_transactions_leave_the_same_records(sides: Sides) -> None:
    for scenario in TRANSACTIONS:
        execute(scenario, sides, "-in-the-state-log")
    theirs, own = (Internals(side.bootstrap, "-in-the-state-log").read() for side in sides)
    assert len(theirs.states) > len(TRANSACTIONS) and theirs.offsets and theirs.topics
    judge(((getattr(theirs, what), getattr(own, what)) for what in ("states", "offsets", "topics")), 0)
