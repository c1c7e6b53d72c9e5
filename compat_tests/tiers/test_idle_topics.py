"""Rules of time and size on topics that get no records any more, beside Apache Kafka: retention, local retention, rolling.

The same topics get the same records in a broker of each program. A topic that a rule empties is empty in both; one that no
rule touches keeps its segments, although a rule of another topic has emptied that one twice over.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

from compat_tests.access import connect
from compat_tests.recipes import eventually

from . import tiered
from .cluster import TieredCluster, bootstrap, tiered_cluster

pytestmark = [pytest.mark.slow, pytest.mark.oracle]

RECORDS = 30
EARLIEST, LATEST, EARLIEST_LOCAL = -2, -1, -4
#: The check of Apache Kafka for a topic that stays is made after a topic beside it has expired so often.
ROUNDS = 2
HOUR_MS = 3_600_000

#: Rules of time and size for an idle topic.
RULES: dict[str, dict[str, str]] = {
    "none": {},
    "retention-ms": {"retention.ms": "1000"},
    "retention-bytes": {"retention.bytes": "0"},
    "segment-ms": {"segment.ms": "500"},
    "segment-ms-and-retention": {"segment.ms": "500", "retention.ms": str(HOUR_MS)},
}
LOCAL_RULES: dict[str, dict[str, str]] = {
    "local-ms": {"local.retention.ms": "1000"},
    "local-bytes": {"local.retention.bytes": "0"},
    "local-ms-and-retention": {"local.retention.ms": "500", "retention.ms": "1500"},
    "copy-disabled": {"retention.ms": "1000", "remote.log.copy.disable": "true"},
    "local-ms-and-an-hour": {"local.retention.ms": "1000", "retention.ms": str(HOUR_MS)},
}
#: Offsets from now of the records' timestamps.
AGES_MS = {"now": 0, "old": -2 * HOUR_MS}


class Case(NamedTuple):
    name: str
    config: dict[str, str]
    timestamp_ms: int


class State(NamedTuple):
    """Offsets of a log on its only replica: earliest, local start and end; and the number of segments there."""

    earliest: int
    local_start: int
    end: int
    segments: int


def cases(now_ms: int) -> Iterator[Case]:
    plain = {"remote.storage.enable": "false"}
    compacted = plain | {"cleanup.policy": "compact,delete"}
    in_store = {"remote.storage.enable": "true"}
    kinds = [("plain", plain, RULES), ("compacted", compacted, RULES), ("tiered", in_store, RULES | LOCAL_RULES)]
    for kind, base, rules in kinds:
        for (rule, config), (age, offset_ms) in product(rules.items(), AGES_MS.items()):
            limits = {"retention.ms": "-1"} | config
            yield Case(f"{kind}-{rule}-{age}", base | {"file.delete.delay.ms": "100"} | limits, now_ms + offset_ms)


def fill(cluster: TieredCluster, given: list[Case]) -> None:
    servers = bootstrap(cluster)
    for case in given:
        tiered.make_topic(
            servers, name=case.name, **{"local.retention.bytes": "-2", "segment.bytes": "1048576"} | case.config
        )
        producer = Producer({"bootstrap.servers": servers, "acks": "all"})
        for number in range(RECORDS):
            producer.produce(case.name, b"%d" % number, key=b"k%d" % number, partition=0, timestamp=case.timestamp_ms)
        assert producer.flush(30) == 0


def state_of(cluster: TieredCluster, topic: str) -> State:
    found = [_offset(cluster, topic, at) for at in (EARLIEST, EARLIEST_LOCAL, LATEST)]
    folder = cluster.nodes[1].log_dirs[0]
    return State(*found, segments=len(tiered.local_bases(folder, topic=topic)))


def _offset(cluster: TieredCluster, topic: str, timestamp: int) -> int:
    asked = ListOffsetsTopic(topic, [ListOffsetsPartition(0, -1, timestamp)])
    with connect(bootstrap(cluster)) as client:
        found = client.call(ListOffsetsRequest(replica_id=-1, topics=[asked], timeout_ms=10_000), 11)
    (response,) = found.topics[0].partitions
    return int(response.offset) if response.error_code == 0 else -1000 - response.error_code


def expire_a_new_topic(cluster: TieredCluster, name: str) -> None:
    """Waits until each task has dealt with all topics that were there before."""
    config = {"remote.storage.enable": "true", "retention.ms": "1000", "local.retention.bytes": "-2"}
    fill(cluster, [Case(name, config, int(time.time() * 1000))])
    eventually(lambda: _offset(cluster, name, EARLIEST) == RECORDS, what=f"{name} has expired", deadline_s=60)


def test_idle_topics_end_as_in_apache_kafka(java_tools: None, tmp_path: Path) -> None:
    given = list(cases(int(time.time() * 1000)))
    with ExitStack() as stack:
        made = [
            stack.enter_context(tiered_cluster(tmp_path / name, tmp_path / name / "store", count=1, apache=apache))
            for name, apache in (("odradek", ()), ("apache", (1,)))
        ]
        for cluster in made:
            fill(cluster, given)
        for cluster, number in product(made, range(ROUNDS)):
            expire_a_new_topic(cluster, f"sentinel-{number}")
        ours, theirs = made

        def differing() -> dict[str, tuple[State, State]]:
            pairs = {case.name: (state_of(ours, case.name), state_of(theirs, case.name)) for case in given}
            return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

        try:
            eventually(lambda: not differing(), what="both have the same", deadline_s=30)
        except AssertionError:
            raise AssertionError(differing()) from None
        ends = {case.name: state_of(ours, case.name) for case in given}
    emptied = {name for name, state in ends.items() if state.earliest == RECORDS}
    stored_only = {name for name, state in ends.items() if state.earliest == 0 and state.local_start == RECORDS}
    assert {name for name in ends if "-retention-ms-" in name} <= emptied
    assert {"tiered-local-ms-now", "tiered-local-bytes-now", "tiered-local-ms-and-an-hour-now"} <= stored_only
    assert not {name for name in ends if "-none-" in name or "-segment-ms-now" in name} & (emptied | stored_only)
