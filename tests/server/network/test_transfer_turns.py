"""Turns of the loop: the bytes that connections share in one, and the connections that it accepts."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import odradek
import pytest
from odradek.server.network import file_sender
from odradek.server.network.acceptor import ACCEPTS_PER_TURN, MOST_ACCEPTS_PER_TURN, PAUSE_S, Acceptor
from odradek.server.network.connection import Connection
from odradek.server.network.copied_sender import CopiedSender
from odradek.server.network.file_sender import FileSender
from odradek.server.network.frame_buffer import READ_BUFFER_BYTES
from odradek.server.network.transfer_turns import BYTES_PER_TURN, CALL_BYTES, LEAST_BYTES, TransferTurns
from odradek.storage.segments.slices import LogSlice

from tests.server.harness.data_path import DataPath, batch_of

CONNECTIONS = 6
RECORD_BYTES = 10 << 20


class LoopTurns:
    """Counts the turns of a broker's loop, and the bytes that were moved in each."""

    def __init__(self, path: DataPath) -> None:
        assert path.broker._run is not None
        self.number = 0
        self.bytes: Counter[int] = Counter()
        self._loop = path.broker._run.loop
        self._is_over = False
        self._loop.call_soon_threadsafe(self._next)

    def _next(self) -> None:
        self.number += 1
        if not self._is_over:
            self._loop.call_soon(self._next)

    def moved(self, count: int) -> None:
        self.bytes[self.number] += count

    def end(self) -> None:
        self._is_over = True


@pytest.fixture
def turns(path: DataPath) -> Iterator[LoopTurns]:
    counted = LoopTurns(path)
    yield counted
    counted.end()


def together(path: DataPath, work: Callable[[DataPath, int], None]) -> None:
    """Runs `work` with a client of its own on each of several threads."""
    failures: list[BaseException] = []

    def run(number: int) -> None:
        client = path.another_client()
        try:
            work(client, number)
        except BaseException as failure:
            failures.append(failure)
        finally:
            client.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures, failures


