"""The same history of streams groups leaves the same records in `__consumer_offsets` of Apache Kafka and of Odradek.

The judge is 4.4.0: there a task that changes its role within a member is handed over; in 4.3.1 it is given back first.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest
from odradek.coordinator.record_frames import UnknownRecord
from odradek.coordinator.records import decode_record
from odradek.coordinator.streams.record_types import RECORD_TYPES
from odradek.protocol.schema import Message

from compat_tests.batches import partition_count, read_batches
from compat_tests.differential.compare import Side, compare
from compat_tests.differential.internal_records import History, differences
from compat_tests.differential.player import advertised, await_coordinators
from compat_tests.differential.scenarios import streams_groups
from compat_tests.fixtures import UNDER_TEST
from compat_tests.java.fetch import SPECIFICATION
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import ApacheKafka

MARK = "-recorded"
VERSION = 1
TOPIC = "__consumer_offsets"
#: By topic ids, and by the clock.
_CHANGING = ("metadata_hash", "assignment_timestamp")
_KEYS = tuple(key for key, _ in RECORD_TYPES.values())


@pytest.fixture(scope="module")
def sides(
    java_tools: None, odradek: OdradekProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Side, Side]]:
    with ApacheKafka(tmp_path_factory.mktemp("specification"), UNDER_TEST, version=SPECIFICATION) as kafka:
        for broker in (kafka, odradek):
            await_coordinators(broker.bootstrap)
        theirs = Side("Apache Kafka", kafka.bootstrap, advertised(kafka.bootstrap))
        yield theirs, Side("Odradek", odradek.bootstrap, advertised(odradek.bootstrap))


@pytest.mark.oracle
def test_the_same_streams_groups_leave_the_same_records(sides: tuple[Side, Side]) -> None:
    for scenario in streams_groups.ASSIGNMENTS:
        compare(scenario, *sides, int(time.time() * 1000), versions={VERSION}, mark=MARK)
    theirs, ours = (written(side.bootstrap) for side in sides)
    assert len(theirs) >= len(streams_groups.ASSIGNMENTS)
    told = list(differences(theirs, ours))
    assert not told, "Apache Kafka's value first:\n" + "\n".join(told)


def written(bootstrap: str) -> History:
    """Group -> its records, in order; of targets that are written together, which Kafka orders by chance, by member."""
    found: dict[str, list[Any]] = defaultdict(list)
    for index in range(partition_count(bootstrap, TOPIC)):
        for header, records in read_batches(bootstrap, TOPIC, index):
            for record in records if not header.is_control else ():
                assert record.key is not None
                try:
                    key, value, version, *_ = decode_record(record.key, record.value)
                except UnknownRecord:
                    continue
                if isinstance(key, _KEYS) and MARK in key.group_id:  # type: ignore[attr-defined]
                    member = getattr(key, "member_id", "")
                    found[key.group_id].append((type(key).__name__, member, version, words(value)))  # type: ignore[attr-defined]
    return {
        group: [
            one for _, together in groupby(records, key=lambda one: one[0]) for one in sorted(together, key=by_member)
        ]
        for group, records in found.items()
    }


def by_member(record: tuple[str, str, int, Any]) -> str:
    return record[1]


def words(value: Any) -> Any:
    """Every field of it."""
    if isinstance(value, list):
        return [words(one) for one in value]
    if not isinstance(value, Message):
        return value
    told = {one.name: words(getattr(value, one.name)) for one in value.SCHEMA.fields}
    return told | {name: "something" for name in _CHANGING if told.get(name)}
