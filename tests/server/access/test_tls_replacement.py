"""Key and trust stores that are replaced while the broker runs (KIP-226)."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from pathlib import Path

import odradek
import pytest
from cryptography import x509
from odradek.metadata.configs import ConfigResourceType
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from compat_tests.wire import WireClient
from tests.server.harness.certificates import Authority, Identity, pem_properties
from tests.server.harness.data_path import wait_until

pytestmark = pytest.mark.usefixtures("sockets")

LISTENERS = {
    "listeners": "SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": "SSL:SSL,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
}
LOCATION = "listener.name.ssl.ssl.keystore.location"
PASSWORD_OF_KEY = "listener.name.ssl.ssl.key.password"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def key_file(authority: Authority, tmp_path: Path) -> Path:
    authority.issue("localhost", "127.0.0.1", name="node").pem(tmp_path / "key.pem")
    return tmp_path / "key.pem"


@pytest.fixture
def broker(authority: Authority, key_file: Path) -> Iterator[odradek.Broker]:
    stores = pem_properties(authority.issue(name="unused"), authority, key_file.parent / "trust")
    with odradek.Broker(config={**LISTENERS, **stores, "ssl.keystore.location": str(key_file)}) as running:
        yield running


def connect(broker: odradek.Broker, authority: Authority) -> WireClient:
    listener = next(one for one in broker.server.network.listeners if one.name == "SSL")
    context = ssl.create_default_context(cadata=authority.pem_text)
    return WireClient(listener.endpoint.address, timeout=60, tls=context)


def serial_of(broker: odradek.Broker, authority: Authority) -> int:
    """Returns the serial number of the certificate that a new connection gets."""
    with connect(broker, authority) as client:
        assert isinstance(client._socket, ssl.SSLSocket)
        der = client._socket.getpeercert(binary_form=True)
        assert der is not None
        return x509.load_der_x509_certificate(der).serial_number


def alter(broker: odradek.Broker, name: str, value: str) -> str:
    """Sets a config of the broker. Returns the error's text, "" for none."""
    config = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=ConfigResourceType.BROKER, resource_name="1", configs=[config])
    plain = next(one for one in broker.server.network.listeners if one.name == "PLAINTEXT")
    with WireClient(plain.endpoint.address, timeout=60) as client:
        response = client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    return response.responses[0].error_message or ""


def test_new_file_serves_new_connections_when_the_unchanged_value_is_written(
    broker: odradek.Broker, authority: Authority, key_file: Path
) -> None:
    before = serial_of(broker, authority)
    with connect(broker, authority) as standing:
        renewed = authority.issue("localhost", "127.0.0.1", "more.example", name="node")
        renewed.pem(key_file)
        assert alter(broker, LOCATION, str(key_file)) == ""
        wait_until(lambda: serial_of(broker, authority) == renewed.chain[0].serial_number)
        assert renewed.chain[0].serial_number != before
        assert standing.call(ApiVersionsRequest(), 0).error_code == 0
        again = authority.issue("localhost", "127.0.0.1", "more.example", name="node")
        again.pem(key_file)
        assert alter(broker, LOCATION, str(key_file)) == ""
        wait_until(lambda: serial_of(broker, authority) == again.chain[0].serial_number)


@pytest.mark.parametrize(
    ("words", "hosts", "name"),
    [
        ("Keystore DistinguishedName does not match", ("localhost", "127.0.0.1"), "another"),
        ("Keystore SubjectAltNames do not match", ("127.0.0.1",), "node"),
    ],
)
def test_store_with_other_names_is_refused_unless_that_is_allowed(
    words: str, hosts: tuple[str, ...], name: str, broker: odradek.Broker, authority: Authority, tmp_path: Path
) -> None:
    before = serial_of(broker, authority)
    other = authority.issue(*hosts, name=name)
    path = str(other.pem(tmp_path / "other.pem"))
    rejected = alter(broker, LOCATION, path)
    assert words in rejected
    assert "Validation of dynamic config update of SSLFactory failed: " in rejected
    assert serial_of(broker, authority) == before
    assert alter(broker, "listener.name.ssl.ssl.allow.dn.changes", "true") == ""
    assert alter(broker, "listener.name.ssl.ssl.allow.san.changes", "true") == ""
    assert alter(broker, LOCATION, path) == ""
    wait_until(lambda: serial_of(broker, authority) == other.chain[0].serial_number)


def test_store_that_cannot_be_read_is_refused_and_the_broker_keeps_its_own(
    broker: odradek.Broker, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = serial_of(broker, authority)
    (tmp_path / "broken.pem").write_text("no key")
    assert "no private key found" in alter(broker, LOCATION, str(tmp_path / "broken.pem"))
    assert "No such file" in alter(broker, LOCATION, str(tmp_path / "nothing.pem"))
    assert serial_of(broker, authority) == before


def test_file_that_is_broken_leaves_the_store_in_use_and_one_line(
    broker: odradek.Broker, authority: Authority, key_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = serial_of(broker, authority)
    assert alter(broker, LOCATION, str(key_file)) == ""
    key_file.write_text("no key")
    assert alter(broker, LOCATION, str(key_file)) == ""
    wait_until(lambda: "the key and trust stores of SSL are unchanged" in caplog.text)
    assert serial_of(broker, authority) == before


def test_passwords_of_stores_are_in_no_line_and_no_description(
    broker: odradek.Broker, authority: Authority, key_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "key-s3cret"
    before = serial_of(broker, authority)
    identity: Identity = authority.issue("localhost", "127.0.0.1", name="node")
    identity.pem(key_file, encrypted=True)
    rejected = alter(broker, PASSWORD_OF_KEY, "wr0ng")
    assert "is ssl.key.password right?" in rejected
    assert "wr0ng" not in rejected
    assert alter(broker, PASSWORD_OF_KEY, secret) == ""
    wait_until(lambda: serial_of(broker, authority) != before)
    assert "wr0ng" not in caplog.text
    assert secret not in caplog.text
    assert secret not in repr(broker.server.config.values.typed)
