"""A private key with its chain of certificates, as stores of all forms give it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...extras import install_command
from ...metadata.configs import InvalidConfig, Password

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.x509 import Certificate


@dataclass(frozen=True)
class KeyMaterial:
    """A private key with its certificates, those of the node first. `key`: PKCS#8 in PEM, not encrypted."""

    key: bytes = field(repr=False)
    chain: tuple[Certificate, ...]


def require_libraries() -> None:
    """Raises InvalidConfig if the packages that read certificates are not installed."""
    try:
        import cryptography.x509  # noqa: F401
    except ImportError:
        raise InvalidConfig(f"TLS needs the packages of the extra `security`: {install_command('security')}") from None


def secret(password: Password | None) -> bytes | None:
    return password.value.encode() if password is not None else None


def material(private: PrivateKeyTypes, chain: tuple[Certificate, ...], words: str) -> KeyMaterial:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    if not chain:
        raise InvalidConfig(f"{words}: the private key has no certificate")
    if private.public_key().public_bytes(*form) != chain[0].public_key().public_bytes(*form):
        raise InvalidConfig(f"{words}: the private key is not that of the first certificate")
    return KeyMaterial(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), chain)


def checked_trusted(trusted: tuple[Certificate, ...], words: str) -> tuple[Certificate, ...]:
    if not trusted:
        raise InvalidConfig(f"{words}: it has no certificate that could be trusted")
    return trusted
