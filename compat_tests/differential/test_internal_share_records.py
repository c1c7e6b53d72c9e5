"""The same history of share groups leaves the same records in the internal topics of Apache Kafka and of Odradek."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

import pytest
from odradek.coordinator import records as of_groups
from odradek.coordinator.share import record_types
from odradek.coordinator.share.persister import records as of_states
from odradek.protocol.schema import Message

from compat_tests.batches import partition_count, read_batches
from compat_tests.differential.compare import Side, compare, versions_of
from compat_tests.differential.internal_records import History, differences
from compat_tests.differential.player import advertised, await_coordinators
from compat_tests.differential.scenario import Scenario
from compat_tests.differential.scenarios import share_fetches, share_groups, share_states
from compat_tests.odradek_process import OdradekProcess
from compat_tests.oracle import ApacheKafka

MARK = "-kept"
#: Of the broker that wrote it, or made of ids that are its own.
_OWN = {"create_timestamp", "write_timestamp", "assignment_timestamp", "metadata_hash", "topic_id", "client_host"}
#: In these 4.4 decides otherwise than 4.3.1: what a request may say, and a start that would go back.
_NEW_IN_4_4 = {"states are begun once and again", "states are combined", "who may not write", "states are forgotten"}
_ALL = (*share_states.SCENARIOS, *share_fetches.SCENARIOS, *share_groups.SCENARIOS)
HISTORIES = [one for one in _ALL if "Share" in one.api and one.name not in _NEW_IN_4_4]
_GROUP_KEYS = tuple(key for key, _ in record_types.RECORD_TYPES.values())


@pytest.fixture(scope="module")
def sides(apache_kafka: ApacheKafka, odradek: OdradekProcess) -> tuple[Side, Side]:
    for broker in (apache_kafka, odradek):
        await_coordinators(broker.bootstrap)
    kafka = Side("Apache Kafka", apache_kafka.bootstrap, advertised(apache_kafka.bootstrap))
    return kafka, Side("Odradek", odradek.bootstrap, advertised(odradek.bootstrap))


def newest(scenario: Scenario, side: Side) -> list[int]:
    """What versions differ in are the answers."""
    return [max(v for v in versions_of(scenario) if v <= side.offers[scenario.api][1])]


def words(message: Message | None) -> Any:
    if message is None:
        return None
    return {field.name: word(field.name, getattr(message, field.name)) for field in message.SCHEMA.fields}


def word(name: str, value: Any) -> Any:
    if name in _OWN:
        return "its own"
    if isinstance(value, list):
        return [words(one) if isinstance(one, Message) else one for one in value]
    return value


def kept(bootstrap: str) -> History:
    """Kind, group and partition or member -> what was written of it, in order."""
    found: History = defaultdict(list)
    for topic, decode in (
        ("__share_group_state", of_states.decode_record),
        ("__consumer_offsets", of_groups.decode_record),
    ):
        for index in range(partition_count(bootstrap, topic)):
            for header, records in read_batches(bootstrap, topic, index):
                # Other tests commit offsets in transactions: their markers are no records of groups.
                for record in () if header.is_control else records:
                    assert record.key is not None
                    key: Any = decode(record.key, record.value).key
                    is_of_share = topic == "__share_group_state" or isinstance(key, _GROUP_KEYS)
                    if is_of_share and MARK in key.group_id:
                        part = getattr(key, "partition", getattr(key, "member_id", ""))
                        name = f"{type(key).__name__} {key.group_id} {part}"
                        found[name].append(words(decode(record.key, record.value).value))
    return found


@pytest.mark.oracle
def test_the_same_history_of_share_groups_leaves_the_same_records(sides: tuple[Side, Side]) -> None:
    kafka, ours = sides
    for scenario in HISTORIES:
        compare(scenario, kafka, ours, int(time.time() * 1000), versions=newest(scenario, kafka), mark=MARK)
    theirs, own = kept(kafka.bootstrap), kept(ours.bootstrap)
    assert len(theirs) > len(HISTORIES)
    told = list(differences(theirs, own))
    assert not told, "Apache Kafka's value first:\n" + "\n".join(told)
