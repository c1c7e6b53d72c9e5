"""Failed authentications in the audit log: each has one line, with host, listener and mechanism, and no secret."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import odradek
import pytest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest

from compat_tests.wire import ConnectionClosed, WireClient
from tests.security.exchanges import plain
from tests.server.harness.certificates import Authority, pem_properties
from tests.server.harness.data_path import wait_until

pytestmark = pytest.mark.usefixtures("sockets")

SECRET = "s3cret-of-alice"
LISTENERS = {
    "listeners": "LOGIN://127.0.0.1:0,CERTIFIED://127.0.0.1:0,PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": ("LOGIN:SASL_PLAINTEXT,CERTIFIED:SSL,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"),
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.login.plain.sasl.jaas.config": (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{SECRET}";'
    ),
    "connection.failed.authentication.delay.ms": 0,
    "ssl.client.auth": "required",
    "odradek.audit.format": "json",
}


@pytest.fixture
def broker(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[odradek.Broker]:
    caplog.set_level(logging.INFO, "odradek.audit")
    authority = Authority()
    stores = pem_properties(authority.issue(name="node"), authority, tmp_path)
    with odradek.Broker(config={**LISTENERS, **stores}) as running:
        yield running


def at(broker: odradek.Broker, name: str) -> tuple[str, int]:
    (found,) = (one for one in broker.server.network.listeners if one.name == name)
    return "127.0.0.1", found.endpoint.port


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    found = [json.loads(record.getMessage()) for record in caplog.records if record.name == "odradek.audit"]
    return [{name: value for name, value in line.items() if name != "time_ms"} for line in found]


def log_in(broker: odradek.Broker, mechanism: str, *tokens: bytes) -> None:
    host, port = at(broker, "LOGIN")
    with contextlib.suppress(ConnectionClosed), WireClient(f"{host}:{port}", timeout=30) as client:
        client.call(SaslHandshakeRequest(mechanism=mechanism), 1)
        for token in tokens:
            client.call(SaslAuthenticateRequest(auth_bytes=token), 2)


def line(listener: str, mechanism: str, reason: str, **more: int) -> dict[str, Any]:
    found = {"event": "authentication", "host": "127.0.0.1", "listener": listener, "mechanism": mechanism}
    return {**found, "reason": reason, **more}


def test_each_failure_is_written_once(broker: odradek.Broker, caplog: pytest.LogCaptureFixture) -> None:
    log_in(broker, "PLAIN", plain("alice", f"{SECRET}x"))
    log_in(broker, "SCRAM-SHA-256", f"n,,n=alice,{SECRET}".encode())
    log_in(broker, "NTLM")
    host, port = at(broker, "LOGIN")
    with contextlib.suppress(ConnectionClosed), WireClient(f"{host}:{port}", timeout=30) as client:
        client.call(MetadataRequest(topics=[]), 1)
    assert lines(caplog) == [
        line("LOGIN", "PLAIN", "Authentication failed: Invalid username or password"),
        line("LOGIN", "SCRAM-SHA-256", lines(caplog)[1]["reason"]),
        line("LOGIN", "", "it names a SASL mechanism that is not enabled on this listener: 'NTLM'"),
        line("LOGIN", "", "a request with API key 3 before its authentication"),
    ]
    assert SECRET not in caplog.text


def test_a_failure_that_comes_again_is_counted(broker: odradek.Broker, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        log_in(broker, "PLAIN", plain("alice", "wrong"))
    reason = "Authentication failed: Invalid username or password"
    assert lines(caplog) == [line("LOGIN", "PLAIN", reason)]
    broker.stop()
    assert lines(caplog)[1:] == [line("LOGIN", "PLAIN", reason, repeated=2)]


def test_a_login_that_succeeds_is_not_written(broker: odradek.Broker, caplog: pytest.LogCaptureFixture) -> None:
    log_in(broker, "PLAIN", plain("alice", SECRET))
    assert lines(caplog) == []


def test_a_client_without_a_certificate_is_written(broker: odradek.Broker, caplog: pytest.LogCaptureFixture) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with contextlib.suppress(OSError), socket.create_connection(at(broker, "CERTIFIED"), 30) as plain_socket:
        context.wrap_socket(plain_socket).recv(1)
    wait_until(lambda: lines(caplog))
    assert lines(caplog) == [line("CERTIFIED", "TLS", "it has no certificate, and ssl.client.auth is required")]


def test_a_stranger_that_does_not_speak_tls_is_written(
    broker: odradek.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_connection(at(broker, "CERTIFIED"), 30) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(1) == b""
    wait_until(lambda: lines(caplog))
    (found,) = lines(caplog)
    assert (found["listener"], found["mechanism"]) == ("CERTIFIED", "TLS")
    assert "does not use TLS" in found["reason"]


def test_a_line_of_text_names_host_listener_and_mechanism(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "odradek.audit")
    config = {
        name: value for name, value in LISTENERS.items() if name not in ("ssl.client.auth", "odradek.audit.format")
    }
    config["listeners"] = config["listeners"].replace("CERTIFIED://127.0.0.1:0,", "")  # type: ignore[attr-defined]
    with odradek.Broker(config=config) as broker:
        log_in(broker, "PLAIN", plain("alice", "wrong"))
    (record,) = (record for record in caplog.records if record.name == "odradek.audit")
    assert record.getMessage() == (
        "Failed authentication from host = 127.0.0.1 on listener = LOGIN with mechanism = PLAIN: "
        "Authentication failed: Invalid username or password"
    )
