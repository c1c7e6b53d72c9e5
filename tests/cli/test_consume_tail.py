"""`consume -o -N` prints the last N records of each partition, also where markers or aborted records end its log."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from unittest.mock import Mock

import odradek
import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st
from odradek.admin.places import Place
from odradek.admin.positions import BEGINNING, END
from odradek.records.consumed import ConsumedRecord
from odradek.records.tail import tail_starts

from compat_tests.cli.commands import odradek_command
from tests.harness.examples import examples

pytestmark = pytest.mark.usefixtures("sockets")

PARTITIONS = 2
PLACE = ("orders", 0)
DEADLINE_S = 60


@pytest.fixture(scope="module")
def broker() -> Iterator[odradek.Broker]:
    with odradek.Broker() as running:
        yield running


def read(broker: odradek.Broker, topic: str, position: str, isolation: str) -> dict[int, list[int]]:
    """The offsets of the records by partition."""
    words = ("consume", topic, "-o", position, "--isolation-level", isolation, "-f", "%p %o\\n")
    done = odradek_command(*words, "-b", broker.bootstrap_servers)
    assert (done.status, done.err) == (0, ""), done
    found = defaultdict(list)
    for line in done.out.splitlines():
        partition, offset = map(int, line.split())
        found[partition].append(offset)
    return found


def write(broker: odradek.Broker, topic: str, chosen: random.Random) -> None:
    """Writes records, and transactions that end either way, in an order of chance."""
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    plain = Producer(settings)
    transactional = Producer({**settings, "transactional.id": topic})
    transactional.init_transactions(DEADLINE_S)
    for _ in range(chosen.randrange(1, 6)):
        kind = chosen.choice(["plain", "commit", "abort"])
        producer = plain if kind == "plain" else transactional
        if kind != "plain":
            transactional.begin_transaction()
        for number in range(chosen.randrange(1, 6)):
            producer.produce(topic, b"%d" % number, partition=chosen.randrange(PARTITIONS))
        producer.flush(DEADLINE_S)
        if kind != "plain":
            end = transactional.commit_transaction if kind == "commit" else transactional.abort_transaction
            end(DEADLINE_S)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_last_records_are_those_at_the_end_of_all(broker: odradek.Broker, isolation: str) -> None:
    for seed in range(examples(12)):
        topic, chosen = f"t-{isolation}-{seed}", random.Random(seed)
        broker.topic(topic).create(partitions=PARTITIONS)
        write(broker, topic, chosen)
        every = read(broker, topic, "beginning", isolation)
        for count in (1, 2, chosen.randrange(3, 30)):
            expected = {partition: offsets[-count:] for partition, offsets in every.items()}
            assert read(broker, topic, f"-{count}", isolation) == expected, (seed, count)


def test_last_record_before_a_marker_is_printed(broker: odradek.Broker) -> None:
    words = ("produce", "paid", "--create", "--transactional", "-b", broker.bootstrap_servers)
    assert odradek_command(*words, stdin="1\n2\n").status == 0
    assert odradek_command("consume", "paid", "-o", "-1", "-b", broker.bootstrap_servers).out == "2\n"
    done = odradek_command("consume", "paid", "-o", "-2", "--follow", "-c", "2", "-b", broker.bootstrap_servers)
    assert done.out == "1\n2\n"


class Logs:
    """Logs whose offsets have a record or not. `read`: offsets that were read."""

    def __init__(self, first: int, offsets: Sequence[int], end: int) -> None:
        self._ends = {BEGINNING: first, END: end}
        self._offsets = offsets
        self._range = (0, 0)
        self.read = 0

    def offsets_at(self, places: Collection[Place], offset: int) -> Mapping[Place, int]:
        return dict.fromkeys(places, self._ends[offset])

    def begin_within(self, ranges: Mapping[Place, tuple[int, int]]) -> None:
        (self._range,) = ranges.values()
        self.read += self._range[1] - self._range[0]

    def batches(self, most: int) -> Iterator[Sequence[ConsumedRecord]]:
        for offset in self._offsets:
            if self._range[0] <= offset < self._range[1]:
                record = Mock(spec=ConsumedRecord)
                record.topic.return_value, record.partition.return_value, record.offset.return_value = *PLACE, offset
                yield [record]


@given(st.lists(st.booleans(), max_size=40), st.integers(0, 5), st.integers(1, 45))
def test_tail_begins_at_its_first_record_and_no_offset_is_read_twice(
    has_record: list[bool], first: int, count: int
) -> None:
    offsets = [first + number for number, has in enumerate(has_record) if has]
    logs = Logs(first, offsets, first + len(has_record))
    start = tail_starts(logs, [PLACE], count)[PLACE]
    assert [one for one in offsets if one >= start] == offsets[-count:]
    assert logs.read <= len(has_record)
    if len(has_record) <= count:
        assert logs.read == 0


def test_empty_topic_has_no_last_record(broker: odradek.Broker) -> None:
    broker.topic("empty").create(partitions=3)
    assert read(broker, "empty", "-5", "read_committed") == {}
