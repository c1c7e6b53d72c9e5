"""Exchanges of HTTP with servers that send a byte now and then: they end within their time."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import urllib.error
from collections.abc import Iterator

import pytest
from odradek.cli.processes.endpoint import health
from odradek.client.errors import NoToken
from odradek.client.token_login import ClientCredentials, TokenProvider
from odradek.client.user_errors import UserError
from odradek.http_exchange import opened
from odradek.records.schema_registry import SchemaRegistry
from odradek.server.access.authentication import oauth_issuer
from odradek.tiers.open_uploads import open_uploads
from odradek.tiers.store import RemoteStorageError

pytestmark = pytest.mark.usefixtures("sockets")
#: Limits of one read, and of an exchange.
READ_S, WHOLE_S = 5.0, 0.5
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"


@contextlib.contextmanager
def server(first: bytes, *, drips: bool) -> Iterator[str]:
    """The address of a server that sends the first bytes of a response, and then a byte now and then, or ends it."""
    ended = threading.Event()

    def serve(listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = listening.accept()
                with accepted, contextlib.suppress(OSError):
                    accepted.recv(4096)
                    accepted.sendall(first)
                    while drips and not ended.wait(0.02):
                        accepted.sendall(b"a")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            ended.set()
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("first", [b"", b"HTTP/1.1 200 OK\r\nX: ", HEAD, b"HTTP/1.1 500 Wrong\r\n\r\n"])
def test_exchange_ends_within_its_time(first: bytes) -> None:
    began = time.monotonic()
    with server(first, drips=True) as url, pytest.raises(TimeoutError, match=r"it did not come whole within 0\.5 s"):
        body(url, WHOLE_S)
    assert time.monotonic() - began < READ_S


def test_response_in_time_is_whole() -> None:
    with server(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", drips=False) as url:
        assert body(url, READ_S) == b"abc"


def body(url: str, whole_s: float) -> bytes:
    try:
        with opened(url, READ_S, whole_s) as response:
            return response.read()
    except urllib.error.HTTPError as error:
        return error.read()


@pytest.mark.parametrize("first", [b"HTTP/1.1 200 OK\r\nX: ", HEAD])
def test_schema_registry_that_drips_is_an_error(first: bytes) -> None:
    with server(first, drips=True) as url:
        registry = SchemaRegistry(url, timeout_s=WHOLE_S / 2)
        with pytest.raises(
            UserError, match=r"no response from the schema registry .*it did not come whole within 0\.5 s"
        ):
            registry.schema(1)


def test_token_endpoint_that_drips_gives_no_token() -> None:
    with server(HEAD, drips=True) as url:
        credentials = ClientCredentials("app", "secret", "", url)
        with pytest.raises(NoToken, match="gives no response: it did not come whole"):
            TokenProvider(credentials, WHOLE_S).token()


def test_issuer_that_drips_gives_no_keys() -> None:
    with server(HEAD, drips=True) as url, pytest.raises(TimeoutError, match="it did not come whole"):
        oauth_issuer.read(url, timeout_s=WHOLE_S)


@pytest.mark.parametrize("first", [b"HTTP/1.1 200 OK\r\nX: ", HEAD, b"HTTP/1.1 500 Wrong\r\n\r\n", b"nonsense\r\n"])
def test_process_that_drips_is_not_ready(monkeypatch: pytest.MonkeyPatch, first: bytes) -> None:
    monkeypatch.setattr("odradek.cli.processes.endpoint._RESPONSE_S", WHOLE_S)
    with server(first, drips=True) as url:
        assert not health({1: int(url.rpartition(":")[2])})[1]["ready"]


@pytest.mark.parametrize("first", [b"HTTP/1.1 200 OK\r\nX: ", HEAD])
def test_store_that_drips_lists_no_uploads(monkeypatch: pytest.MonkeyPatch, first: bytes) -> None:
    monkeypatch.setattr("odradek.tiers.open_uploads._WHOLE_S", WHOLE_S)
    with server(first, drips=True) as url:
        keys = {"access_key_id": "id", "secret_access_key": "secret"}
        uploads = open_uploads("s3://bucket", {**keys, "endpoint": url, "allow_http": "true"})
        assert uploads is not None
        with pytest.raises(RemoteStorageError, match="it did not come whole"):
            list(uploads.find("topic/"))
