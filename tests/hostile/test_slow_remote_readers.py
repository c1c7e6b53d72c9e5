"""Clients that fetch records of the remote store and do not read the responses, or read them as slowly as they can."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections.abc import Callable, Iterator

import psutil
import pytest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

from compat_tests.odradek_process import OdradekProcess
from compat_tests.recipes import eventually
from compat_tests.tiers import tiered
from compat_tests.wire import request_frame
from tests.hostile.attack_target import BUG_LINES

pytestmark = pytest.mark.usefixtures("processes")

#: More of each partition is in the store than a response has of it.
PARTITIONS, RECORDS, VALUE_BYTES = 12, 2200, 1000
PARTITION_BYTES = 2 << 20
CONNECTIONS = 160
BUDGET_BYTES = 32 << 20
#: Threads of the store's reads have their range beside its copy in the budget; the rest is the interpreter's.
MOST_GROWTH_BYTES = 2 * BUDGET_BYTES + (48 << 20)
MOST_KEPT_BYTES = 30 << 20
RETURN_S = 30
READ_DEADLINE_S = 120


class Verbose(OdradekProcess):
    def command(self) -> list[str]:
        return [*super().command(), "-v"]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OdradekProcess]:
    folder = tmp_path_factory.mktemp("slow")
    budget = {"odradek.remote.fetch.buffer.bytes": str(BUDGET_BYTES)}
    with Verbose(folder / "node", tiered.properties(folder / "store") | budget) as running:
        tiered.make_topic(running.bootstrap, partitions=PARTITIONS)
        for partition in range(PARTITIONS):
            tiered.produce(running.bootstrap, tiered.values_of(RECORDS, size=VALUE_BYTES), partition=partition)
        for partition in range(PARTITIONS):
            tiered.await_local_start(running.data_dir, RECORDS // 2, partition=partition)
        yield running


def fetch_all(max_bytes: int, partition_bytes: int, max_wait_ms: int) -> bytes:
    wanted = [
        FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=partition_bytes)
        for number in range(PARTITIONS)
    ]
    topics = [FetchTopic(topic=tiered.TOPIC, partitions=wanted)]
    request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=max_bytes, topics=topics)
    return request_frame(request, 11, 1, "slow")


def reads_nothing(connection: socket.socket, rng: random.Random, is_over: threading.Event) -> None:
    is_over.wait(READ_DEADLINE_S)


def reads_a_byte_now_and_then(connection: socket.socket, rng: random.Random, is_over: threading.Event) -> None:
    while not is_over.wait(rng.random()) and connection.recv(1):
        pass


def reads_some_and_stops(connection: socket.socket, rng: random.Random, is_over: threading.Event) -> None:
    left = rng.randrange(1 << 20)
    while left > 0 and (found := connection.recv(left)):
        left -= len(found)
    is_over.wait(READ_DEADLINE_S)


def sends_more_requests_and_reads_nothing(
    connection: socket.socket, rng: random.Random, is_over: threading.Event
) -> None:
    connection.settimeout(1)
    with contextlib.suppress(TimeoutError):
        for _ in range(rng.randrange(200)):
            connection.sendall(fetch_all(64 << 20, PARTITION_BYTES, 500))
    is_over.wait(READ_DEADLINE_S)


def closes_its_side_and_reads_nothing(connection: socket.socket, rng: random.Random, is_over: threading.Event) -> None:
    connection.shutdown(socket.SHUT_WR)
    is_over.wait(READ_DEADLINE_S)


Behaviour = Callable[[socket.socket, random.Random, threading.Event], None]
BEHAVIOURS: tuple[Behaviour, ...] = (
    reads_nothing, reads_a_byte_now_and_then, reads_some_and_stops, sends_more_requests_and_reads_nothing,
    closes_its_side_and_reads_nothing,
)  # fmt: skip


class SlowReader:
    """A connection with a small receive buffer that behaves in one of these ways."""

    def __init__(self, broker: OdradekProcess, behaviour: Behaviour, seed: int, is_over: threading.Event) -> None:
        rng = random.Random(seed)
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._socket.connect((broker.host, broker.port))
        sizes = rng.choice([(64 << 20, PARTITION_BYTES), (1 << 20, 60_000), (64 << 20, 1 << 30)])
        self._socket.sendall(fetch_all(*sizes, rng.choice([0, 500, 30_000])))
        self._thread = threading.Thread(target=self._run, args=(behaviour, rng, is_over), daemon=True)
        self._thread.start()

    def _run(self, behaviour: Behaviour, rng: random.Random, is_over: threading.Event) -> None:
        with contextlib.suppress(OSError):
            behaviour(self._socket, rng, is_over)

    def close(self) -> None:
        with contextlib.suppress(OSError):  # the broker has dropped it
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._socket.close()


class Memory:
    """The resident memory of a process, looked at until `stop`."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.before = self.most = self.now()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def now(self) -> int:
        return int(self._process.memory_info().rss)

    def _look(self) -> None:
        while not self._is_over.wait(0.05):
            self.most = max(self.most, self.now())

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join(10)


def read_everything(broker: OdradekProcess, partition: int) -> None:
    """Reads a partition as a well-behaved consumer does."""
    found = tiered.consume(broker.bootstrap, RECORDS, partition=partition, deadline_s=READ_DEADLINE_S)
    assert not tiered.differences(found, tiered.values_of(RECORDS, size=VALUE_BYTES))


MIXES = {"none reads": BEHAVIOURS[:1], "all kinds": BEHAVIOURS}


@pytest.mark.parametrize("behaviours", MIXES.values(), ids=MIXES)
def test_slow_readers_hold_the_budget_at_most_and_others_read_on(
    broker: OdradekProcess, behaviours: tuple[Behaviour, ...]
) -> None:
    read_everything(broker, 0)
    memory, is_over = Memory(broker.pid), threading.Event()
    readers = [
        SlowReader(broker, behaviours[number % len(behaviours)], number, is_over) for number in range(CONNECTIONS)
    ]
    try:
        read_everything(broker, 1)
    finally:
        is_over.set()
        for one in readers:
            one.close()
        memory.stop()
    assert memory.most - memory.before < MOST_GROWTH_BYTES
    eventually(
        lambda: memory.now() - memory.before < MOST_KEPT_BYTES,
        what=f"the memory of {(memory.most - memory.before) >> 20} MB is given back",
        deadline_s=RETURN_S,
    )
    read_everything(broker, 2)
    text = broker.log_file.read_text()
    assert not [line for line in BUG_LINES if line in text], text[-5000:]
