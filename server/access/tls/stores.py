"""Reads key and trust stores: PEM (in a file or in the configuration, KIP-651), PKCS12 and JKS.

The bytes of a file decide its format: Java reads a PKCS12 file under the type JKS and the other way round, and so does this.
No text of an error contains a password or a part of a key.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ....metadata.configs import InvalidConfig, Password
from ....storage.files.regular_files import read_regular_file
from .java_stores import (
    JCEKS,
    JKS,
    InvalidStore,
    JavaStore,
    WrongPassword,
    decrypt_key,
    read_java_store,
)
from .settings import PEM, KeyStore, TrustStore

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

#: A store of a thousand certificates has 2 MB; a path that names something else is not read whole.
MOST_STORE_BYTES = 16 << 20
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_PRIVATE_KEY = re.compile(rb"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?-----END \1-----", re.DOTALL)
MISSING_LIBRARY = "TLS needs the packages of the extra `security`: pip install 'odradek[security]'"


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
        raise InvalidConfig(MISSING_LIBRARY) from None


def read_key_store(store: KeyStore) -> KeyMaterial | None:
    """Returns None when no store is set. Raises InvalidConfig."""
    if not store.is_set:
        return None
    require_libraries()
    if store.key is not None and store.certificate_chain is not None:
        return _key_of_pem(
            _bytes(store.key), _bytes(store.certificate_chain), store.key_password, "Invalid PEM keystore configs"
        )
    path = store.location or ""
    words = f"Failed to load SSL keystore {path} of type {store.type}"
    data = _file(path, words)
    if store.type == PEM:
        return _key_of_pem(data, data, store.key_password, f"Failed to load PEM SSL keystore {path}")
    if data[:4] in (JKS, JCEKS):
        return _key_of_java(data, store, words)
    return _key_of_pkcs12(data, store, words)


def read_trust_store(store: TrustStore) -> tuple[Certificate, ...] | None:
    """Returns None when no store is set. Raises InvalidConfig."""
    if not store.is_set:
        return None
    require_libraries()
    if store.certificates is not None:
        return _certificates_of_pem(_bytes(store.certificates), "Invalid PEM truststore configs")
    path = store.location or ""
    words = f"Failed to load SSL truststore {path} of type {store.type}"
    data = _file(path, words)
    if store.type == PEM:
        return _certificates_of_pem(data, words)
    if data[:4] in (JKS, JCEKS):
        return _trusted_of_java(data, store.password, words)
    return _trusted_of_pkcs12(data, store.password, words)


def _file(path: str, words: str) -> bytes:
    try:
        data = read_regular_file(path, MOST_STORE_BYTES + 1)
    except OSError as error:
        raise InvalidConfig(f"{words}: {error.strerror}") from None
    if len(data) > MOST_STORE_BYTES:
        raise InvalidConfig(f"{words}: it has more than {MOST_STORE_BYTES} bytes")
    return data


def _bytes(text: Password) -> bytes:
    return text.value.encode()


def _secret(password: Password | None) -> bytes | None:
    return password.value.encode() if password is not None else None


# ---- PEM


def _key_of_pem(key: bytes, chain: bytes, password: Password | None, words: str) -> KeyMaterial:
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
            found.group(), _secret(password) if is_encrypted else None, unsafe_skip_rsa_key_validation=True
        )
    except (ValueError, TypeError) as error:
        why = "is ssl.key.password right?" if is_encrypted else type(error).__name__
        raise InvalidConfig(f"{words}: the private key cannot be read: {why}") from None
    except Exception as error:  # UnsupportedAlgorithm, which is no ValueError
        raise InvalidConfig(f"{words}: the private key cannot be read: {type(error).__name__}") from None
    return _material(private, _certificates_of_pem(chain, words), words)


def _certificates_of_pem(data: bytes, words: str) -> tuple[Certificate, ...]:
    from cryptography.x509 import load_pem_x509_certificate

    found = _CERTIFICATE.findall(data)
    if not found:
        raise InvalidConfig(f"{words}: At least one certificate expected, but none found")
    try:
        return tuple(load_pem_x509_certificate(one) for one in found)
    except ValueError as error:
        raise InvalidConfig(f"{words}: a certificate cannot be read: {error}") from None


def _material(private: Any, chain: tuple[Certificate, ...], words: str) -> KeyMaterial:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    if not chain:
        raise InvalidConfig(f"{words}: the private key has no certificate")
    if private.public_key().public_bytes(*form) != chain[0].public_key().public_bytes(*form):
        raise InvalidConfig(f"{words}: the private key is not that of the first certificate")
    return KeyMaterial(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), chain)


# ---- PKCS12


def _pkcs12(data: bytes, password: Password | None, words: str) -> Any:
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    try:
        return load_pkcs12(data, _secret(password))
    except ValueError:
        raise InvalidConfig(f"{words}: keystore password was incorrect, or it is not a PKCS12 file") from None
    except Exception as error:  # an algorithm that the library does not have
        raise InvalidConfig(f"{words}: {type(error).__name__}") from None


def _key_of_pkcs12(data: bytes, store: KeyStore, words: str) -> KeyMaterial:
    found = _pkcs12(data, store.password, words)
    if found.key is None or found.cert is None:
        raise InvalidConfig(f"{words}: it has no private key with a certificate")
    others = [one.certificate for one in found.additional_certs]
    return _material(found.key, _ordered(found.cert.certificate, others), words)


def _ordered(first: Certificate, others: list[Certificate]) -> tuple[Certificate, ...]:
    """The chain of the first certificate: each is issued by the next. The file may have them in any order."""
    chain = [first]
    while chain[-1].issuer != chain[-1].subject:
        issuer = next((one for one in others if one.subject == chain[-1].issuer and one not in chain), None)
        if issuer is None:
            break
        chain.append(issuer)
    return tuple(chain)


def _trusted_of_pkcs12(data: bytes, password: Password | None, words: str) -> tuple[Certificate, ...]:
    found = _pkcs12(data, password, words)
    own = (found.cert,) if found.cert is not None else ()
    trusted = tuple(one.certificate for one in (*own, *found.additional_certs))
    return _some(trusted, words)


def _some(trusted: tuple[Certificate, ...], words: str) -> tuple[Certificate, ...]:
    if not trusted:
        raise InvalidConfig(f"{words}: it has no certificate that could be trusted")
    return trusted


# ---- JKS, JCEKS


def _java(data: bytes, password: Password | None, words: str) -> JavaStore:
    try:
        return read_java_store(data, password.value if password is not None else None)
    except WrongPassword:
        raise InvalidConfig(f"{words}: Keystore was tampered with, or password was incorrect") from None
    except InvalidStore as error:
        raise InvalidConfig(f"{words}: the file cannot be read: {error}") from None


def _key_of_java(data: bytes, store: KeyStore, words: str) -> KeyMaterial:
    """The entry of the first alias with a key, as Java's key manager takes it where nothing tells them apart."""
    from cryptography.hazmat.primitives.serialization import load_der_private_key
    from cryptography.x509 import load_der_x509_certificate

    entry = next(iter(_java(data, store.password, words).keys.values()), None)
    if entry is None:
        raise InvalidConfig(f"{words}: it has no private key")
    password = store.key_password or store.password
    try:
        key = decrypt_key(entry.protected, password.value if password is not None else "")
        private = load_der_private_key(key, None, unsafe_skip_rsa_key_validation=True)
        chain = tuple(load_der_x509_certificate(der) for der in entry.chain)
    except InvalidStore as error:
        raise InvalidConfig(f"{words}: the private key cannot be read: {error}") from None
    except Exception:  # none of the texts is shown, since they may quote what was decrypted
        raise InvalidConfig(f"{words}: Cannot recover key (is ssl.key.password right?)") from None
    return _material(private, chain, words)


def _trusted_of_java(data: bytes, password: Password | None, words: str) -> tuple[Certificate, ...]:
    from cryptography.x509 import load_der_x509_certificate

    found = _java(data, password, words)
    ders = [*found.trusted.values(), *(entry.chain[0] for entry in found.keys.values() if entry.chain)]
    try:
        return _some(tuple(load_der_x509_certificate(der) for der in ders), words)
    except ValueError as error:
        raise InvalidConfig(f"{words}: a certificate cannot be read: {error}") from None
