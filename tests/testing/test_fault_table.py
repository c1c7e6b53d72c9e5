"""The fault table: each fault with five clients, and each client's reaction.

kafka-python, aiokafka, librdkafka, Java's client and franz-go have their defaults except for shorter back-offs. Producers of
kafka-python, Java and franz-go are idempotent by default: a record that they send again is written once. The others write
it twice. compat_tests/faults/beside_apache.py compares these reactions with those to Apache Kafka.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import odradek
import pytest

from tests.testing.clients.python_clients import LAST
from tests.testing.fault_table import (
    CONSUMED,
    GIVEN_UP,
    IDEMPOTENT,
    NAMES,
    PASSED_OVER,
    RETRIED,
    Client,
    Recovery,
    all_clients,
    consume_through,
)


@pytest.fixture(scope="module")
def clients(java_tools: None) -> Iterator[dict[str, Client]]:
    with all_clients() as found:
        yield found


@pytest.fixture(scope="module")
def running() -> Iterator[odradek.Broker]:
    with odradek.Broker() as started:
        yield started


@pytest.fixture
def broker(running: odradek.Broker) -> odradek.Broker:
    deadline = time.monotonic() + 20
    while True:
        running.reset()
        try:
            running.topic("orders").create()
            break
        except RuntimeError as failed:  # a client of the last test has just created it
            assert "TOPIC_ALREADY_EXISTS" in str(failed) and time.monotonic() < deadline, failed
    running.requests.clear()
    return running


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("what", RETRIED)
def test_producers_retry(broker: odradek.Broker, clients: dict[str, Client], what: str, name: str) -> None:
    make, struck, was_written = RETRIED[what]
    fault = make(broker.faults)
    assert clients[name].produce(broker.bootstrap_servers) == "ok"
    assert fault.count == struck
    assert len(broker.requests.matching("Produce")) == struck + 1
    assert len(broker.topic("orders").values()) == (2 if was_written and name not in IDEMPOTENT else 1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("what", PASSED_OVER)
def test_producers_wait(broker: odradek.Broker, clients: dict[str, Client], what: str, name: str) -> None:
    fault = PASSED_OVER[what](broker.faults)
    assert clients[name].produce(broker.bootstrap_servers) == "ok"
    assert fault.count == 1 and len(broker.requests.matching("Produce")) == 1
    assert broker.topic("orders").values() == [b"order 1"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("error", GIVEN_UP)
def test_producers_give_up(broker: odradek.Broker, clients: dict[str, Client], error: str, name: str) -> None:
    fault = broker.faults.fail("Produce", error=error)
    assert clients[name].produce(broker.bootstrap_servers) == GIVEN_UP[error][NAMES.index(name)]
    assert fault.count == 1 and broker.topic("orders").values() == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("what", CONSUMED)
def test_consumers_recover(broker: odradek.Broker, clients: dict[str, Client], what: str, name: str) -> None:
    make, api, count = CONSUMED[what]
    broker.topic("orders").send(b"order 1")
    fault = make(broker.faults)
    recovery = Recovery(api, count, lambda: fault.count > 0, fault.cancel, lambda: broker.topic("orders").send(LAST))

    def asked(api: str) -> int:
        return len(broker.requests.matching(api))

    said = consume_through(clients[name], broker.bootstrap_servers, asked, recovery)
    assert said == "ok", broker.requests.lines(100)
    assert fault.count == 1 or (what == "rebalance" and fault.count > 1)
    assert asked(api) >= count, broker.requests.lines(100)
