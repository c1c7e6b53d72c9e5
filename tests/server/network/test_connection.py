"""Connections: frames split in any way, responses in order, limits, and peers that break the protocol."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
import time
from dataclasses import replace
from typing import Any

import odradek
import pytest
from odradek.protocol.codec import decode
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.server.endpoints import api_versions
from odradek.server.network import connection as connections
from odradek.server.network.connection import Connection
from odradek.server.network.frame_buffer import READ_BUFFER_BYTES

from compat_tests.wire import ConnectionClosed, WireClient, request_frame
from tests.server.harness.data_path import DataPath, batch_of, fetch_request, wait_until

pytestmark = pytest.mark.usefixtures("sockets")


def raw(broker: odradek.Broker) -> socket.socket:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    made = socket.create_connection((host.strip("[]"), int(port)), timeout=60)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def served(broker: odradek.Broker, made: socket.socket) -> Connection:
    """Returns the broker's side of a connection."""
    port = made.getsockname()[1]

    def find() -> list[Connection]:
        opened = list(broker.server.network.listeners[0].connections)
        return [one for one in opened if one.remote_address.endswith(f":{port}")]

    wait_until(find)
    return find()[0]


def is_ended(made: socket.socket) -> bool:
    """Returns True once the broker has closed the connection; reads the remaining bytes first."""
    try:
        while made.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


# ---- order


def test_a_thousand_pipelined_requests_are_answered_in_their_order(path: DataPath) -> None:
    request = ApiVersionsRequest()
    path.client.send_bytes(b"".join(request_frame(request, 0, number, "c") for number in range(1000)))
    for number in range(1000):
        assert path.client.receive(request, 0, number).error_code == 0


def test_request_after_parked_fetch_is_answered_after_it(path: DataPath) -> None:
    topic = path.topic()
    fetch = fetch_request(topic, max_wait_ms=20_000)
    metadata = MetadataRequest(topics=[])
    first, second = path.client.send(fetch, 12), path.client.send(metadata, 12)
    hosted = path.hosted(topic)
    wait_until(lambda: hosted.watchers)
    path.another_client().produce(topic, batch_of(b"v"))
    assert path.client.receive(fetch, 12, first).responses[0].partitions[0].records
    assert path.client.receive(metadata, 12, second).cluster_id


def test_response_behind_an_unanswered_request_is_counted_until_the_peer_takes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parked: list[Any] = []
    monkeypatch.setattr(
        api_versions, "ENDPOINT", replace(api_versions.ENDPOINT, handle=lambda _, call: parked.append(call))
    )
    with odradek.Broker() as broker, WireClient(broker.bootstrap_servers) as client:
        connection = served(broker, client._socket)
        metadata = MetadataRequest(topics=[])
        first, second = client.send(ApiVersionsRequest(), 0), client.send(metadata, 12)
        wait_until(lambda: connection.stuck_bytes)
        stuck, before = connection.stuck_bytes, connection.taken_bytes
        assert connection.unsent_bytes == 0 and stuck == connection.calls[1].size
        broker._running().loop.call_soon_threadsafe(parked[0].reply, ApiVersionsResponse())
        assert client.receive(ApiVersionsRequest(), 0, first).error_code == 0
        assert client.receive(metadata, 12, second).cluster_id
        wait_until(lambda: connection.taken_bytes == before + parked[0].size + stuck)
        assert connection.stuck_bytes == connection.unsent_bytes == 0


def test_closed_connection_has_no_stuck_responses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_versions, "ENDPOINT", replace(api_versions.ENDPOINT, handle=lambda _, call: None))
    with odradek.Broker() as broker, WireClient(broker.bootstrap_servers) as client:
        connection = served(broker, client._socket)
        client.send(ApiVersionsRequest(), 0)
        client.send(MetadataRequest(topics=[]), 12)
        wait_until(lambda: connection.stuck_bytes)
        client.close()
        wait_until(lambda: connection.closed and not connection.stuck_bytes)


def test_a_frame_may_come_byte_by_byte(broker: odradek.Broker) -> None:
    with raw(broker) as made:
        for byte in request_frame(ApiVersionsRequest(), 0, 7, "slow"):
            made.sendall(bytes([byte]))
        (size,) = struct.unpack(">i", made.recv(4, socket.MSG_WAITALL))
        response = made.recv(size, socket.MSG_WAITALL)
        assert struct.unpack_from(">i", response) == (7,)


