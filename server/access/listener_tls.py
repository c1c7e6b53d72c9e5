"""The TLS of a listener: its contexts, made again when its stores change."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...metadata.configs import BrokerValues, InvalidConfig
from ..config.listener_prefix import listener_prefix
from .certificate_subjects import rfc2253, subject_name
from .principal_mapping import PrincipalMapping
from .tls_contexts import Stores, check_handshake, client_context, read_stores, server_context
from .tls_settings import TlsSettings, read_settings

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

ANONYMOUS = "User:ANONYMOUS"


@dataclass(frozen=True)
class ListenerTls:
    """The TLS contexts of one configuration of a listener. `server` is None for a listener of other nodes only."""

    settings: TlsSettings
    stores: Stores
    server: ssl.SSLContext | None
    client: ssl.SSLContext = field(repr=False)
    mapping: PrincipalMapping
    #: Modification times of the stores' files, in nanoseconds.
    modified: tuple[int | None, ...]

    def principal_of(self, connection: ssl.SSLObject) -> str:
        """Returns the principal of the peer's certificate, or the anonymous one. Raises ValueError if no rule applies, or
        the certificate gives an empty name.
        """
        der = connection.getpeercert(binary_form=True)
        if der is None:
            return ANONYMOUS
        name = self.mapping.name_of(subject_name(der))
        if not name:
            raise ValueError("the client's certificate gives an empty name")
        return "User:" + name

    def allows_cipher(self, connection: ssl.SSLObject) -> bool:
        """Returns False for a suite of TLS 1.3 that `ssl.cipher.suites` leaves out: Python's ssl offers all of them."""
        suites, cipher = self.settings.cipher_suites, connection.cipher()
        return not suites or cipher is None or connection.version() != "TLSv1.3" or cipher[0] in suites


def make_listener_tls(values: BrokerValues, listener: str, protocol: str, *, is_server: bool) -> ListenerTls:
    """Reads the stores. Raises InvalidConfig, with the name of the listener."""
    try:
        settings = read_settings(values, listener, protocol)
        times = modified(settings)
        stores = read_stores(settings)
        return ListenerTls(
            settings,
            stores,
            server_context(settings, stores) if is_server else None,
            client_context(settings, stores),
            PrincipalMapping(str(values.get(listener_prefix(listener) + "ssl.principal.mapping.rules"))),
            times,
        )
    except InvalidConfig as rejected:
        raise InvalidConfig(f"listener {listener}: {rejected}") from None


def has_other_settings(tls: ListenerTls, values: BrokerValues, protocol: str) -> bool:
    """Raises InvalidConfig."""
    return read_settings(values, tls.settings.listener, protocol) != tls.settings


def has_other_files(tls: ListenerTls) -> bool:
    """Returns True if a file of the stores was written since it was read."""
    return modified(tls.settings) != tls.modified


def modified(settings: TlsSettings) -> tuple[int | None, ...]:
    """Returns when the files of the stores were written, in nanoseconds; None where there is none."""
    return tuple(_time_of(store.location) for store in (settings.key_store, settings.trust_store))


def _time_of(path: str | None) -> int | None:
    try:
        return os.stat(path).st_mtime_ns if path is not None else None  # noqa: PTH116
    except OSError:
        return None


def check_trusts_itself(tls: ListenerTls) -> None:
    """Raises InvalidConfig if nodes with these stores would not trust each other, as Kafka checks it at its start."""
    if tls.server is not None:
        try:
            check_handshake(tls.server, tls.client)
        except ssl.SSLError as error:
            raise InvalidConfig(
                f"listener {tls.settings.listener}: A client SSLEngine created with the provided settings can't connect to "
                f"a server SSLEngine created with those settings. (its truststore must trust its keystore: {_reason(error)})"
            ) from None


def check_replacement(old: ListenerTls, new: ListenerTls, values: BrokerValues, *, is_between_nodes: bool) -> None:
    """Raises InvalidConfig if the new stores may not replace the old ones, with the texts of Kafka's SslFactory."""
    try:
        _check_stores(old.stores, new.stores, values, listener_prefix(old.settings.listener))
        if is_between_nodes and old.server is not None and new.server is not None:
            check_handshake(old.server, new.client)
            check_handshake(new.server, old.client)
    except ssl.SSLError as error:
        raise InvalidConfig(_failed(f"{_reason(error)}: other nodes would not trust it")) from None
    except InvalidConfig as rejected:
        raise InvalidConfig(_failed(str(rejected))) from None


def _failed(why: str) -> str:
    return (
        "Validation of dynamic config update of SSLFactory failed: "
        f"org.apache.kafka.common.config.ConfigException: {why}"
    )


def _reason(error: ssl.SSLError) -> str:
    return str(getattr(error, "verify_message", "") or error.reason or error)


def _check_stores(old: Stores, new: Stores, values: BrokerValues, prefix: str) -> None:
    if old.key is None and new.key is not None:
        raise InvalidConfig("Cannot add SSL keystore to an existing listener for which no keystore was configured.")
    if old.key is not None and new.key is None:
        raise InvalidConfig(
            "Cannot remove the SSL keystore from an existing listener for which a keystore was configured."
        )
    if old.trusted is None and new.trusted is not None:
        raise InvalidConfig("Cannot add SSL truststore to an existing listener for which no truststore was configured.")
    if old.key is None or new.key is None:
        return
    before, after = old.key.chain[0], new.key.chain[0]
    if not values.get(prefix + "ssl.allow.dn.changes") and _is_other_name(before, after):
        raise InvalidConfig(
            "Keystore DistinguishedName does not match:  "
            f"existing={{DN={rfc2253(before.subject)}}}, new={{DN={rfc2253(after.subject)}}}"
        )
    if not values.get(prefix + "ssl.allow.san.changes") and not _names(before) <= _names(after):
        raise InvalidConfig(
            f"Keystore SubjectAltNames do not match:  existing={{SAN={_shown(before)}}}, new={{SAN={_shown(after)}}}"
        )


def _is_other_name(before: Certificate, after: Certificate) -> bool:
    return before.subject != after.subject and rfc2253(before.subject).lower() != rfc2253(after.subject).lower()


def _names(certificate: Certificate) -> frozenset[str]:
    """The alternative names of a certificate."""
    from cryptography.x509 import ExtensionNotFound, SubjectAlternativeName

    try:
        found = certificate.extensions.get_extension_for_class(SubjectAlternativeName).value
    except ExtensionNotFound:
        return frozenset()
    return frozenset(f"{type(name).__name__}:{name.value}" for name in found)


def _shown(certificate: Certificate) -> str:
    return f"[{', '.join(sorted(_names(certificate)))}]"
