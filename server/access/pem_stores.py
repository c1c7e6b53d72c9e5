"""Key and trust stores in PEM, in a file or in the configuration (KIP-651)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...metadata.configs import InvalidConfig, Password
from .key_material import KeyMaterial, material, secret

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_PRIVATE_KEY = re.compile(rb"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?-----END \1-----", re.DOTALL)


def key_of_pem(key: bytes, chain: bytes, password: Password | None, words: str) -> KeyMaterial:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    found = _PRIVATE_KEY.search(key)
    if found is None:
        raise InvalidConfig(f"{words}: no private key found (-----BEGIN PRIVATE KEY-----)")
    is_encrypted = b"ENCRYPTED" in found.group()[:200]
    if is_encrypted and password is None:
        raise InvalidConfig(f"{words}: the private key is encrypted, and ssl.key.password is not set")
    try:
        # The key's primes are not checked, which takes 40 ms: a key that does not fit its certificate is refused below.
        private = load_pem_private_key(
            found.group(), secret(password) if is_encrypted else None, unsafe_skip_rsa_key_validation=True
        )
    except (ValueError, TypeError) as error:
        why = "is ssl.key.password right?" if is_encrypted else type(error).__name__
        raise InvalidConfig(f"{words}: the private key cannot be read: {why}") from None
    except Exception as error:  # UnsupportedAlgorithm, which is no ValueError
        raise InvalidConfig(f"{words}: the private key cannot be read: {type(error).__name__}") from None
    return material(private, certificates_of_pem(chain, words), words)


def certificates_of_pem(data: bytes, words: str) -> tuple[Certificate, ...]:
    from cryptography.x509 import load_pem_x509_certificate

    found = _CERTIFICATE.findall(data)
    if not found:
        raise InvalidConfig(f"{words}: At least one certificate expected, but none found")
    try:
        return tuple(load_pem_x509_certificate(one) for one in found)
    except ValueError as error:
        raise InvalidConfig(f"{words}: a certificate cannot be read: {error}") from None
