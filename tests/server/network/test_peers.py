"""Requests to other nodes, over real sockets: to a broker, and to faulty peers."""

from __future__ import annotations

import asyncio
import select
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import odradek
import pytest
from odradek.client import peers as peers_module
from odradek.client.connection import BUFFER_BYTES, SMALL_RESPONSES, PeerConnection
from odradek.client.peers import Peers
from odradek.protocol.codec import encode
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.vote import VoteRequest
from odradek.protocol.schema import Message
from odradek.server.config.endpoint import Endpoint
from odradek.server.controller.stopped_brokers import StoppedBrokers
from odradek.server.runtime.lazy import Lazy
from odradek.server.runtime.metadata_cache import MetadataCache

from compat_tests.broker_process import free_port

pytestmark = pytest.mark.usefixtures("sockets")

DEADLINE_S = 60
TIMEOUT_MS = 50_000


@pytest.fixture
async def peers() -> AsyncIterator[Peers]:
    made = Peers("odradek-7")
    yield made
    made.close()


def ask(peers: Peers, endpoint: Endpoint, request: Message, **how: Any) -> asyncio.Future[Any]:
    answered = asyncio.get_running_loop().create_future()
    peers.send(endpoint, request, answered.set_result, **{"timeout_ms": TIMEOUT_MS, **how})
    assert not answered.done(), "a reply is never given from within send"
    return answered


async def respond(future: asyncio.Future[Any]) -> Any:
    return await asyncio.wait_for(future, DEADLINE_S)


def endpoint_of(broker: odradek.Broker) -> Endpoint:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    return Endpoint("", host, int(port))


