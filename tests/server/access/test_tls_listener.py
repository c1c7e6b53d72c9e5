"""A listener with TLS: accepted clients, their principals, and the cost of rejected peers."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import odradek
import pytest
from odradek.metadata.configs import InvalidConfig
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.records.record import Record, encode_batch
from odradek.server.network import handshakes
from odradek.server.network.connection import WRITE_HIGH_WATER_BYTES
from odradek.server.network.copied_sender import CopiedSender
from odradek.server.network.listener import Listener

from compat_tests.wire import WireClient, request_frame
from tests.server.harness.certificates import Authority, pem_properties
from tests.server.harness.data_path import wait_until
from tests.server.harness.tls_clients import client_context

pytestmark = pytest.mark.usefixtures("sockets")

LISTENERS = {
    "listeners": "SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": "SSL:SSL,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
}


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def stores(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return pem_properties(authority.issue(name="node"), authority, tmp_path_factory.mktemp("stores"))


@pytest.fixture
def broker(stores: dict[str, str]) -> Iterator[odradek.Broker]:
    with odradek.Broker(config={**LISTENERS, **stores, "ssl.client.auth": "requested"}) as running:
        yield running


def listener_of(broker: odradek.Broker, name: str) -> Listener:
    return next(one for one in broker.server.network.listeners if one.name == name)


def address_of(broker: odradek.Broker, name: str) -> tuple[str, int]:
    endpoint = listener_of(broker, name).endpoint
    return endpoint.host, endpoint.port


def connect(address: tuple[str, int], context: ssl.SSLContext) -> WireClient:
    return WireClient(f"{address[0]}:{address[1]}", timeout=60, tls=context)


def is_served(address: tuple[str, int], context: ssl.SSLContext) -> bool:
    with connect(address, context) as client:
        return bool(client.call(ApiVersionsRequest(), 0).api_keys)


def is_ended(made: socket.socket) -> bool:
    """Returns True once the broker has closed the connection."""
    made.settimeout(20)
    try:
        while made.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Returns warnings and errors, without those about long turns of the loop, which a busy machine causes."""
    return [
        one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING and one.name != "odradek.turns"
    ]


def principals(broker: odradek.Broker) -> set[str]:
    return {connection.principal for connection in tuple(listener_of(broker, "SSL").connections)}


# ---- accepted clients


def test_client_without_certificate_is_anonymous_and_one_with_is_its_subject(
    broker: odradek.Broker, authority: Authority, tmp_path: Path
) -> None:
    alice = authority.issue("alice.example", name="alice")
    address = address_of(broker, "SSL")
    with connect(address, client_context(authority)) as client:
        assert client.call(ApiVersionsRequest(), 0).error_code == 0
        assert principals(broker) == {"User:ANONYMOUS"}
    wait_until(lambda: not principals(broker))
    with connect(address, client_context(authority, alice, tmp_path)) as client:
        assert client.call(ApiVersionsRequest(), 0).error_code == 0
        (principal,) = principals(broker)
        assert principal.startswith("User:CN=alice,")
        assert principal.endswith("O=Acme\\, Inc.")