@pytest.mark.parametrize("size", [10, 20_000, 200_000, 900_000])
def test_frames_of_every_size_are_read_whole(path: DataPath, size: int) -> None:
    topic = path.topic()
    written = [path.produce(topic, batch_of(bytes(size))).base_offset for _ in range(3)]
    assert written == [0, 1, 2]
    assert path.hosted(topic).log.size == 3 * len(batch_of(bytes(size)))


def test_a_frame_beyond_the_read_buffer_may_have_others_around_it(path: DataPath) -> None:
    topic = path.topic()
    small, large = batch_of(b"s"), batch_of(bytes(READ_BUFFER_BYTES * 2))
    frames = [_produce_frame(topic, batch, number) for number, batch in enumerate([small, large, small, large, small])]
    path.client.send_bytes(b"".join(frames))
    for number in range(len(frames)):
        assert struct.unpack_from(">i", path.client.receive_frame()) == (number,)
    assert path.hosted(topic).log_end_offset == 5


def _produce_frame(topic: str, batch: Any, number: int) -> bytes:
    from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])]
    return request_frame(ProduceRequest(acks=1, timeout_ms=1000, topic_data=data), 9, number, "c")


# ---- peers that break the protocol


def closes_with(broker: odradek.Broker, caplog: pytest.LogCaptureFixture, data: bytes) -> str:
    """Sends bytes that must end the connection. Returns the only log line about it."""
    caplog.set_level(logging.WARNING, "odradek.connection")
    caplog.clear()
    with raw(broker) as made:
        address = "{}:{}".format(*made.getsockname())
        made.sendall(data)
        assert is_ended(made)
    lines = [record.getMessage() for record in caplog.records if address in record.getMessage()]
    assert len(lines) == 1, lines
    return lines[0]


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "socket.request.max.bytes"),
        (struct.pack(">i", 104_857_601), "socket.request.max.bytes is 104857600"),
        (struct.pack(">i", -1), "a frame of -1 bytes"),
        (framed(b""), "too short for a request header"),
        (framed(b"\0\x12\0"), "too short for a request header"),
        (framed(struct.pack(">hhih", 1000, 0, 1, -1)), "API key 1000"),
        (framed(struct.pack(">hhih", 0, 99, 1, -1)), "Produce request of version 99"),
        (framed(struct.pack(">hhih", 0, 2, 1, -1)), "Produce request of version 2"),
        (framed(struct.pack(">hhih", 22, 6, 1, -1) + bytes(40)), "InitProducerId request of version 6"),
        (framed(struct.pack(">hhih", 3, 12, 1, -1) + b"\0\xff\xff\xff\xff\x0f"), "malformed Metadata request"),
        (framed(struct.pack(">hhih", 3, 1, 1, 500) + b"abc"), "malformed Metadata request"),
        (framed(struct.pack(">hhih", 3, 1, 1, -7)), "malformed Metadata request"),
    ],
)
def test_a_peer_that_breaks_the_protocol_is_closed_with_one_line_that_names_it(
    broker: odradek.Broker, caplog: pytest.LogCaptureFixture, data: bytes, words: str
) -> None:
    assert words in closes_with(broker, caplog, data)


def test_requests_before_broken_frame_are_answered(broker: odradek.Broker) -> None:
    with raw(broker) as made:
        made.sendall(request_frame(ApiVersionsRequest(), 0, 1, "c") + framed(b"nonsense"))
        (size,) = struct.unpack(">i", made.recv(4, socket.MSG_WAITALL))
        assert struct.unpack_from(">i", made.recv(size, socket.MSG_WAITALL)) == (1,)
        assert is_ended(made)


def test_a_version_of_api_versions_that_is_not_known_is_answered_in_version_0(path: DataPath) -> None:
    path.client.send_bytes(framed(struct.pack(">hhihb", 18, 99, 5, -1, 0) + b"whatever it is"))
    frame = path.client.receive_frame()
    assert struct.unpack_from(">i", frame) == (5,)
    response, end = decode(ApiVersionsResponse, 0, frame, 4)
    assert end == len(frame)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(one.api_key, one.min_version, one.max_version) for one in response.api_keys] == [(18, 0, 5)]


def test_an_announced_frame_costs_only_what_has_come_of_it(broker: odradek.Broker) -> None:
    with raw(broker) as made:
        made.sendall(struct.pack(">i", 100_000_000) + b"x" * 10)
        connection = served(broker, made)
        wait_until(lambda: connection._filled == 14)
        assert connection._buffer is not None
        assert len(connection._buffer) <= connections.FIRST_FRAME_BUFFER_BYTES
        made.sendall(b"x" * 500_000)
        wait_until(lambda: connection._filled == 500_014)
        assert len(connection._buffer) <= 4 * 500_014


