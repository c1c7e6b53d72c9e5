"""The key and trust stores that a configuration names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from ...metadata.configs import InvalidConfig, Password

PEM = "PEM"
#: The forms of a store that are read. Each takes a file of the other Java form too, as Java does.
JAVA_FORMS = ("JKS", "PKCS12", "JCEKS")
Store = TypeVar("Store", "KeyStore", "TrustStore")


@dataclass(frozen=True, slots=True)
class KeyStore:
    """Where the key and the certificates of this node are. `password` opens the file, `key_password` the key."""

    type: str
    location: str | None
    password: Password | None
    key_password: Password | None
    key: Password | None
    certificate_chain: Password | None

    @property
    def is_set(self) -> bool:
        return self.location is not None or self.key is not None


@dataclass(frozen=True, slots=True)
class TrustStore:
    """Where the trusted certificates are. Without one, those of the system are trusted."""

    type: str
    location: str | None
    password: Password | None
    certificates: Password | None

    @property
    def is_set(self) -> bool:
        return self.location is not None or self.certificates is not None


def checked_key_store(store: KeyStore) -> KeyStore:
    """Returns the store as it is read, by the rules and texts of Kafka's DefaultSslEngineFactory. Raises InvalidConfig."""
    store = _trimmed(store)
    has_key, has_chain = store.key is not None, store.certificate_chain is not None
    if has_key and store.type != PEM:
        raise InvalidConfig(f"SSL private key can be specified only for PEM, but key store type is {store.type}.")
    if has_key and not has_chain:
        raise InvalidConfig("SSL private key is specified, but certificate chain is not specified.")
    if has_key and store.location is not None:
        raise InvalidConfig("Both SSL key store location and separate private key are specified.")
    if has_chain and not has_key:
        raise InvalidConfig("SSL certificate chain is specified, but private key is not specified")
    if store.type == PEM and store.is_set and store.password is not None:
        raise InvalidConfig(
            "SSL key store password cannot be specified with PEM format, only key password may be specified."
        )
    if store.type != PEM and not store.location and store.password is not None:
        raise InvalidConfig("SSL key store is not specified, but key store password is specified.")
    if store.type != PEM and store.location and store.password is None:
        raise InvalidConfig("SSL key store is specified, but key store password is not specified.")
    _check_form(store.type, "ssl.keystore.type")
    return store


def checked_trust_store(store: TrustStore) -> TrustStore:
    """Does the same for a trust store."""
    store = _trimmed(store)
    has_certificates = store.certificates is not None
    if has_certificates and store.type != PEM:
        raise InvalidConfig(
            f"SSL trust store certs can be specified only for PEM, but trust store type is {store.type}."
        )
    if has_certificates and store.location is not None:
        raise InvalidConfig("Both SSL trust store location and separate trust certificates are specified.")
    if store.type == PEM and store.is_set and store.password is not None:
        raise InvalidConfig("SSL trust store password cannot be specified for PEM format.")
    if not store.is_set and store.password is not None:
        raise InvalidConfig("SSL trust store is not specified, but trust store password is specified.")
    _check_form(store.type, "ssl.truststore.type")
    return store


def _check_form(form: str, key: str) -> None:
    if form not in (PEM, *JAVA_FORMS):
        raise InvalidConfig(f"{key}={form} is not known; use PEM, PKCS12 or JKS")


def _trimmed(store: Store) -> Store:
    """Without the location where it is blank: an empty value in a file means that none is set."""
    return store if store.location else replace(store, location=None)
