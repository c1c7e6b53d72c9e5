"""Kafka Streams with the streams protocol (KIP-1071) and exactly once, on three brokers, some of which are killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest

from compat_tests.asking import ask, coordinator_of
from compat_tests.exactly_once.cluster import ThreeBrokers
from compat_tests.oracle import SINGLE_NODE
from compat_tests.recipes import eventually, make_replicated_topic
from compat_tests.streams.harness.settings import IMPATIENT, PARTITIONS, STREAMS
from compat_tests.streams.word_count import WordCount, Words, exactly, lines_of

pytestmark = pytest.mark.timeout(600)
APPLICATION = "app"
TOPICS = ("lines", "counts")
#: Sessions expire and a leader is elected, on a busy machine.
DEADLINE_S = 120


@pytest.fixture
def brokers(target: str, java_tools: None, tmp_path: Path) -> Iterator[ThreeBrokers]:
    if target != "odradek":
        pytest.skip("Apache Kafka is one here")
    with ThreeBrokers(tmp_path / "brokers", {**SINGLE_NODE, **IMPATIENT}) as made:
        yield made


@pytest.fixture
def instances(brokers: ThreeBrokers, tmp_path: Path) -> Iterator[list[WordCount]]:
    made = [WordCount(brokers.bootstrap, APPLICATION, TOPICS, tmp_path / f"instance-{n}") for n in range(2)]
    for one in made:
        one.settings |= {**STREAMS, "replication.factor": "3"}
    yield made
    for one in made:
        one.kill()


def members(brokers: ThreeBrokers) -> int:
    """Returns the members of the group if it is stable."""
    found = coordinator_of(brokers.bootstrap, APPLICATION)
    request = StreamsGroupDescribeRequest(group_ids=[APPLICATION])
    response = None if found is None else ask(f"{found.host}:{found.port}", request, 0)
    group = None if response is None else response.groups[0]
    return len(group.members) if group is not None and group.group_state == "Stable" else 0


def coordinator(brokers: ThreeBrokers) -> int:
    found = eventually(lambda: coordinator_of(brokers.bootstrap, APPLICATION), what="the group is coordinated")
    return int(found.node_id)


def test_words_are_counted_exactly_once_though_the_coordinator_a_broker_and_an_instance_are_killed(
    brokers: ThreeBrokers, instances: list[WordCount]
) -> None:
    for topic in TOPICS:
        make_replicated_topic(brokers.bootstrap, topic, PARTITIONS)
    words = Words(brokers.bootstrap, TOPICS, PARTITIONS)
    words.write(lines_of(200))
    for one in instances:
        one.start()
    eventually(lambda: members(brokers) == 2, what="both are in the group", deadline_s=DEADLINE_S)
    words.read(100)
    words.write(lines_of(200))
    brokers.kill(coordinator(brokers))
    words.write(lines_of(200))
    words.read(1_100)
    instances[0].kill()
    brokers.start()
    words.write(lines_of(200))
    eventually(lambda: members(brokers) == 1, what="one is missed", deadline_s=DEADLINE_S)
    brokers.kill()
    words.write(lines_of(200))
    instances[0].start()
    brokers.start()
    words.write(lines_of(200))
    words.read_all()
    eventually(lambda: members(brokers) == 2, what="the group is stable again", deadline_s=DEADLINE_S)
    assert words.counts == exactly(words.written)
    words.close()
