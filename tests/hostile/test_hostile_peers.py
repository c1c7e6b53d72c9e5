"""Nodes that return arbitrary responses: a change of voters makes the leader connect to any address in the request."""

from __future__ import annotations

import logging
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import odradek
import pytest
from odradek.protocol.codec import encode
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.add_raft_voter import AddRaftVoterRequest
from odradek.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse, SupportedFeatureKey
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.protocol.messages.voter_listeners import VoterListener

from compat_tests.wire import WireClient

pytestmark = pytest.mark.usefixtures("sockets")

DEADLINE_S = 60
TIMEOUT_MS = 200
_LENGTH = struct.Struct(">i")
_NUMBERS = count()


@pytest.fixture(scope="module")
def broker() -> Iterator[odradek.Broker]:
    listeners = "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
    config = {"listeners": listeners, "controller.listener.names": "CONTROLLER"}
    with odradek.Broker(config=config) as made:
        update = FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=1)
        with WireClient(made.bootstrap_servers, timeout=DEADLINE_S) as client:
            response = client.call(UpdateFeaturesRequest(feature_updates=[update], timeout_ms=10_000), 2)
        assert response.error_code == ErrorCode.NONE, response
        yield made


def add_voter(broker: odradek.Broker, voter_id: int, host: str, port: int) -> int:
    request = AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=TIMEOUT_MS,
        voter_id=voter_id,
        voter_directory_id=bytes(14) + voter_id.to_bytes(2, "big"),
        listeners=[VoterListener("CONTROLLER", host, port)],
    )
    with WireClient(broker.bootstrap_servers, timeout=DEADLINE_S) as client:
        code: int = client.call(request, 0).error_code
        return code


def check_serves(broker: odradek.Broker) -> None:
    name = f"served-{next(_NUMBERS)}"
    with WireClient(broker.bootstrap_servers, timeout=DEADLINE_S) as client:
        response = client.call(CreateTopicsRequest([CreatableTopic(name, 1, 1)], timeout_ms=10_000), 7)
    assert response.topics[0].error_code == ErrorCode.NONE, response
    assert not broker.server.failed.done()


@contextmanager
def node_that_responds(*frames: bytes) -> Iterator[int]:
    """Yields the port of a node that answers each request with the next frame, in which `{id}` is the correlation id."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    made, _ = listening.accept()
                except OSError:
                    return
                with made:
                    _respond_to_each(made, frames)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(DEADLINE_S)


def _respond_to_each(made: socket.socket, frames: tuple[bytes, ...]) -> None:
    made.settimeout(2 * TIMEOUT_MS / 1000)  # by then the broker has given up
    try:
        for frame in frames:
            (size,) = _LENGTH.unpack(_exactly(made, 4))
            correlation_id = _exactly(made, size)[4:8]
            made.sendall(frame.replace(b"{id}", correlation_id))
        made.recv(1 << 16)
    except (OSError, EOFError):
        pass  # the broker has received enough


def _exactly(made: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = made.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def respond(response: ApiVersionsResponse, version: int = 3) -> bytes:
    body = b"{id}" + encode(response, version)
    return _LENGTH.pack(len(body)) + body


def versions(**fields: object) -> bytes:
    keys = [ApiVersion(api_key=18, min_version=0, max_version=4), ApiVersion(api_key=1, min_version=4, max_version=17)]
    return respond(ApiVersionsResponse(**{"api_keys": keys, **fields}))  # type: ignore[arg-type]


def feature(low: int, high: int) -> list[SupportedFeatureKey]:
    return [SupportedFeatureKey(name="kraft.version", min_version=low, max_version=high)]


@pytest.mark.parametrize(
    "host",
    ["y" * 32_767, "y" * 64 + ".example", "日" * 100, "a\0b", "", " ", "..", "[::1", "255.255.255.255", "-"],
    ids=lambda host: f"{host[:10]!r} of {len(host)}",
)
def test_voter_at_an_odd_host_is_not_added(broker: odradek.Broker, host: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert add_voter(broker, 77, host, 1) in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INVALID_REQUEST)
        check_serves(broker)
    assert not caplog.records


@pytest.mark.parametrize(
    "frames",
    [
        (b"",),
        (_LENGTH.pack(-1),),
        (_LENGTH.pack((1 << 31) - 1) + b"{id}",),
        (_LENGTH.pack(4) + b"{id}",),
        (_LENGTH.pack(8) + b"{id}\xff\xff\xff\xff",),
        (_LENGTH.pack(6) + b"\0\0\0\x63\0\0",),
        (_LENGTH.pack(4096) + bytes(4096),),
        (respond(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION), 0), b"rubbish of some length"),
        (respond(ApiVersionsResponse(error_code=-1)),),
        (versions(), _LENGTH.pack(12) + b"{id}" + b"\xff" * 8),
        (versions(), versions()),
        (versions(), versions(supported_features=feature(5, -5))),
        (versions(), versions(supported_features=feature(-32768, 32767))),
        (versions(), versions(supported_features=feature(1, 1) * 300)),
        (versions(), versions(error_code=42)),
    ],
)
def test_voter_that_answers_with_rubbish_is_not_added(
    broker: odradek.Broker, frames: tuple[bytes, ...], caplog: pytest.LogCaptureFixture
) -> None:
    with node_that_responds(*frames) as port:
        assert add_voter(broker, 78, "127.0.0.1", port) in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INVALID_REQUEST)
        check_serves(broker)
    bugs = [record.getMessage() for record in caplog.records if record.exc_info or "a bug" in record.getMessage()]
    assert not bugs