def test_mapping_rules_name_the_principal_or_end_the_connection(
    stores: dict[str, str], authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rules = {"ssl.principal.mapping.rules": "RULE:^CN=(al[^,]*),.*$/$1/U", "ssl.client.auth": "required"}
    with odradek.Broker(config={**LISTENERS, **stores, **rules}) as broker:
        address = address_of(broker, "SSL")
        alice = client_context(authority, authority.issue("a.example", name="alice"), tmp_path)
        with connect(address, alice) as client:
            assert client.call(ApiVersionsRequest(), 0).error_code == 0
            assert principals(broker) == {"User:ALICE"}
        bob = client_context(authority, authority.issue("b.example", name="bob"), tmp_path)
        with connect(address, bob) as client, pytest.raises((ConnectionError, OSError, AssertionError)):
            client.call(ApiVersionsRequest(), 0)
    assert len([line for line in lines_of(caplog) if "No rules apply to CN=bob" in line]) == 1


def test_required_certificate_is_required(
    stores: dict[str, str], authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with odradek.Broker(config={**LISTENERS, **stores, "ssl.client.auth": "required"}) as broker:
        address = address_of(broker, "SSL")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            is_served(address, client_context(authority))
        stranger = Authority().issue("x.example", name="stranger")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            is_served(address, client_context(authority, stranger, tmp_path))
        assert is_served(address, client_context(authority, authority.issue("c.example", name="c"), tmp_path))
    lines = lines_of(caplog)
    assert len([line for line in lines if "it has no certificate, and ssl.client.auth is required" in line]) == 1
    assert len([line for line in lines if "its certificate is not trusted" in line]) == 1


def test_large_responses_and_requests_go_through_whole(
    broker: odradek.Broker, authority: Authority, tmp_path: Path
) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    _, port = address_of(broker, "SSL")
    options = {
        "bootstrap_servers": f"localhost:{port}",
        "security_protocol": "SSL",
        "ssl_cafile": str(authority.pem(tmp_path / "ca.pem")),
    }
    values = [os.urandom(900_000) for _ in range(12)] + [b"small"]
    producer = KafkaProducer(**options)
    for value in values:
        producer.send("large", value)
    producer.flush()
    producer.close()
    consumer = KafkaConsumer("large", auto_offset_reset="earliest", **options)
    assert [next(consumer).value for _ in values] == values
    consumer.close()


def test_client_that_trusts_another_authority_is_named_once(
    broker: odradek.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        with pytest.raises(ssl.SSLError):
            is_served(address_of(broker, "SSL"), client_context(Authority()))
    wait_until(lambda: listener_of(broker, "SSL").refused["handshake"] == 3)
    assert len([line for line in lines_of(caplog) if "it does not trust the certificate of this listener" in line]) == 1


def test_reader_that_does_not_read_costs_a_few_chunks(broker: odradek.Broker, authority: Authority) -> None:
    batch = encode_batch([Record(0, 0, None, os.urandom(900_000))])
    produce = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[TopicProduceData("unread")])
    produce.topic_data[0].partition_data = [PartitionProduceData(0, batch)]
    partition = FetchPartition(0, fetch_offset=0, partition_max_bytes=10 << 20)
    fetch = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=10 << 20, topics=[FetchTopic("unread", partitions=[partition])]
    )
    address = address_of(broker, "SSL")
    with connect(address, client_context(authority)) as client:
        wanted = MetadataRequest(topics=[MetadataRequestTopic(name="unread")], allow_auto_topic_creation=True)
        wait_until(lambda: client.call(wanted, 9).topics[0].partitions)
        for _ in range(10):
            assert client.call(produce, 9).responses[0].partition_responses[0].error_code == 0
        (connection,) = listener_of(broker, "SSL").connections
        for _ in range(20):
            client.send(fetch, 11)
        wait_until(lambda: isinstance(connection._sender, CopiedSender) and connection._sender.is_paused)
        assert connection._sender is not None
        assert connection._sender.is_busy
        assert connection._transport.get_write_buffer_size() < 2 * WRITE_HIGH_WATER_BYTES
        for _ in range(20):  # all responses arrive when the client reads
            assert len(client.receive_frame()) > 9 * 900_000


# ---- mixed-up protocols


def test_plain_client_on_a_tls_listener_costs_one_line(
    broker: odradek.Broker, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    address = address_of(broker, "SSL")
    for _ in range(3):
        with socket.create_connection(address) as made:
            made.sendall(request_frame(ApiVersionsRequest(), 0, 1, "plain"))
            assert is_ended(made)
    (line,) = lines_of(caplog)
    assert line == (
        "closing a connection from 127.0.0.1 on SSL: the peer does not use TLS, which this listener requires (is its "
        "security.protocol SSL?)"
    )
    assert is_served(address, client_context(authority))


def test_tls_client_on_a_plain_listener_costs_one_line(
    broker: odradek.Broker, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            is_served(address_of(broker, "PLAINTEXT"), client_context(authority))
    (line,) = lines_of(caplog)
    assert "it sends TLS, but this listener does not use TLS" in line


def test_client_of_an_older_version_costs_one_line(
    stores: dict[str, str], authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    with odradek.Broker(config={**LISTENERS, **stores, "ssl.enabled.protocols": "TLSv1.3"}) as broker:
        context = client_context(authority)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        for _ in range(2):
            with pytest.raises(ssl.SSLError):
                is_served(address_of(broker, "SSL"), context)
        wait_until(lambda: listener_of(broker, "SSL").refused["handshake"] == 2)
        (line,) = lines_of(caplog)
    assert "it offers no version of TLS that is enabled here (TLSv1.3)" in line


def test_probe_that_connects_and_goes_leaves_no_line(broker: odradek.Broker, caplog: pytest.LogCaptureFixture) -> None:
    listener = listener_of(broker, "SSL")
    socket.create_connection(address_of(broker, "SSL")).close()
    assert listener.shared.limits is not None
    wait_until(lambda: listener._handshaking is not None and not len(listener._handshaking))
    assert lines_of(caplog) == []


# ---- handshakes that do not end


def half_open(address: tuple[str, int], sent: bytes) -> socket.socket:
    made = socket.create_connection(address, timeout=60)
    made.sendall(sent)
    return made


def client_hello(authority: Authority) -> bytes:
    """Returns the first bytes that a client sends."""
    outgoing = ssl.MemoryBIO()
    client = client_context(authority).wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def test_handshakes_end_at_their_time_limit(
    broker: odradek.Broker, authority: Authority, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(handshakes, "TIME_LIMIT_S", 0.3)
    address, hello = address_of(broker, "SSL"), client_hello(authority)
    for sent in (b"", hello[:3], hello[:100], hello):
        with half_open(address, sent) as made:
            assert is_ended(made)
    (line,) = lines_of(caplog)
    assert "the TLS handshake took too long" in line


def test_further_handshake_ends_the_oldest_of_too_many(
    broker: odradek.Broker, authority: Authority, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(handshakes, "MOST_IN_PROGRESS", 3)
    address, hello = address_of(broker, "SSL"), client_hello(authority)
    made = [half_open(address, sent) for sent in (b"", hello[:50], hello, hello[:3])]
    assert is_ended(made[0])
    assert is_served(address, client_context(authority))
    assert is_ended(made[1])
    (line,) = lines_of(caplog)
    assert "closing connections on SSL with unfinished TLS handshakes" in line
    for one in made:
        one.close()


def test_stop_does_not_wait_for_handshakes(stores: dict[str, str]) -> None:
    with odradek.Broker(config={**LISTENERS, **stores}) as broker:
        made = half_open(address_of(broker, "SSL"), b"")
        wait_until(lambda: listener_of(broker, "SSL")._handshaking)
        began_s = time.monotonic()
    assert time.monotonic() - began_s < handshakes.TIME_LIMIT_S / 2
    made.close()


# ---- configuration


def test_listener_without_a_key_does_not_start() -> None:
    with pytest.raises(InvalidConfig, match=r"listener SSL.*has no key: set ssl\.keystore\.location"):
        odradek.Broker(config=LISTENERS).start()


def test_inline_stores_serve(authority: Authority) -> None:
    node = authority.issue(name="node")
    prefix = "listener.name.ssl."
    inline = {
        prefix + "ssl.keystore.type": "PEM",
        prefix + "ssl.keystore.key": node.plain_key_pem.decode(),
        prefix + "ssl.keystore.certificate.chain": node.chain_pem.decode(),
    }
    with odradek.Broker(config={**LISTENERS, **inline}) as broker:
        assert is_served(address_of(broker, "SSL"), client_context(authority))


@pytest.mark.usefixtures("processes")
def test_renegotiation_is_refused_and_costs_one_line(broker: odradek.Broker, caplog: pytest.LogCaptureFixture) -> None:
    host, port = address_of(broker, "SSL")
    command = ["openssl", "s_client", "-connect", f"{host}:{port}", "-tls1_2"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as client:
        assert client.stdin is not None and client.stdout is not None
        seen = b""
        while b"Verify return code" not in seen:  # the handshake is done
            seen += os.read(client.stdout.fileno(), 4096)
        client.stdin.write(b"R\n")  # s_client's command to renegotiate
        client.stdin.flush()
        printed, _ = client.communicate(timeout=30)
    assert b"RENEGOTIATING" in printed
    assert b"no renegotiation" in printed
    assert b"verify return" not in printed.partition(b"RENEGOTIATING")[2]
    wait_until(lambda: lines_of(caplog))
    (line,) = lines_of(caplog)
    assert line.endswith("on SSL: it renegotiates TLS, which is not allowed")
