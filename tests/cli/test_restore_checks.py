"""`odradek restore` writes nothing where it cannot be completed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import odradek
import pytest
from confluent_kafka import Consumer

from compat_tests.cli.commands import Done, odradek_command
from compat_tests.recipes import eventually

pytestmark = pytest.mark.usefixtures("sockets")

TOPICS = [f"saved-{number}" for number in range(6)]


def run(broker: odradek.Broker, *words: str) -> Done:
    return odradek_command(*words, "-b", broker.bootstrap_servers)


@pytest.fixture(scope="module")
def saved(sockets: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of six topics, whose topics are then deleted, and a snapshot of the broker. The group billing has committed
    in one topic. Made once, because it takes five seconds.
    """
    folder = tmp_path_factory.mktemp("saved")
    with odradek.Broker() as running:
        for topic in TOPICS:
            running.topic(topic).send(b"1", b"2", b"3")
        assert run(running, "consume", TOPICS[0], "--group", "billing", "--from-beginning", "-c", "2").status == 0
        assert run(running, "backup", str(folder / "backup")).status == 0
        assert run(running, "topic", "delete", *TOPICS).status == 0
        running.save(folder / "snapshot")
    return folder


@pytest.fixture
def broker(saved: Path) -> Iterator[odradek.Broker]:
    with odradek.Broker() as running:
        running.restore(saved / "snapshot")
        yield running


@pytest.fixture
def place(saved: Path, tmp_path: Path) -> str:
    """A copy of the backup, for a test to damage."""
    return str(shutil.copytree(saved / "backup", tmp_path / "backup"))


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
