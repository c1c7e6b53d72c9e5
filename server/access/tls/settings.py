"""The TLS settings of one listener: `ssl.*`, each overridden by `listener.name.<listener>.ssl.*` (KIP-103, KIP-226)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ....metadata.configs import BrokerValues, InvalidConfig, Password

PEM = "PEM"
#: The forms of a store that are read. Each takes a file of the other Java form too, as Java does.
JAVA_FORMS = ("JKS", "PKCS12", "JCEKS")
#: Versions of TLS that are offered; older ones are accepted in the configuration and never negotiated, as in Java 17.
VERSIONS = ("TLSv1.2", "TLSv1.3")
_OLD_VERSIONS = ("TLS", "SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")


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


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The settings of a listener, as a server and as a client of the same listener on other nodes."""

    listener: str
    key_store: KeyStore
    trust_store: TrustStore
    #: none, requested or required.
    client_auth: str
    #: At least one of VERSIONS, in their order.
    versions: tuple[str, ...]
    #: IANA names; empty for the defaults.
    cipher_suites: tuple[str, ...]
    #: Whether the name in the certificate of another node must be the one that was connected to.
    checks_host_names: bool


def listener_prefix(listener: str) -> str:
    """Returns the prefix of a listener's own keys; `listener` is in upper case."""
    return f"listener.name.{listener.lower()}."


def read_settings(values: BrokerValues, listener: str, protocol: str) -> TlsSettings:
    """Reads the settings of a listener with the protocol SSL or SASL_SSL. Raises InvalidConfig."""
    prefix = listener_prefix(listener)

    def own(name: str) -> Any:
        return values.get(prefix + name)

    key_store = KeyStore(
        own("ssl.keystore.type"),
        own("ssl.keystore.location"),
        own("ssl.keystore.password"),
        own("ssl.key.password"),
        own("ssl.keystore.key"),
        own("ssl.keystore.certificate.chain"),
    )
    trust_store = TrustStore(
        own("ssl.truststore.type"),
        own("ssl.truststore.location"),
        own("ssl.truststore.password"),
        own("ssl.truststore.certificates"),
    )
    return TlsSettings(
        listener=listener,
        key_store=_checked_key_store(_trimmed(key_store)),
        trust_store=_checked_trust_store(_trimmed(trust_store)),
        client_auth=_client_auth(own("ssl.client.auth"), protocol, prefix + "ssl.client.auth" in values.texts),
        versions=_versions(own("ssl.enabled.protocols")),
        cipher_suites=tuple(name for name in own("ssl.cipher.suites") if name),
        checks_host_names=_checks_host_names(own("ssl.endpoint.identification.algorithm")),
    )


def _trimmed(store: Any) -> Any:
    """Without the location where it is blank: an empty value in a file means that none is set."""
    return store if store.location else replace(store, location=None)


def _checked_key_store(store: KeyStore) -> KeyStore:
    """The rules and texts of Kafka's DefaultSslEngineFactory."""
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


def _checked_trust_store(store: TrustStore) -> TrustStore:
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


def _versions(enabled: tuple[str, ...]) -> tuple[str, ...]:
    unknown = [version for version in enabled if version not in (*VERSIONS, *_OLD_VERSIONS)]
    if unknown:
        raise InvalidConfig(f"ssl.enabled.protocols: {unknown[0]} is not a version of TLS; use TLSv1.2 or TLSv1.3")
    found = tuple(version for version in VERSIONS if version in enabled)
    if enabled and not found:
        raise InvalidConfig(f"ssl.enabled.protocols={','.join(enabled)}: only TLSv1.2 and TLSv1.3 can be used")
    return found or VERSIONS


def _checks_host_names(algorithm: str | None) -> bool:
    """An empty value switches the check off, as in Kafka (KIP-294)."""
    if algorithm and algorithm.lower() != "https":
        raise InvalidConfig(f"ssl.endpoint.identification.algorithm={algorithm} is not known; use https, or nothing")
    return bool(algorithm)


def _client_auth(wanted: str, protocol: str, is_of_listener: bool) -> str:
    """A SASL_SSL listener authenticates by SASL, so only the listener's own key makes it ask for certificates (KIP-684)."""
    return wanted if protocol == "SSL" or is_of_listener else "none"