def test_a_peer_that_goes_in_the_middle_of_a_frame_leaves_nothing_behind(broker: odradek.Broker) -> None:
    made = raw(broker)
    made.sendall(struct.pack(">i", 1000) + b"half a frame")
    connection = served(broker, made)
    made.close()
    wait_until(lambda: connection not in broker.server.network.listeners[0].connections)
    assert connection._buffer is None


def test_a_peer_that_goes_while_its_fetch_waits_leaves_nothing_behind(path: DataPath, broker: odradek.Broker) -> None:
    topic = path.topic()
    hosted = path.hosted(topic)
    with raw(broker) as made:
        made.sendall(request_frame(fetch_request(topic, max_wait_ms=3000), 12, 1, "c"))
        wait_until(lambda: hosted.watchers)
    wait_until(lambda: not hosted.watchers)
    assert path.produce(topic, batch_of(b"v")).error_code == 0


def test_a_handler_that_fails_says_unknown_server_error(
    path: DataPath, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(api_versions, "_add_features", fail)
    assert path.client.call(ApiVersionsRequest("c", "1"), 3).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "ZeroDivisionError: on purpose" in caplog.text
    monkeypatch.undo()
    assert path.client.call(ApiVersionsRequest("c", "1"), 3).error_code == 0


# ---- limits


def test_a_peer_that_never_reads_costs_a_bounded_buffer(path: DataPath, broker: odradek.Broker) -> None:
    topic = path.topic()
    for _ in range(8):
        path.produce(topic, batch_of(bytes(900_000)))
    with raw(broker) as made:
        fetch = request_frame(fetch_request(topic, max_bytes=10_000_000), 12, 1, "c")
        made.setblocking(False)
        connection, frames, sent, quiet_looks = served(broker, made), memoryview(fetch * 100), 0, 0

        def is_full() -> bool:
            """Returns True once, for 20 calls, the broker has stopped reading and the socket accepts no bytes."""
            nonlocal sent, quiet_looks
            quiet_looks = 0 if connection._reading else quiet_looks + 1
            with contextlib.suppress(BlockingIOError):
                while True:
                    sent = (sent + made.send(frames[sent:])) % len(frames)
                    quiet_looks = 0
            return quiet_looks >= 20

        wait_until(is_full)
        held = (
            connection._transport.get_write_buffer_size()
            + connection._out_bytes
            + connection._stuck_bytes
            + len(connection._buffer or b"")
        )
        assert held <= 2 * connections.WRITE_HIGH_WATER_BYTES
        assert len(connection.calls) <= connections.MAX_UNANSWERED_CALLS
        assert not connection._reading
        assert path.produce(topic, batch_of(b"others are served")).error_code == 0


def test_a_peer_that_reads_late_gets_every_response(path: DataPath, broker: odradek.Broker) -> None:
    topic = path.topic()
    for number in range(4):
        path.produce(topic, batch_of(bytes([number]) * 700_000))
    with WireClient(broker.bootstrap_servers) as client:
        fetch = fetch_request(topic, max_bytes=10_000_000)
        for number in range(30):
            client.send_bytes(request_frame(fetch, 12, number, "c"))
        stopped: list[Connection] = []
        wait_until(
            lambda: (
                stopped.extend(c for c in tuple(broker.server.network.listeners[0].connections) if not c._reading)
                or stopped
            )
        )
        connection = stopped[0]
        for number in range(30):
            data = client.receive(fetch, 12, number).responses[0].partitions[0]
            assert len(data.records) == 4 * len(batch_of(bytes(700_000)))
        wait_until(lambda: connection._reading)


def test_a_call_that_holds_its_connection_and_is_answered_at_once_lets_it_go(monkeypatch: pytest.MonkeyPatch) -> None:
    def hold_and_respond(_: Any, call: Any) -> None:
        call.hold_connection()
        call.reply(ApiVersionsResponse())

    monkeypatch.setattr(api_versions, "ENDPOINT", replace(api_versions.ENDPOINT, handle=hold_and_respond))
    with odradek.Broker() as broker, WireClient(broker.bootstrap_servers, timeout=60) as client:
        for _ in range(3):
            assert client.call(ApiVersionsRequest(), 0).error_code == 0


def test_a_connection_held_for_two_reasons_reads_again_when_both_are_released(monkeypatch: pytest.MonkeyPatch) -> None:
    reading: list[bool] = []

    def hold_and_respond(_: Any, call: Any) -> ApiVersionsResponse:
        connection, loop = call.connection, asyncio.get_running_loop()

        def release(reason: str, *after: str) -> None:
            connection.release(reason)
            reading.append(connection._reading)
            if after:
                loop.call_soon(release, *after)

        connection.hold("one")
        connection.hold("two")
        connection.hold("one")
        call.hold_connection()
        loop.call_soon(release, "one", "none", "two")
        return ApiVersionsResponse()

    monkeypatch.setattr(api_versions, "ENDPOINT", replace(api_versions.ENDPOINT, handle=hold_and_respond))
    with odradek.Broker() as broker, WireClient(broker.bootstrap_servers, timeout=60) as client:
        assert client.call(ApiVersionsRequest(), 0).error_code == 0
        assert client.call(ApiVersionsRequest(), 0).error_code == 0
        wait_until(lambda: len(reading) == 6)
    assert reading == [False, False, True] * 2


def test_a_throttled_response_is_sent_at_once_and_mutes_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """KIP-219."""
    throttle_ms = 300

    def throttled(_: Any, call: Any) -> ApiVersionsResponse:
        call.throttle_time_ms = throttle_ms
        return ApiVersionsResponse()

    monkeypatch.setattr(api_versions, "ENDPOINT", replace(api_versions.ENDPOINT, handle=throttled))
    with odradek.Broker() as broker, WireClient(broker.bootstrap_servers, timeout=60) as client:
        began_s = time.monotonic()
        first, second = (client.send(ApiVersionsRequest(), 1) for _ in range(2))
        assert client.receive(ApiVersionsRequest(), 1, first).throttle_time_ms == throttle_ms
        (connection,) = broker.server.network.listeners[0].connections
        assert not connection.calls, "the first response does not wait"
        assert client.receive(ApiVersionsRequest(), 1, second).throttle_time_ms == throttle_ms
        assert time.monotonic() - began_s >= throttle_ms / 1000


def test_requests_beyond_the_limit_of_unanswered_ones_wait_their_turn(
    path: DataPath, broker: odradek.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_UNANSWERED_CALLS", 3)
    request = ApiVersionsRequest()
    path.client.send_bytes(b"".join(request_frame(request, 0, number, "c") for number in range(50)))
    for number in range(50):
        assert path.client.receive(request, 0, number).error_code == 0


def test_an_idle_connection_is_closed_and_one_that_waits_for_us_is_not() -> None:
    with odradek.Broker(config={"connections.max.idle.ms": 1000}) as broker:
        path = DataPath(broker)
        topic = path.topic()
        fetch = fetch_request(topic, max_wait_ms=2500)
        number = path.client.send(fetch, 12)
        with raw(broker) as idle:
            assert is_ended(idle)
        assert not path.client.receive(fetch, 12, number).responses[0].partitions[0].records
        with pytest.raises(ConnectionClosed):
            path.client.receive_frame()


def test_listeners_may_be_several_and_of_both_kinds_of_addresses() -> None:
    listeners = "PLAINTEXT://127.0.0.1:0,SIX://[::1]:0,ANY://:0"
    protocols = "PLAINTEXT:PLAINTEXT,SIX:PLAINTEXT,ANY:PLAINTEXT"
    config = {
        "listeners": listeners,
        "listener.security.protocol.map": protocols,
        "advertised.listeners": "PLAINTEXT://127.0.0.1:0,SIX://[::1]:0,ANY://localhost:0",
    }
    with odradek.Broker(config=config) as broker:
        addresses = broker.bootstrap_servers.split(",")
        assert len(addresses) == 3
        for address in addresses:
            with WireClient(address) as client:
                (node,) = client.call(MetadataRequest(topics=[]), 12).brokers
                named = f"[{node.host}]:{node.port}" if ":" in node.host else f"{node.host}:{node.port}"
                assert named == address, "each listener's clients are sent to that listener"
        hosts = {c.client_host for listener in broker.server.network.listeners for c in listener.connections}
        assert hosts <= {"/127.0.0.1", "/0:0:0:0:0:0:0:1"}


def test_a_port_that_is_taken_is_named() -> None:
    with odradek.Broker() as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        with (
            pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}: it is in use"),
            odradek.Broker(port=port),
        ):
            pass