def test_connections_that_receive_large_records_share_bytes_of_turn(
    path: DataPath, turns: LoopTurns, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = [path.topic(max_message_bytes=str(2 * RECORD_BYTES)) for _ in range(CONNECTIONS)]
    taken: Counter[int] = Counter()
    received, take = Connection.buffer_updated, Connection._take_whole

    def buffer_updated(connection: Connection, nbytes: int) -> None:
        turns.moved(nbytes)
        received(connection, nbytes)

    def take_whole(connection: Connection, end: int) -> None:
        taken[turns.number] += end >= RECORD_BYTES
        take(connection, end)

    monkeypatch.setattr(Connection, "buffer_updated", buffer_updated)
    monkeypatch.setattr(Connection, "_take_whole", take_whole)
    batch = batch_of(os.urandom(RECORD_BYTES))

    def produce(client: DataPath, number: int) -> None:
        for _ in range(2):
            response = client.produce(topics[number], bytearray(batch))
            assert not response.error_code, response

    together(path, produce)
    assert sum(turns.bytes.values()) > 2 * CONNECTIONS * RECORD_BYTES
    # Each connection may have had its event of this turn already when the bytes were used up.
    assert max(turns.bytes.values()) <= BYTES_PER_TURN + CONNECTIONS * READ_BUFFER_BYTES
    assert sum(taken.values()) == 2 * CONNECTIONS
    assert max(taken.values()) == 1, "records of two connections in one turn"


def test_consumers_that_catch_up_share_bytes_of_turn(
    path: DataPath, turns: LoopTurns, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = path.topic()
    batch = batch_of(os.urandom(900_000))
    for _ in range(20):
        assert not path.produce(topic, bytearray(batch)).error_code
    sendfile = os.sendfile

    def counted(*args: int) -> int:
        sent = sendfile(*args)
        turns.moved(sent)
        return sent

    monkeypatch.setattr(file_sender.os, "sendfile", counted)

    def fetch(client: DataPath, number: int) -> None:
        for _ in range(2):
            data = client.fetch(topic, max_bytes=1 << 30)
            assert len(data.records or b"") == 20 * len(batch)

    together(path, fetch)
    assert sum(turns.bytes.values()) >= 2 * CONNECTIONS * 20 * len(batch)
    # The rest of a response that is nearly sent goes out, too.
    assert max(turns.bytes.values()) <= BYTES_PER_TURN + 2 * LEAST_BYTES


@pytest.mark.usefixtures("sockets")
@pytest.mark.parametrize(
    ("more", "is_sent"), [(-CALL_BYTES, True), (0, True), (LEAST_BYTES // 2, True), (2 * LEAST_BYTES, False)]
)
def test_fetch_of_about_the_bytes_of_one_turn_needs_no_other_turn(
    more: int, is_sent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka asks for 1 MiB of a partition, to which the response adds some bytes before and behind."""
    monkeypatch.setattr(file_sender, "DESCRIPTORS", SimpleNamespace(return_extra=lambda: None))
    monkeypatch.setattr(os, "sendfile", lambda fd, file, position, count: count)  # a socket that takes everything

    async def run() -> bool:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            sender = FileSender(
                ours.fileno(), asyncio.get_running_loop(), TransferTurns(), lambda: None, lambda error: None
            )
            file: Any = SimpleNamespace(fd=-1)
            sender.send([bytes(80), LogSlice(file, 0, BYTES_PER_TURN + more, 0, 1, 0), bytes(3)])
            is_busy = sender.is_busy
            sender.close()
        return not is_busy

    assert asyncio.run(run()) == is_sent


def test_transfers_get_turns_in_their_order() -> None:
    async def run() -> list[str]:
        turns, order = TransferTurns(), []

        def mover(name: str, left: int) -> None:
            order.append(name)
            turns.spend(BYTES_PER_TURN)
            if left:
                turns.wait(lambda: mover(name, left - 1))

        for name in ("a", "b", "c"):
            turns.wait(lambda name=name: mover(name, 2))  # type: ignore[misc]
        for _ in range(20):
            await asyncio.sleep(0)
        return order

    assert asyncio.run(run()) == ["a", "b", "c"] * 3


@pytest.mark.usefixtures("sockets")
@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "TLS"])
def test_thousands_of_short_pieces_share_turns(
    is_encrypted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Fetch of thousands of partitions has a piece of a file for each: system calls count, not only their bytes."""
    pieces, size = 3000, 50
    file = tmp_path / "log"
    file.write_bytes(os.urandom(pieces * size))
    calls: Counter[int] = Counter()
    turn = 0

    async def run() -> bytes:
        nonlocal turn
        loop, turns = asyncio.get_running_loop(), TransferTurns()
        with socket.create_server(("127.0.0.1", 0)) as listening:
            ours, theirs = socket.create_connection(listening.getsockname()), listening.accept()[0]
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
        ours.setblocking(False)
        theirs.setblocking(False)
        received = bytearray()
        with ours, theirs, file.open("rb") as opened:
            sender: FileSender | CopiedSender
            if is_encrypted:
                transport: Any = SimpleNamespace(write=received.extend)
                sender = CopiedSender(transport, turns, lambda: None, lambda error: None)
            else:
                budget = SimpleNamespace(return_extra=lambda: None)
                monkeypatch.setattr(file_sender, "DESCRIPTORS", budget)
                sender = FileSender(ours.fileno(), loop, turns, lambda: None, lambda error: None)
                loop.add_reader(theirs, lambda: received.extend(theirs.recv(1 << 20)))
            opened_file: Any = SimpleNamespace(fd=opened.fileno())
            sender.send([LogSlice(opened_file, at, size, 0, 1, 0) for at in range(0, pieces * size, size)])
            while len(received) < pieces * size:
                turn += 1
                await asyncio.sleep(0)
            loop.remove_reader(theirs)
            sender.close()
        return bytes(received)

    name, call = ("preadv", os.preadv) if is_encrypted else ("sendfile", os.sendfile)

    def counted(*args: Any) -> int:
        calls[turn] += 1
        return call(*args)

    monkeypatch.setattr(os, name, counted)
    assert asyncio.run(asyncio.wait_for(run(), 60)) == file.read_bytes()
    assert sum(calls.values()) >= pieces and max(calls.values()) <= 2 * BYTES_PER_TURN // CALL_BYTES


def test_idle_loop_schedules_nothing() -> None:
    async def run() -> None:
        turns = TransferTurns()
        turns.spend(1)
        assert turns.left < BYTES_PER_TURN and turns._is_scheduled
        for _ in range(3):
            await asyncio.sleep(0)
        assert turns.left == BYTES_PER_TURN and not turns._is_scheduled

    asyncio.run(run())


def test_slow_consumer_and_others_get_all_bytes(broker: odradek.Broker, path: DataPath) -> None:
    topic = path.topic()
    batch = batch_of(os.urandom(700_000))
    for _ in range(12):
        assert not path.produce(topic, bytearray(batch)).error_code

    def fetch(client: DataPath, number: int) -> None:
        for _ in range(3):
            data = client.fetch(topic, max_bytes=(number + 1) * 2_000_000)
            count = max(1, (number + 1) * 2_000_000 // len(batch))
            assert len(data.records or b"") == min(count, 12) * len(batch)

    together(path, fetch)


# ---- accepting


@pytest.mark.usefixtures("sockets")
def test_turns_that_get_longer_accept_more_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        now = 0.0

        def time(self) -> float:
            return self.now

    async def run() -> list[int]:
        accepted: list[int] = []
        listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
        listening.setblocking(False)
        acceptor = Acceptor(listening, lambda *_: accepted.append(1), lambda _: None, lambda _: None)
        clock = Clock()
        monkeypatch.setattr(acceptor, "_loop", clock)
        clients = [socket.create_connection(listening.getsockname()) for _ in range(400)]
        counts = []
        for turn_s in (0.0, 0.001, 0.020, 0.090, PAUSE_S * 2, 0.001):
            clock.now += turn_s
            before = len(accepted)
            acceptor._accept()
            counts.append(len(accepted) - before)
        for client in (*clients, listening):
            client.close()
        return counts

    counts = asyncio.run(run())
    assert counts[:2] == [ACCEPTS_PER_TURN] * 2
    assert ACCEPTS_PER_TURN < counts[2] < counts[3] == MOST_ACCEPTS_PER_TURN
    assert counts[4:] == [ACCEPTS_PER_TURN] * 2, "after a pause, or with short turns, a turn accepts few"
