"""The fault table: the faults, the five clients, and each client's reaction to a fault."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from odradek.testing.faults import Fault, Faults

from compat_tests.go_programs import build_go
from compat_tests.java.program import java_command
from compat_tests.needed_tools import needed
from tests.testing.clients.python_clients import AioKafka, KafkaPython, LibRdKafka

CLIENTS = Path(__file__).resolve().parent / "clients"
_BINARY = CLIENTS.parents[2] / ".tools" / "franz-go" / "fault-table"
NAMES = ("kafka-python", "aiokafka", "librdkafka", "java", "franz-go")
IDEMPOTENT = ("kafka-python", "java", "franz-go")
#: The longest time for a consumer's reaction.
_REACTION_S = 60.0
#: Heartbeats in one generation that show that a member does not have to rejoin.
_HEARTBEATS = 2
_POLL_S = 0.01
Make = Callable[[Faults], Fault]


class Client(Protocol):
    def produce(self, address: str) -> str: ...
    def consume(self, address: str) -> str: ...


@dataclass(frozen=True)
class Recovery:
    """A consumer's recovery: at least `least` requests of `api`. `struck`: whether the fault has affected the consumer."""

    api: str
    least: int
    struck: Callable[[], bool]
    end_fault: Callable[[], None]
    send_last: Callable[[], None]


class PipedClient:
    """A client in its own process, with one line for each request and response."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def produce(self, address: str) -> str:
        return self._ask(f"produce {address}")

    def consume(self, address: str) -> str:
        return self._ask(f"consume {address}")

    def _ask(self, line: str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self) -> None:
        self.process.communicate(timeout=30)


@contextmanager
def all_clients() -> Iterator[dict[str, Client]]:
    """Yields the clients by name. Those of Java and Go are processes that end with the context."""
    needed("go")
    build_go(CLIENTS, _BINARY)
    piped = {
        "java": PipedClient(java_command(CLIENTS / "FaultTableClient.java")),
        "franz-go": PipedClient([str(_BINARY)]),
    }
    try:
        yield {"kafka-python": KafkaPython(), "aiokafka": AioKafka(), "librdkafka": LibRdKafka(), **piped}
    finally:
        for one in piped.values():
            one.close()


def consume_through(client: Client, address: str, asked: Callable[[str], int], recovery: Recovery) -> str:
    """Runs a client's consumer until it has recovered from a fault. Returns the client's output.

    `asked`: the number of requests of an API so far. The fault lasts until the broker has received the requests of the
    recovery. The test then sends LAST when heartbeats show that the client does not have to rejoin.
    """
    with ThreadPoolExecutor(1) as beside:
        outcome = beside.submit(client.consume, address)
        until = time.monotonic() + _REACTION_S

        def wait(reached: Callable[[], bool]) -> None:
            while not reached() and not outcome.done() and time.monotonic() < until:
                time.sleep(_POLL_S)

        wait(lambda: recovery.struck() and asked(recovery.api) >= recovery.least)
        recovery.end_fault()
        joins, beats = asked("JoinGroup"), asked("Heartbeat")

        def is_settled() -> bool:
            nonlocal joins, beats
            if asked("JoinGroup") > joins:
                joins, beats = asked("JoinGroup"), asked("Heartbeat")
            return asked("Heartbeat") >= beats + _HEARTBEATS

        wait(is_settled)
        recovery.send_last()
        return outcome.result()


#: Faults that a producer retries: the fault, the number of requests that it affects, whether the broker wrote the record.
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

#: Faults from which a producer recovers without another Produce.
PASSED_OVER: dict[str, Make] = {
    "slow answer": lambda faults: faults.delay("Produce", seconds=0.1, times=1, after=True),
    "slow disk": lambda faults: faults.slow_disk(0.1, times=1),
    "throttled": lambda faults: faults.throttle("Produce", seconds=0.05, times=1),
    "no leader in metadata": lambda faults: faults.fail(
        "Metadata", error="LEADER_NOT_AVAILABLE", topic="orders", times=1
    ),
}

#: Errors that a producer returns to its user.
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

#: Faults of consumers: the fault, and the API and least number of requests in the reaction. A rebalance lasts until the
#: member joins: librdkafka ignores a rebalance until its application has taken an assignment.
CONSUMED: dict[str, tuple[Make, str, int]] = {
    "leader moved": (lambda faults: faults.leader_moved(topic="orders"), "Fetch", 2),
    "offset out of range": (lambda faults: faults.fail("Fetch", error="OFFSET_OUT_OF_RANGE", times=1), "Fetch", 2),
    "connection lost": (lambda faults: faults.drop("Fetch", times=1), "Fetch", 2),
    "coordinator moved": (lambda faults: faults.fail("Heartbeat", error="NOT_COORDINATOR", times=1), "FindCoordinator", 2),
    "coordinator starts": (
        lambda faults: faults.fail("FindCoordinator", error="COORDINATOR_NOT_AVAILABLE", times=1), "FindCoordinator", 2
    ),
    "rebalance": (lambda faults: faults.fail("Heartbeat", error="REBALANCE_IN_PROGRESS"), "JoinGroup", 3),
}  # fmt: skip
