"""Kafka Streams 4.3 with the classic protocol: repartition and changelog topics, crashes, exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.broker_process import BrokerProcess
from compat_tests.recipes import make_topic
from compat_tests.streams.word_count import WordCount, Words, exactly, lines_of

PARTITIONS = 2
#: A killed member's session expires soon, and that of a member whose process is merely slow does not.
IMPATIENT = {"session.timeout.ms": "10000", "heartbeat.interval.ms": "500"}


@pytest.fixture
def own_broker(java_tools: None, new_broker: Callable[[dict[str, str]], BrokerProcess]) -> BrokerProcess:
    """A broker that the test may kill."""
    return new_broker({})


@pytest.fixture
def topics(own_broker: BrokerProcess) -> tuple[str, str]:
    for name in ("lines", "counts"):
        make_topic(own_broker.bootstrap, name, PARTITIONS)
    return "lines", "counts"


@pytest.fixture
def program(own_broker: BrokerProcess, topics: tuple[str, str], tmp_path: Path) -> Iterator[WordCount]:
    made = WordCount(own_broker.bootstrap, "application", topics, tmp_path / "instance")
    made.settings.update(IMPATIENT)
    yield made
    made.kill()


@pytest.fixture
def words(own_broker: BrokerProcess, topics: tuple[str, str]) -> Iterator[Words]:
    made = Words(own_broker.bootstrap, topics, PARTITIONS)
    yield made
    made.close()


def test_words_are_counted_exactly_once_though_program_and_broker_are_killed(
    own_broker: BrokerProcess, program: WordCount, words: Words
) -> None:
    program.settings["processing.guarantee"] = "exactly_once_v2"
    words.write(lines_of(200))
    program.start()
    words.read(100)
    program.kill()
    words.write(lines_of(200))
    program.start()
    words.read(1_100)
    words.write(lines_of(2_000))
    own_broker.kill()
    own_broker.start()
    words.write(lines_of(200))
    words.read_all()
    assert words.counts == exactly(words.written)
    program.close()


def test_a_restart_counts_on_where_it_was_and_loses_nothing_when_all_are_killed(
    own_broker: BrokerProcess, program: WordCount, words: Words
) -> None:
    """Processing is at least once, and exactly once without a crash."""
    program.start()
    words.write(lines_of(100))
    words.read_all()
    program.close()
    program.start()
    words.write(lines_of(100))
    words.read_all()
    assert words.counts == exactly(words.written)
    words.write(lines_of(1_000))
    program.kill()
    own_broker.kill()
    own_broker.start()
    words.write(lines_of(100))
    program.start()
    words.read_all()