class Odd:
    """A peer that handles its connections with a function of the test."""

    def __init__(self, serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> None:
        self._serve = serve
        self.connections = 0
        self.writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Odd:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.endpoint = Endpoint("", "127.0.0.1", self._server.sockets[0].getsockname()[1])
        return self

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            await self._serve(reader, writer)
        except asyncio.IncompleteReadError:
            writer.close()

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self.writers:
            writer.close()


async def frame_of(reader: asyncio.StreamReader) -> tuple[int, int, int]:
    """Returns (key, version, correlation id) of the next request."""
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    key, version, correlation_id = struct.unpack_from(">hhi", await reader.readexactly(size))
    return key, version, correlation_id


def framed(correlation_id: int, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


def versions_of(*keys: int, high: int = 9) -> ApiVersionsResponse:
    return ApiVersionsResponse(api_keys=[ApiVersion(api_key=key, min_version=0, max_version=high) for key in keys])


async def tell_versions(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *keys: int) -> None:
    _, version, correlation_id = await frame_of(reader)
    writer.write(framed(correlation_id, encode(versions_of(*keys), version)))


async def test_many_requests_go_through_one_connection_and_each_gets_its_response(peers: Peers) -> None:
    async with odradek.Broker() as broker:
        asked = [ask(peers, endpoint_of(broker), MetadataRequest(topics=[])) for _ in range(100)]
        responses = [await respond(one) for one in asked]
        assert all(isinstance(one, MetadataResponse) and one.brokers for one in responses)
        assert len(broker.server.network.listeners[0].connections) == 1


async def test_each_purpose_has_a_connection_of_its_own(peers: Peers) -> None:
    async with odradek.Broker() as broker:
        for purpose in ("", "fetch"):
            assert await respond(ask(peers, endpoint_of(broker), MetadataRequest(topics=[]), purpose=purpose))
        assert len(broker.server.network.listeners[0].connections) == 2


async def test_a_response_larger_than_any_buffer_comes_whole(peers: Peers) -> None:
    keys = [number % 30_000 for number in range(100_000)]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await tell_versions(reader, writer, 18)
        _, version, correlation_id = await frame_of(reader)
        whole = framed(correlation_id, encode(versions_of(*keys), version))
        for start in range(0, len(whole), 70_001):
            writer.write(whole[start : start + 70_001])
            await writer.drain()
        _, version, correlation_id = await frame_of(reader)
        writer.write(framed(correlation_id, encode(versions_of(3), version)))

    async with Odd(serve) as odd:
        large, small = (ask(peers, odd.endpoint, ApiVersionsRequest(), version=3) for _ in range(2))
        assert [key.api_key for key in (await respond(large)).api_keys] == keys
        assert [key.api_key for key in (await respond(small)).api_keys] == [3]


async def test_buffer_of_large_response_is_released_after_small_ones() -> None:
    ended: list[str] = []
    connection = PeerConnection("buffers", lambda: None, lambda _connection, _by_us: ended.append("lost"))
    connection._answered = lambda start, end: None  # type: ignore[method-assign]

    def receive(size: int) -> int:
        """Returns the size of the buffer after a response of `size` bytes."""
        frame = memoryview(size.to_bytes(4, "big") + bytes(size))
        while frame:
            buffer = connection.get_buffer(-1)
            count = min(len(buffer), len(frame))
            buffer[:count], frame = frame[:count], frame[count:]
            connection.buffer_updated(count)
        return len(connection._buffer)

    assert receive(100) == BUFFER_BYTES
    assert receive(1_000_000) >= 1_000_000, "the next one may be as large"
    after = [receive(100) for _ in range(SMALL_RESPONSES)]
    assert after[-2] >= 1_000_000 and after[-1] == BUFFER_BYTES
    assert not ended


async def test_the_highest_common_version_is_used(peers: Peers) -> None:
    seen: list[tuple[int, int]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await tell_versions(reader, writer, 3)
        key, version, correlation_id = await frame_of(reader)
        seen.append((key, version))
        writer.write(framed(correlation_id, b"\0" + encode(MetadataResponse(cluster_id="there"), version)))

    async with Odd(serve) as odd:
        assert (await respond(ask(peers, odd.endpoint, MetadataRequest(topics=[])))).cluster_id == "there"
    assert seen == [(3, 9)]


async def test_a_peer_that_has_only_the_first_api_versions_is_understood(peers: Peers) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, _, correlation_id = await frame_of(reader)
        rejected = ApiVersionsResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION))
        writer.write(framed(correlation_id, encode(rejected, 0)))
        await tell_versions(reader, writer, 18)
        await tell_versions(reader, writer, 5)

    async with Odd(serve) as odd:
        assert (await respond(ask(peers, odd.endpoint, ApiVersionsRequest(), version=0))).api_keys[0].api_key == 5


async def test_unserved_api_returns_none(peers: Peers) -> None:
    async with odradek.Broker() as broker:
        assert await respond(ask(peers, endpoint_of(broker), VoteRequest())) is None
        assert await respond(ask(peers, endpoint_of(broker), MetadataRequest(topics=[]))) is not None


async def test_absent_peer_returns_none_and_is_found_once_started(peers: Peers) -> None:
    endpoint = Endpoint("", "127.0.0.1", free_port())
    assert await respond(ask(peers, endpoint, MetadataRequest(topics=[]))) is None
    async with odradek.Broker(port=endpoint.port):
        while await respond(ask(peers, endpoint, MetadataRequest(topics=[]))) is None:
            pass


async def test_connection_closed_by_peer_is_reported_and_reopened(peers: Peers) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await tell_versions(reader, writer, 18)
        await tell_versions(reader, writer, 18)
        await frame_of(reader)
        writer.close()

    lost = asyncio.Event()
    async with Odd(serve) as odd:
        peers.on_lost(odd.endpoint, lost.set)
        assert await respond(ask(peers, odd.endpoint, ApiVersionsRequest(), version=3)) is not None
        assert not lost.is_set()
        assert await respond(ask(peers, odd.endpoint, ApiVersionsRequest(), version=3)) is None
        await asyncio.wait_for(lost.wait(), DEADLINE_S)
        assert await respond(ask(peers, odd.endpoint, ApiVersionsRequest(), version=3)) is not None
        assert odd.connections == 2


async def test_silent_peer_times_out_and_is_not_reported_as_lost(peers: Peers) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await tell_versions(reader, writer, 18)
        await reader.read()

    lost: list[bool] = []
    async with Odd(serve) as odd:
        peers.on_lost(odd.endpoint, lambda: lost.append(True))
        short = ask(peers, odd.endpoint, ApiVersionsRequest(), version=3, timeout_ms=100)
        behind = ask(peers, odd.endpoint, ApiVersionsRequest(), version=3)
        assert await respond(short) is None
        assert await respond(behind) is None, "responses come in order"
        again = ask(peers, odd.endpoint, ApiVersionsRequest(), version=3, timeout_ms=100)
        assert await respond(again) is None
    assert lost == []


async def test_a_peer_that_says_nothing_at_all_is_given_up(peers: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers_module, "SETUP_TIMEOUT_S", 0.1)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with Odd(serve) as odd:
        assert await respond(ask(peers, odd.endpoint, ApiVersionsRequest())) is None


@pytest.mark.parametrize("bad", [struct.pack(">ii", 4, 999), struct.pack(">i", 1), struct.pack(">i", -1), b"\xff" * 20])
async def test_a_response_that_cannot_be_one_ends_the_connection(peers: Peers, bad: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await tell_versions(reader, writer, 18)
        await frame_of(reader)
        writer.write(bad)
        await reader.read()

    async with Odd(serve) as odd:
        assert await respond(ask(peers, odd.endpoint, ApiVersionsRequest(), version=3)) is None


async def test_more_than_a_bounded_number_of_requests_is_not_kept(
    peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers_module, "MAX_UNANSWERED", 3)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with Odd(serve) as odd:
        asked = [ask(peers, odd.endpoint, ApiVersionsRequest()) for _ in range(4)]
        assert await respond(asked[3]) is None
        assert not any(one.done() for one in asked[:3])
        peers.close()
        assert [await respond(one) for one in asked] == [None] * 4
        assert await respond(ask(peers, odd.endpoint, ApiVersionsRequest())) is None


async def test_response_that_its_caller_cannot_handle_affects_no_other_request(peers: Peers) -> None:
    failed: list[Message | None] = []

    def fail(response: Message | None) -> None:
        failed.append(response)
        raise ValueError("an injected bug")

    async with odradek.Broker() as broker:
        peers.send(endpoint_of(broker), MetadataRequest(topics=[]), fail, timeout_ms=TIMEOUT_MS)
        response = await respond(ask(peers, endpoint_of(broker), MetadataRequest(topics=[])))
        assert response is not None
        # Both requests went over one connection, in order.
        assert failed == [response]


@pytest.mark.skipif(not hasattr(select, "POLLRDHUP"), reason="the system does not show ended connections")
async def test_metadata_waits_until_an_ended_connection_is_handled_and_else_not(peers: Peers) -> None:
    """A client's request may come before the loop has read the end of a connection to the leader."""
    sockets: list[socket.socket] = []
    events: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sockets.append(writer.get_extra_info("socket"))
        await tell_versions(reader, writer, 18)
        _, version, correlation_id = await frame_of(reader)
        writer.write(framed(correlation_id, encode(versions_of(3), version)))

    stopped_brokers = StoppedBrokers(MetadataCache(), Lazy(lambda: peers))
    stopped_brokers.start()
    async with Odd(serve) as odd:
        await respond(ask(peers, odd.endpoint, ApiVersionsRequest(), version=3))
        stopped_brokers.when_heard(lambda: events.append("answered at once"))
        peers.on_any_lost = lambda *_: events.append("ended")
        sockets[0].shutdown(socket.SHUT_WR)
        answered = asyncio.Event()
        stopped_brokers.when_heard(lambda: (events.append("answered"), answered.set()))
        await asyncio.wait_for(answered.wait(), DEADLINE_S)
    assert events == ["answered at once", "ended", "answered"]
