"""The fault table: each fault through five clients, and what each makes of it.

kafka-python, aiokafka, librdkafka, Java's and franz-go have their defaults but for shorter back-offs. Idempotent producers
are the default of kafka-python, Java and franz-go: what is sent again is written once. The others write it twice.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import odradek
import pytest
from odradek.testing.faults import Fault, Faults

from compat_tests.downloads import download
from compat_tests.java.fetch import ORACLE, classpath, java
from tests.testing.clients.python_clients import AioKafka, KafkaPython, LibRdKafka

CLIENTS = Path(__file__).resolve().parent / "clients"
_BINARY = CLIENTS.parents[2] / ".tools" / "franz-go" / "fault-table"
NAMES = ("kafka-python", "aiokafka", "librdkafka", "java", "franz-go")
IDEMPOTENT = ("kafka-python", "java", "franz-go")
#: How long a consumer goes on after its first record: a client needs a while to join again.
QUIET_S = 0.5
QUIET_OF_REBALANCE_S = 3.0
Make = Callable[[Faults], Fault]


class Client(Protocol):
    def produce(self, address: str) -> str: ...
    def consume(self, address: str, quiet_s: float) -> str: ...


class PipedClient:
    """A client in a process of its own, which is asked by lines."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def produce(self, address: str) -> str:
        return self._ask(f"produce {address}")

    def consume(self, address: str, quiet_s: float) -> str:
        return self._ask(f"consume {address} {int(quiet_s * 1000)}")

    def _ask(self, line: str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self) -> None:
        self.process.communicate(timeout=30)


@pytest.fixture(scope="module")
def clients(java_tools: None) -> Iterator[dict[str, Client]]:
    assert shutil.which("go"), "install Go 1.26 or newer"
    _BINARY.parent.mkdir(parents=True, exist_ok=True)
    build = ["go", "build", "-buildvcs=false", "-o", str(_BINARY), "."]
    download(build, cwd=CLIENTS, timeout=300).check_returncode()
    piped = {
        "java": PipedClient([java(), "-cp", classpath(ORACLE), str(CLIENTS / "FaultTableClient.java")]),
        "franz-go": PipedClient([str(_BINARY)]),
    }
    yield {"kafka-python": KafkaPython(), "aiokafka": AioKafka(), "librdkafka": LibRdKafka(), **piped}
    for one in piped.values():
        one.close()


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
        except RuntimeError as failed:  # a client of the test before had it created meanwhile
            assert "TOPIC_ALREADY_EXISTS" in str(failed) and time.monotonic() < deadline, failed
    running.requests.clear()
    return running


#: Faults that a producer retries: the fault, how many requests it strikes, whether the broker had written the record.
RETRIED: dict[str, tuple[Make, int, bool]] = {
    "leader moved": (lambda faults: faults.leader_moved(topic="orders", times=2), 2, False),
    "too few replicas": (lambda faults: faults.fail("Produce", error="NOT_ENOUGH_REPLICAS", times=2), 2, False),
    "disk failed": (lambda faults: faults.fail("Produce", error="KAFKA_STORAGE_ERROR", times=1), 1, False),
    "timed out after the write": (
        lambda faults: faults.fail("Produce", error="REQUEST_TIMED_OUT", after=True, times=1), 1, True
    ),
    "request lost": (lambda faults: faults.drop("Produce", times=1), 1, False),
    "answer lost": (lambda faults: faults.drop("Produce", after=True, times=1), 1, True),
    "answer cut": (lambda faults: faults.truncate("Produce", times=1), 1, True),
}  # fmt: skip

#: Faults that are over without another Produce.
PASSED_OVER: dict[str, Make] = {
    "slow answer": lambda faults: faults.delay("Produce", seconds=0.1, times=1, after=True),
    "slow disk": lambda faults: faults.slow_disk(0.1, times=1),
    "throttled": lambda faults: faults.throttle("Produce", seconds=0.05, times=1),
    "no leader in metadata": lambda faults: faults.fail(
        "Metadata", error="LEADER_NOT_AVAILABLE", topic="orders", times=1
    ),
}

#: Errors that a producer gives to its user.
GIVEN_UP: dict[str, tuple[str, ...]] = {
    "MESSAGE_TOO_LARGE": (
        "MessageSizeTooLargeError", "MessageSizeTooLargeError", "MSG_SIZE_TOO_LARGE", "RecordTooLargeException",
        "MESSAGE_TOO_LARGE",
    ),
    "TOPIC_AUTHORIZATION_FAILED": (
        "TopicAuthorizationFailedError", "TopicAuthorizationFailedError", "TOPIC_AUTHORIZATION_FAILED",
        "TopicAuthorizationException", "TOPIC_AUTHORIZATION_FAILED",
    ),
}  # fmt: skip

#: Faults of consumers: the fault, and requests that its reaction consists of, with how many there are at least.
CONSUMED: dict[str, tuple[Make, str, int]] = {
    "leader moved": (lambda faults: faults.leader_moved(topic="orders"), "Fetch", 2),
    "offset out of range": (lambda faults: faults.fail("Fetch", error="OFFSET_OUT_OF_RANGE", times=1), "Fetch", 2),
    "connection lost": (lambda faults: faults.drop("Fetch", times=1), "Fetch", 2),
    "coordinator moved": (lambda faults: faults.fail("Heartbeat", error="NOT_COORDINATOR", times=1), "FindCoordinator", 2),
    "coordinator starts": (
        lambda faults: faults.fail("FindCoordinator", error="COORDINATOR_NOT_AVAILABLE", times=1), "FindCoordinator", 2
    ),
    "rebalance": (lambda faults: faults.fail("Heartbeat", error="REBALANCE_IN_PROGRESS", times=1), "JoinGroup", 3),
}  # fmt: skip


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
    quiet_s = QUIET_OF_REBALANCE_S if what == "rebalance" else QUIET_S
    assert clients[name].consume(broker.bootstrap_servers, quiet_s) == "ok", broker.requests.lines(100)
    assert fault.count == 1
    asked: list[Any] = broker.requests.matching(api)
    assert len(asked) >= count, broker.requests.lines(100)
