"""Turns of the loop that have no time for all requests: they wait by client, and clients take turns."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import odradek
import pytest
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.server.network import request_turns
from odradek.server.network.connection import Connection
from odradek.server.network.frame_buffer import READ_BUFFER_BYTES
from odradek.server.network.request_turns import RequestTurns

from compat_tests.wire import WireClient, request_frame
from tests.server.harness.data_path import DataPath, batch_of, wait_until

MANY = 40
REQUESTS_EACH = 3


class Waiting:
    def __init__(self, name: str, handled: list[str], *, fails: bool = False) -> None:
        self.name, self.fails, self.is_aborted = name, fails, False
        self._handled = handled

    def handle_waiting(self) -> None:
        self._handled.append(self.name)
        if self.fails:
            raise RuntimeError(self.name)

    def abort(self) -> None:
        self.is_aborted = True


class Clock:
    """Goes on by a fixed time with each reading."""

    def __init__(self, step_s: float) -> None:
        self._step_s, self._now_s = step_s, 0.0

    def __call__(self) -> float:
        self._now_s += self._step_s
        return self._now_s


async def next_turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_turn_is_full_when_its_requests_took_longer_than_its_time() -> None:
    turns = RequestTurns(Clock(0.0))
    turns.check()
    assert not turns.is_full, "the time may be that of several turns"
    await next_turns(2)
    turns.check()
    assert not turns.is_full, "another turn has begun since"
    turns.check()
    assert turns.is_full
    await next_turns(2)
    assert not turns.is_full, "nothing waits"


async def test_clients_take_turns_and_each_turn_of_the_loop_handles_requests_for_its_time() -> None:
    turns, handled = RequestTurns(Clock(request_turns.REQUESTS_PER_TURN_S / 2)), list[str]()
    turns.check()
    turns.check()
    for client, name in (("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("b", "b2"), ("c", "c1")):
        turns.wait(client, Waiting(name, handled))
    await next_turns(1)
    assert handled == ["a1", "b1"] and turns.is_full
    await next_turns(1)
    assert handled[2:] == ["c1", "a2"] and turns.is_full
    await next_turns(1)
    assert handled[4:] == ["b2", "a3"] and not turns.is_full
    await next_turns(3)
    assert len(handled) == 6


def test_requests_wait_for_a_time_after_several_clients_met() -> None:
    now_s = 100.0
    turns = RequestTurns(lambda: now_s)
    assert not turns.are_several("a") and not turns.are_several("a"), "it is alone"
    assert turns.are_several("b") and turns.are_several("b") and turns.are_several("a")
    now_s += request_turns.SEVERAL_CLIENTS_S
    assert not turns.are_several("a"), "the other one was not seen since"
    assert turns.are_several("b")


async def test_connection_that_fails_ends_and_the_others_are_handled() -> None:
    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    turns, handled = RequestTurns(Clock(0.0)), list[str]()
    turns.check()
    turns.check()
    first, second = Waiting("first", handled, fails=True), Waiting("second", handled)
    turns.wait("a", first)
    turns.wait("a", second)
    await next_turns(3)
    assert handled == ["first", "second"] and not turns.is_full
    assert first.is_aborted and not second.is_aborted and len(failures) == 1


@contextmanager
def held_loop(broker: odradek.Broker) -> Iterator[None]:
    """Holds the loop of the broker, so that requests come together."""
    held, released = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        released.wait(60)

    assert broker._run is not None
    broker._run.loop.call_soon_threadsafe(hold)
    assert held.wait(60)
    try:
        yield
    finally:
        released.set()


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """No turn has time for more than a few requests, and other clients were there before."""
    monkeypatch.setattr(request_turns, "REQUESTS_PER_TURN_S", 0.0)
    monkeypatch.setattr(RequestTurns, "are_several", lambda turns, client: True)


@pytest.fixture
def taken(broker: odradek.Broker, monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The client ids of the requests that are handled, in their order."""
    found: list[str | None] = []
    take = Connection._take

    def noted(connection: Connection, buffer: Any, end: int) -> None:
        found.append(connection.client_id)
        take(connection, buffer, end)

    monkeypatch.setattr(Connection, "_take", noted)
    return found


def clients_of(broker: odradek.Broker, client_id: str, count: int) -> list[WireClient]:
    found = [WireClient(broker.bootstrap_servers, client_id=client_id) for _ in range(count)]
    for client in found:
        client.call(ApiVersionsRequest(), 0)
    return found


@pytest.mark.usefixtures("sockets", "short_turns")
def test_request_that_comes_behind_those_of_another_client_is_handled_with_the_first(
    broker: odradek.Broker, taken: list[str | None]
) -> None:
    many, (single,) = clients_of(broker, "many", MANY), clients_of(broker, "single", 1)
    taken.clear()
    with held_loop(broker):
        sent = [(client, client.send(ApiVersionsRequest(), 0)) for client in (*many, single)]
    for client, number in sent:
        assert client.receive(ApiVersionsRequest(), 0, number).error_code == 0
        client.close()
    assert taken.count("many") == MANY and taken.count("single") == 1
    assert taken.index("single") < MANY / 4


@pytest.mark.usefixtures("sockets", "short_turns")
def test_each_connection_gets_its_responses_in_order_while_requests_wait(
    broker: odradek.Broker, path: DataPath
) -> None:
    topic = path.topic()
    clients = clients_of(broker, "many", MANY)
    request = MetadataRequest(topics=[])
    frames = [request_frame(request, 12, number, "many") for number in range(1000, 1000 + REQUESTS_EACH)]
    together = b"".join(frames)
    with held_loop(broker):
        for client in clients:
            client.send_bytes(together[:-10])
    for client in clients:
        client.send_bytes(together[-10:])
    large = batch_of(bytes(2 * READ_BUFFER_BYTES))
    assert not path.produce(topic, large).error_code
    for client in clients:
        for number in range(1000, 1000 + REQUESTS_EACH):
            assert client.receive(request, 12, number).cluster_id
        client.close()


@pytest.mark.usefixtures("sockets", "short_turns")
def test_connection_that_ends_while_its_request_waits_leaves_nothing_behind(
    broker: odradek.Broker, path: DataPath
) -> None:
    clients = clients_of(broker, "many", MANY)
    listener = broker.server.network.listeners[0]
    before = len(listener.connections)
    with held_loop(broker):
        for client in clients:
            client.send(MetadataRequest(topics=[]), 12)
            client.close()
    wait_until(lambda: len(listener.connections) == before - MANY)
    wait_until(lambda: not listener.shared.receiving.taken)
    assert not path.client.call(ApiVersionsRequest(), 0).error_code


@pytest.mark.usefixtures("sockets", "short_turns")
def test_requests_of_clients_that_close_at_once_are_handled(broker: odradek.Broker, path: DataPath) -> None:
    topic = path.topic()
    clients = clients_of(broker, "many", MANY)
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch_of(b"x"))])
    request = ProduceRequest(acks=0, timeout_ms=1000, topic_data=[data])
    with held_loop(broker):
        for number, client in enumerate(clients):
            client.send_bytes(request_frame(request, 9, number, "many"))
            client.close()
    wait_until(lambda: path.hosted(topic).log.log_end_offset == MANY)
