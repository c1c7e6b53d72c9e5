"""A certificate authority of one's own, for the nodes and clients of one machine."""

from __future__ import annotations

import datetime
import ipaddress
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from .key_material import require_libraries

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 365
#: Clocks of clients may be behind.
_BACKDATED = datetime.timedelta(days=1)
ORGANIZATION = "Odradek"


@dataclass(frozen=True)
class IssuedIdentity:
    """A private key (PKCS#8) and its certificates, those of the owner first, in PEM."""

    key_pem: str = field(repr=False)
    chain_pem: str


class Authority:
    """Issues certificates for servers and clients. Keys are of the curve P-256: made in a millisecond, and every client
    reads them.
    """

    def __init__(self, key: EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate
        self.pem = _pem(certificate)

    @classmethod
    def new(cls) -> Authority:
        """Raises InvalidConfig where the extra `security` is not installed."""
        require_libraries()
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("authority")
        built = _builder(name, name, key, AUTHORITY_DAYS).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        return cls(key, _signed(built.add_extension(_usage(is_authority=True), critical=True), key, key))

    @classmethod
    def read(cls, directory: Path) -> Authority:
        """Reads what `write` wrote. Raises OSError, ValueError, and InvalidConfig as `new`."""
        require_libraries()
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        key = load_pem_private_key((directory / "authority.key").read_bytes(), None)
        if not isinstance(key, EllipticCurvePrivateKey):
            raise ValueError(f"{directory / 'authority.key'} is not a key of an elliptic curve")
        return cls(key, x509.load_pem_x509_certificate((directory / "authority.pem").read_bytes()))

    def write(self, directory: Path) -> None:
        """Writes `authority.key` and `authority.pem`. Raises OSError."""
        write_secret(directory / "authority.key", _key_pem(self._key))
        (directory / "authority.pem").write_text(self.pem, encoding="ascii")

    def issue(self, name: str, hosts: tuple[str, ...] = ()) -> IssuedIdentity:
        """Returns a new key and certificate. `hosts`: names and addresses of a server; none for a mere client."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID

        key = ec.generate_private_key(ec.SECP256R1())
        built = _builder(_name(name), self._certificate.subject, key, CERTIFICATE_DAYS)
        built = built.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        built = built.add_extension(_usage(is_authority=False), critical=True)
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
        built = built.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        if hosts:
            built = built.add_extension(x509.SubjectAlternativeName([_host(one) for one in hosts]), critical=False)
        return IssuedIdentity(_key_pem(key), _pem(_signed(built, key, self._key)))


def write_secret(path: Path, text: str) -> None:
    """Writes a file that only its owner reads. Raises OSError."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def _name(common: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    organization = x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION)
    return x509.Name([organization, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, days: int) -> x509.CertificateBuilder:
    from cryptography import x509

    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _signed(
    built: x509.CertificateBuilder, key: EllipticCurvePrivateKey, authority: EllipticCurvePrivateKey
) -> x509.Certificate:
    """Python's strict checks want the identifier of the authority's key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    return built.add_extension(identifier, critical=False).sign(authority, hashes.SHA256())


def _host(text: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _pem(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode("ascii")


def _key_pem(key: EllipticCurvePrivateKey) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")
