"""Clients react alike to faults of Odradek and of Apache Kafka: a part of the table; `beside_apache.py` runs all of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat_tests.faults.beside_apache import CASES, Side, both_sides, warm_up
from tests.testing.clients.python_clients import AioKafka, KafkaPython, LibRdKafka

CLIENTS = (KafkaPython(), AioKafka(), LibRdKafka())
#: The client of the consumer's faults.
CONSUMER = CLIENTS[2]
NAMES = (
    "producer, leader moved",
    "producer, answer lost",
    "producer, MESSAGE_TOO_LARGE",
    "producer, broker paused",
    "consumer, connection lost",
)


@pytest.fixture(scope="module")
def sides(java_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    with both_sides(tmp_path_factory.mktemp("apache")) as found:
        for side in found:
            warm_up(side, CONSUMER)
        yield found


@pytest.mark.oracle
@pytest.mark.parametrize("name", NAMES)
def test_clients_react_as_they_do_to_apache(sides: tuple[Side, Side], name: str) -> None:
    case = next(one for one in CASES if str(one) == name)
    for client in (CONSUMER,) if case.consumes else CLIENTS:
        here, there = (side.reaction(case, client, client.name) for side in sides)
        assert here == there, client.name
        assert here.struck > 0
