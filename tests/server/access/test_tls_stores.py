"""Key and trust stores in every format, the rules for their configuration keys, and the texts of errors."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from odradek.metadata.configs import BrokerValues, InvalidConfig
from odradek.server.access.tls_contexts import (
    check_handshake,
    client_context,
    read_stores,
    server_context,
)
from odradek.server.access.tls_settings import read_settings

from tests.server.harness.certificates import PASSWORD, Authority, Identity


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def node(authority: Authority) -> Identity:
    return authority.issue(name="node")


def settings_of(properties: dict[str, str], listener: str = "SSL", protocol: str = "SSL"):  # type: ignore[no-untyped-def]
    return read_settings(BrokerValues(properties), listener, protocol)


def key_store(form: str, node: Identity, directory: Path) -> dict[str, str]:
    match form:
        case "PEM":
            return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(node.pem(directory / "k.pem"))}
        case "encrypted PEM":
            path = node.pem(directory / "k.pem", encrypted=True)
            return {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(path),
                "ssl.key.password": PASSWORD,
            }
        case "inline PEM":
            return {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": node.encrypted_key_pem.decode(),
                "ssl.keystore.certificate.chain": node.chain_pem.decode(),
                "ssl.key.password": PASSWORD,
            }
        case "PKCS12" | "JKS":
            path = getattr(node, form.lower())(directory / "k")
            return {
                "ssl.keystore.type": form,
                "ssl.keystore.location": str(path),
                "ssl.keystore.password": PASSWORD,
            }
        case "PKCS12 under the type JKS":
            return {**key_store("PKCS12", node, directory), "ssl.keystore.type": "JKS"}
    raise AssertionError(form)


def trust_store(form: str, authority: Authority, directory: Path) -> dict[str, str]:
    if form == "inline PEM":
        return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority.pem_text}
    path = getattr(authority, form.lower())(directory / "t")
    found = {"ssl.truststore.type": form, "ssl.truststore.location": str(path)}
    return found if form == "PEM" else {**found, "ssl.truststore.password": PASSWORD}


@pytest.mark.parametrize(
    ("key_form", "trust_form"),
    [
        ("PEM", "PEM"),
        ("encrypted PEM", "inline PEM"),
        ("inline PEM", "PKCS12"),
        ("PKCS12", "JKS"),
        ("JKS", "PEM"),
        ("PKCS12 under the type JKS", "PEM"),
    ],
)
def test_every_form_of_store_makes_contexts_that_trust_each_other(
    key_form: str, trust_form: str, authority: Authority, node: Identity, tmp_path: Path
) -> None:
    settings = settings_of(
        {
            **key_store(key_form, node, tmp_path),
            **trust_store(trust_form, authority, tmp_path),
            "ssl.client.auth": "required",
        }
    )
    stores = read_stores(settings)
    check_handshake(server_context(settings, stores), client_context(settings, stores))


@pytest.mark.parametrize("form", ["encrypted PEM", "inline PEM", "PKCS12", "JKS"])
def test_wrong_password_is_refused_without_showing_it(form: str, node: Identity, tmp_path: Path) -> None:
    properties = key_store(form, node, tmp_path)
    wrong = {key: "wr0ng-secret" if key.endswith("password") else value for key, value in properties.items()}
    with pytest.raises(InvalidConfig) as rejected:
        read_stores(settings_of(wrong))
    assert "wr0ng-secret" not in str(rejected.value)
    assert "wr0ng-secret" not in repr(settings_of(wrong))


@pytest.mark.parametrize(
    ("words", "properties"),
    [
        ("SSL key store is specified, but key store password is not specified.", {"ssl.keystore.location": "/k"}),
        ("SSL key store is not specified, but key store password is specified.", {"ssl.keystore.password": "p"}),
        ("only for PEM, but key store type is JKS", {"ssl.keystore.key": "k"}),
        ("but certificate chain is not specified", {"ssl.keystore.key": "k", "ssl.keystore.type": "PEM"}),
        ("but private key is not specified", {"ssl.keystore.certificate.chain": "k", "ssl.keystore.type": "PEM"}),
        (
            "SSL key store password cannot be specified with PEM format",
            {"ssl.keystore.location": "/k", "ssl.keystore.type": "PEM", "ssl.keystore.password": "p"},
        ),
        ("only for PEM, but trust store type is JKS", {"ssl.truststore.certificates": "c"}),
        ("but trust store password is specified", {"ssl.truststore.password": "p"}),
        ("use PEM, PKCS12 or JKS", {"ssl.keystore.type": "BKS"}),
        ("only TLSv1.2 and TLSv1.3", {"ssl.enabled.protocols": "TLSv1.1"}),
        ("is not a version of TLS", {"ssl.enabled.protocols": "TLSv1.4"}),
        ("use https, or nothing", {"ssl.endpoint.identification.algorithm": "ldaps"}),
    ],
)
def test_keys_that_exclude_each_other_are_refused(words: str, properties: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig, match=words):
        settings_of(properties)


def test_keys_with_the_prefix_of_a_listener_come_first() -> None:
    properties = {"ssl.client.auth": "none", "listener.name.mine.ssl.client.auth": "required"}
    assert settings_of(properties, "MINE").client_auth == "required"
    assert settings_of(properties, "OTHER").client_auth == "none"


def test_sasl_ssl_listener_asks_for_certificates_only_by_its_own_key() -> None:
    assert settings_of({"ssl.client.auth": "required"}, "MINE", "SASL_SSL").client_auth == "none"
    own = {"listener.name.mine.ssl.client.auth": "required"}
    assert settings_of(own, "MINE", "SASL_SSL").client_auth == "required"


def test_stores_that_cannot_be_read_name_the_file(tmp_path: Path, node: Identity) -> None:
    pem = {"ssl.keystore.type": "PEM"}
    with pytest.raises(InvalidConfig, match=r"nothere.*No such file"):
        read_stores(settings_of({**pem, "ssl.keystore.location": str(tmp_path / "nothere")}))
    (tmp_path / "empty").write_text("")
    with pytest.raises(InvalidConfig, match="empty: no private key found"):
        read_stores(settings_of({**pem, "ssl.keystore.location": str(tmp_path / "empty")}))
    (tmp_path / "damaged").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\x02\xff\xff\xff\xff")
    java = {"ssl.keystore.password": PASSWORD, "ssl.keystore.location": str(tmp_path / "damaged")}
    with pytest.raises(InvalidConfig, match="damaged of type JKS"):
        read_stores(settings_of(java))


def test_key_of_another_certificate_is_refused(authority: Authority, node: Identity, tmp_path: Path) -> None:
    other = authority.issue(name="other")
    (tmp_path / "mixed").write_bytes(node.plain_key_pem + other.chain_pem)
    with pytest.raises(InvalidConfig, match="not that of the first certificate"):
        read_stores(settings_of({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "mixed")}))


def test_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch, node: Identity, tmp_path: Path) -> None:
    settings = settings_of(key_store("PEM", node, tmp_path))
    monkeypatch.setitem(sys.modules, "cryptography.x509", None)
    with pytest.raises(InvalidConfig, match=r"pip install .*odradek\[security\]"):
        read_stores(settings)


@pytest.mark.parametrize(
    ("suites", "lowest", "highest"),
    [
        ("TLS_AES_256_GCM_SHA384", "TLSv1_3", "TLSv1_3"),
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLSv1_2", "TLSv1_2"),
        ("TLS_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLSv1_2", "TLSv1_3"),
    ],
)
def test_cipher_suites_leave_the_versions_that_have_one(
    suites: str, lowest: str, highest: str, node: Identity, tmp_path: Path
) -> None:
    settings = settings_of({**key_store("PEM", node, tmp_path), "ssl.cipher.suites": suites})
    context = server_context(settings, read_stores(settings))
    assert (context.minimum_version.name, context.maximum_version.name) == (lowest, highest)


@pytest.mark.parametrize("suites", ["TLS_NULL_WITH_NULL_NULL", "TLS_AES_128_GCM_SHA256"])
def test_cipher_suites_that_cannot_be_had_are_refused(suites: str, node: Identity, tmp_path: Path) -> None:
    settings = settings_of({**key_store("PEM", node, tmp_path), "ssl.cipher.suites": suites})
    with pytest.raises(InvalidConfig, match=r"ssl\.cipher\.suites"):
        server_context(settings, read_stores(settings))


@pytest.mark.timeout(20)
@pytest.mark.parametrize("key", ["ssl.keystore.location", "ssl.truststore.location"])
@pytest.mark.parametrize("kind", ["PEM", "PKCS12", "JKS"])
def test_fifo_as_a_store_is_an_error_at_once(tmp_path: Path, key: str, kind: str) -> None:
    os.mkfifo(tmp_path / "store")
    properties = {key: str(tmp_path / "store"), key.replace("location", "type"): kind}
    if kind != "PEM":
        properties[key.replace("location", "password")] = PASSWORD
    with pytest.raises(InvalidConfig, match="not a regular file"):
        read_stores(read_settings(BrokerValues(properties), "SSL", "SSL"))
