"""Certificates for tests: a certificate authority, and stores of its certificates in every format that Kafka accepts."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates

from tests.server.harness.java_key_stores import key_entry, trusted_entry, written_jks

PASSWORD = "key-s3cret"


class Identity:
    """A key with its certificate, issued by `authority` for these host names."""

    def __init__(self, authority: trustme.CA, *hosts: str, name: str, organization: str = "Acme, Inc.") -> None:
        issued = authority.issue_cert(
            *hosts, common_name=name, organization_name=organization, organization_unit_name="Tests"
        )
        self.key_pem = issued.private_key_pem.bytes()
        self.chain_pem = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        self.key = load_pem_private_key(self.key_pem, None)
        self.chain = x509.load_pem_x509_certificates(self.chain_pem)

    @property
    def encrypted_key_pem(self) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(PASSWORD.encode()))

    @property
    def plain_key_pem(self) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def pem(self, path: Path, *, encrypted: bool = False) -> Path:
        path.write_bytes((self.encrypted_key_pem if encrypted else self.plain_key_pem) + self.chain_pem)
        return path

    def pkcs12(self, path: Path) -> Path:
        how = BestAvailableEncryption(PASSWORD.encode())
        path.write_bytes(serialize_key_and_certificates(b"node", self.key, self.chain[0], self.chain[1:], how))  # type: ignore[arg-type]
        return path

    def jks(self, path: Path) -> Path:
        der = self.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        chain = [one.public_bytes(Encoding.DER) for one in self.chain]
        path.write_bytes(written_jks(PASSWORD, key_entry("node", der, chain, PASSWORD)))
        return path


class Authority:
    """A certificate authority and its trust stores."""

    def __init__(self) -> None:
        self.trustme = trustme.CA()
        self.pem_text = self.trustme.cert_pem.bytes().decode()

    def issue(self, *hosts: str, name: str) -> Identity:
        return Identity(self.trustme, *(hosts or ("localhost", "127.0.0.1")), name=name)

    def pem(self, path: Path) -> Path:
        path.write_text(self.pem_text)
        return path

    def jks(self, path: Path) -> Path:
        der = x509.load_pem_x509_certificate(self.pem_text.encode()).public_bytes(Encoding.DER)
        path.write_bytes(written_jks(PASSWORD, trusted_entry("authority", der)))
        return path

    def pkcs12(self, path: Path) -> Path:
        certificate = x509.load_pem_x509_certificate(self.pem_text.encode())
        how = BestAvailableEncryption(PASSWORD.encode())
        path.write_bytes(serialize_key_and_certificates(None, None, None, [certificate], how))
        return path


def pem_properties(identity: Identity, authority: Authority, directory: Path) -> dict[str, str]:
    """Returns the configuration of a listener whose stores are PEM files in `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(identity.pem(directory / "key.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.pem(directory / "trusted.pem")),
    }
