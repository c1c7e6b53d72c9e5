"""`odradek restore` writes nothing where it cannot be completed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import odradek
import pytest
from confluent_kafka import Consumer

from compat_tests.cli.commands import Done, odradek_command
from compat_tests.recipes import eventually

pytestmark = pytest.mark.usefixtures("sockets")

TOPICS = [f"saved-{number}" for number in range(6)]


@pytest.fixture
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker() as running:
        yield running


def run(broker: odradek.Broker, *words: str) -> Done:
    return odradek_command(*words, "-b", broker.bootstrap_servers)


@pytest.fixture
def place(broker: odradek.Broker, tmp_path: Path) -> str:
    """A backup of six topics, whose topics are then deleted. The group billing has committed in one."""
    for topic in TOPICS:
        broker.topic(topic).send(b"1", b"2", b"3")
    assert run(broker, "consume", TOPICS[0], "--group", "billing", "--from-beginning", "-c", "2").status == 0
    assert run(broker, "backup", str(tmp_path)).status == 0
    assert run(broker, "topic", "delete", *TOPICS).status == 0
    return str(tmp_path)


def written(broker: odradek.Broker) -> list[str]:
    return [one["name"] for one in run(broker, "topic", "list", "--output", "json").json if one["name"] in TOPICS]


def test_group_with_members_ends_a_restore_before_its_first_write(broker: odradek.Broker, place: str) -> None:
    broker.topic("other").send(b"1")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "billing"})
    consumer.subscribe(["other"])
    try:
        eventually(lambda: consumer.poll(0.1) is None and consumer.assignment(), what="the member has its partition")
        for words in ((), ("--dry-run",)):
            refused = run(broker, "restore", place, *words)
            assert refused.status == 1 and "group billing has members: stop them first" in refused.err, refused
            assert written(broker) == [] and not list(Path(place).glob("restores/*"))
        assert run(broker, "restore", place, "--no-groups").status == 0
    finally:
        consumer.close()
    assert written(broker) == TOPICS


def test_share_group_of_the_same_name_ends_a_restore(broker: odradek.Broker, place: str) -> None:
    assert run(broker, "group", "delete", "billing").status == 0
    broker.topic("other").send(b"1")
    assert run(broker, "group", "reset", "billing", "--share", "--to", "0", "--topic", "other").status == 0
    refused = run(broker, "restore", place)
    assert refused.status == 1 and "billing is of another kind" in refused.err
    assert written(broker) == []


def test_damaged_chunk_ends_a_restore_before_its_first_write(broker: odradek.Broker, place: str) -> None:
    chunk = sorted(Path(place).glob("data/*/*/0/*.log"))[-1]
    chunk.write_bytes(chunk.read_bytes()[:-1])
    refused = run(broker, "restore", place)
    assert refused.status == 1 and "is damaged" in refused.err
    assert written(broker) == []


def test_topic_that_the_controller_does_not_create_ends_a_restore(broker: odradek.Broker, place: str) -> None:
    with broker.faults.fail("CreateTopics", "POLICY_VIOLATION", topic=TOPICS[-1]):
        refused = run(broker, "restore", place)
    assert refused.status == 1 and f"topic {TOPICS[-1]}" in refused.err
    assert written(broker) == []


def test_topics_in_the_way_are_all_counted_in_the_message(broker: odradek.Broker, place: str) -> None:
    assert run(broker, "topic", "create", *TOPICS).status == 0
    refused = run(broker, "restore", place)
    assert f"has 6 of the topics already: {', '.join(TOPICS[:5])} and 1 more; delete" in refused.err
