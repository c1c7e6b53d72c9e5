"""Kafka Streams 4.3 with the streams protocol (KIP-1071): the broker assigns the tasks and creates the internal topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.broker_process import BrokerProcess
from compat_tests.java.tool import ToolHost
from compat_tests.recipes import eventually, make_topic
from compat_tests.streams.harness.settings import IMPATIENT, PARTITIONS, STREAMS
from compat_tests.streams.word_count import WordCount, Words, exactly, lines_of

#: Runs StreamsGroupCommand, and returns its output.
Command = Callable[..., str]


@pytest.fixture
def instances(tmp_path: Path) -> Iterator[Callable[[str, str, tuple[str, str]], WordCount]]:
    """Creates instances of an application, each with its own directory, and ends them with the test."""
    made: list[WordCount] = []

    def make(bootstrap: str, application: str, topics: tuple[str, str]) -> WordCount:
        one = WordCount(bootstrap, application, topics, tmp_path / f"instance-{len(made)}")
        one.settings |= STREAMS
        made.append(one)
        return one

    yield make
    for one in made:
        one.kill()


def command(tools: ToolHost, bootstrap: str) -> Command:
    def run(*arguments: str) -> str:
        tool = "org.apache.kafka.tools.streams.StreamsGroupCommand"
        return tools.run(tool, "--bootstrap-server", bootstrap, *arguments).checked().out

    return run


def topics_of(bootstrap: str, prefix: str) -> tuple[str, str]:
    names = (f"{prefix}-lines", f"{prefix}-counts")
    for name in names:
        make_topic(bootstrap, name, PARTITIONS)
    return names


def test_words_are_counted_exactly_once_by_two_instances_though_one_and_the_broker_are_killed(
    java_tools: None,
    new_broker: Callable[[dict[str, str]], BrokerProcess],
    tools: ToolHost,
    instances: Callable[[str, str, tuple[str, str]], WordCount],
) -> None:
    broker = new_broker(IMPATIENT)
    topics = topics_of(broker.bootstrap, "app")
    first, second = (instances(broker.bootstrap, "app", topics) for _ in range(2))
    words, describe = Words(broker.bootstrap, topics, PARTITIONS), command(tools, broker.bootstrap)
    words.write(lines_of(200))
    first.start()
    words.read(100)
    second.start()
    shared = ("--describe", "--group", "app", "--members", "--verbose")
    eventually(lambda: describe(*shared).count(" STANDBY: 1:") == 2, what="both have copies", deadline_s=60)
    words.write(lines_of(200))
    words.read(1_100)
    first.kill()
    words.write(lines_of(200))
    broker.kill()
    broker.start()
    words.write(lines_of(200))
    words.read_all()
    assert words.counts == exactly(words.written)
    words.close()
    second.close()


def test_a_group_is_listed_described_reset_and_deleted(
    bootstrap: str, group: str, tools: ToolHost, instances: Callable[[str, str, tuple[str, str]], WordCount]
) -> None:
    topics = topics_of(bootstrap, group)
    program = instances(bootstrap, group, topics)
    words, streams = Words(bootstrap, topics, PARTITIONS), command(tools, bootstrap)
    words.write(lines_of(20))
    program.start()
    words.read_all()
    assert group in streams("--list").split()
    assert "Stable" in streams("--describe", "--group", group, "--state")
    assert "ACTIVE: 0:[0,1]; 1:[0,1];" in streams("--describe", "--group", group, "--members", "--verbose")
    assert f"{group}-words-repartition" in streams("--describe", "--group", group)
    program.close()
    eventually(lambda: "Empty" in streams("--describe", "--group", group, "--state"), what="it is empty")
    again = ("--group", group, "--all-input-topics", "--to-earliest", "--execute")
    assert topics[0] in streams("--reset-offsets", *again)
    assert "was successful" in streams("--delete", "--group", group)
    assert group not in streams("--list").split()
    words.close()
