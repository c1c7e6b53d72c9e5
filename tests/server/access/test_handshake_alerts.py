"""A handshake that fails ends with its alert: the peer learns the reason, in each version of TLS and on each event loop."""

from __future__ import annotations

import asyncio
import datetime
import socket
import ssl
import struct
from collections.abc import Callable
from pathlib import Path

import odradek
import pytest
import uvloop

from tests.server.harness.certificates import Authority, Identity, pem_properties
from tests.server.harness.tls_clients import client_context

pytestmark = pytest.mark.usefixtures("sockets")

_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
YESTERDAY = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
#: Faults of the client's certificate, and the alerts of TLS 1.2 and 1.3 for it.
WRONG = {
    "missing": ("HANDSHAKE_FAILURE", "CERTIFICATE_REQUIRED"),
    "of another authority": ("UNKNOWN_CA", "UNKNOWN_CA"),
    "expired": ("CERTIFICATE_EXPIRED", "CERTIFICATE_EXPIRED"),
}


def identity_of(wrong: str, authority: Authority) -> Identity | None:
    if wrong == "missing":
        return None
    if wrong == "expired":
        issue = authority.trustme.issue_cert

        class Expired:
            def issue_cert(self, *names: str, **named: str) -> object:
                return issue(*names, not_after=YESTERDAY, **named)

        return Identity(Expired(), "c.example", name="c")  # type: ignore[arg-type]
    return Authority().issue("c.example", name="c")


@pytest.mark.parametrize("loop", LOOPS)
def test_client_gets_the_alert_of_its_handshake(loop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.testing.loop_thread.new_event_loop", LOOPS[loop])
    authority = Authority()
    config = {
        **pem_properties(authority.issue(name="node"), authority, tmp_path / "stores"),
        "listeners": "SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "SSL:SSL,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "ssl.client.auth": "required",
    }
    with odradek.Broker(config=config) as broker:
        listener = next(one for one in broker.server.network.listeners if one.name == "SSL")
        address = (listener.endpoint.host, listener.endpoint.port)
        for wrong, alerts in WRONG.items():
            identity = identity_of(wrong, authority)
            for version, alert in zip((ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3), alerts, strict=True):
                context = client_context(authority, identity, tmp_path)
                context.maximum_version = version
                with (
                    pytest.raises(ssl.SSLError) as failed,
                    socket.create_connection(address, 20) as plain,
                    context.wrap_socket(plain, server_hostname=address[0]) as secured,
                ):
                    secured.sendall(_API_VERSIONS)
                    secured.recv(1)
                assert str(failed.value.reason).endswith(f"_ALERT_{alert}"), (wrong, version, failed.value)
        good = client_context(authority, authority.issue("g.example", name="g"), tmp_path)
        with socket.create_connection(address, 20) as plain, good.wrap_socket(plain, server_hostname=address[0]) as one:
            one.sendall(_API_VERSIONS)
            assert one.recv(4)
