"""Reads key and trust stores: PEM (in a file or in the configuration, KIP-651), PKCS12, JKS and JCEKS.

The bytes of a file decide its format: Java reads a PKCS12 file under the type JKS and the other way round, and so
does this. No text of an error contains a password or a part of a key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.configs import InvalidConfig, Password
from ...storage.files.regular_files import read_regular_file
from .java_stores import JCEKS, JKS, InvalidStore, JavaStore, WrongPassword, decrypt_key, read_java_store
from .key_material import KeyMaterial, checked_trusted, material, require_libraries
from .pem_stores import certificates_of_pem, key_of_pem
from .pkcs12_stores import key_of_pkcs12, trusted_of_pkcs12
from .store_settings import PEM, KeyStore, TrustStore

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

#: A store of a thousand certificates has 2 MB; a path that names something else is not read whole.
MOST_STORE_BYTES = 16 << 20


def read_key_store(store: KeyStore) -> KeyMaterial | None:
    """Returns None when no store is set. Raises InvalidConfig."""
    if not store.is_set:
        return None
    require_libraries()
    if store.key is not None and store.certificate_chain is not None:
        return key_of_pem(
            _bytes(store.key), _bytes(store.certificate_chain), store.key_password, "Invalid PEM keystore configs"
        )
    path = store.location or ""
    words = f"Failed to load SSL keystore {path} of type {store.type}"
    data = _file(path, words)
    if store.type == PEM:
        return key_of_pem(data, data, store.key_password, f"Failed to load PEM SSL keystore {path}")
    if data[:4] in (JKS, JCEKS):
        return _key_of_java(data, store, words)
    return key_of_pkcs12(data, store, words)


def read_trust_store(store: TrustStore) -> tuple[Certificate, ...] | None:
    """Returns None when no store is set. Raises InvalidConfig."""
    if not store.is_set:
        return None
    require_libraries()
    if store.certificates is not None:
        return certificates_of_pem(_bytes(store.certificates), "Invalid PEM truststore configs")
    path = store.location or ""
    words = f"Failed to load SSL truststore {path} of type {store.type}"
    data = _file(path, words)
    if store.type == PEM:
        return certificates_of_pem(data, words)
    if data[:4] in (JKS, JCEKS):
        return _trusted_of_java(data, store.password, words)
    return trusted_of_pkcs12(data, store.password, words)


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
    return material(private, chain, words)


def _trusted_of_java(data: bytes, password: Password | None, words: str) -> tuple[Certificate, ...]:
    from cryptography.x509 import load_der_x509_certificate

    found = _java(data, password, words)
    ders = [*found.trusted.values(), *(entry.chain[0] for entry in found.keys.values() if entry.chain)]
    try:
        return checked_trusted(tuple(load_der_x509_certificate(der) for der in ders), words)
    except ValueError as error:
        raise InvalidConfig(f"{words}: a certificate cannot be read: {error}") from None
