"""`consume -o -N` prints the last N records of each partition, also where markers or aborted records end its log."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator

import odradek
import pytest
from confluent_kafka import Producer

from compat_tests.cli.commands import odradek_command
from tests.harness.examples import examples

pytestmark = pytest.mark.usefixtures("sockets")

PARTITIONS = 2
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


def test_empty_topic_has_no_last_record(broker: odradek.Broker) -> None:
    broker.topic("empty").create(partitions=3)
    assert read(broker, "empty", "-5", "read_committed") == {}
