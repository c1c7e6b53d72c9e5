"""The TLS settings of a listener or of a client: the `ssl.*` keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...metadata.configs import BrokerValues, InvalidConfig
from ..config.listener_prefix import listener_prefix
from .store_settings import KeyStore, TrustStore, checked_key_store, checked_trust_store

#: Versions of TLS that are offered; older ones are accepted in the configuration and never negotiated, as in Java 17.
VERSIONS = ("TLSv1.2", "TLSv1.3")
_OLD_VERSIONS = ("TLS", "SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")


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
        key_store=checked_key_store(key_store),
        trust_store=checked_trust_store(trust_store),
        client_auth=_client_auth(own("ssl.client.auth"), protocol, prefix + "ssl.client.auth" in values.texts),
        versions=_versions(own("ssl.enabled.protocols")),
        cipher_suites=tuple(name for name in own("ssl.cipher.suites") if name),
        checks_host_names=_checks_host_names(own("ssl.endpoint.identification.algorithm")),
    )


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
