"""The TLS of a listener: its settings, and the `ssl.SSLContext`s that are made of them and of stores.

- `TlsSettings`: `ssl.*`, each overridden by `listener.name.<listener>.ssl.*` (KIP-103, KIP-226).
- `openssl_names`, `check_tls_1_3`: cipher suites.
- `server_context`, `client_context`: the contexts; `check_handshake` tries two of them.
- `WatchedTls`: the TLS of a connection, which finds peers that renegotiate.
- `ListenerTls`: the contexts of one listener. A new context serves new connections. Those that stand keep theirs.
- `check_replacement`: the checks before contexts are replaced while the broker runs (KIP-226).
"""

from __future__ import annotations

import os
import ssl
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...metadata.configs import BrokerValues, InvalidConfig
from .principal_names import PrincipalMapping, rfc2253, subject_name
from .tls_stores import (
    KeyMaterial,
    KeyStore,
    TrustStore,
    checked_key_store,
    checked_trust_store,
    read_key_store,
    read_trust_store,
)

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from cryptography.x509 import Certificate


# ---- settings

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


# ---- cipher suites
#
# Cipher suites: their IANA names, which Kafka's configuration has, and the names of OpenSSL.


#: Those of TLS 1.3, in OpenSSL's order of preference. Python's ssl offers all three or none.
TLS_1_3 = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
#  Suites of TLS 1.2, with OpenSSL's name. Suites without authentication, without encryption or with broken ciphers are not
#  here.
TLS_1_2 = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
    "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "DHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": "ECDHE-ECDSA-AES256-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384": "ECDHE-RSA-AES256-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256": "DHE-RSA-AES256-SHA256",
    "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256": "DHE-RSA-AES128-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA256": "AES256-SHA256",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
}
_OPENSSL_NAMES = frozenset(TLS_1_2.values())


def openssl_names(suites: Iterable[str]) -> list[str]:
    """Returns OpenSSL's names of the suites of TLS 1.2 among `suites`. Raises InvalidConfig for a name that is not known."""
    found = []
    for name in suites:
        if name in TLS_1_2 or name in _OPENSSL_NAMES:
            found.append(TLS_1_2.get(name, name))
        elif name not in TLS_1_3:
            raise InvalidConfig(
                f"ssl.cipher.suites: {name} is not known or not safe; docs/security-tls.md lists the names"
            )
    return found


def check_tls_1_3(suites: Iterable[str]) -> None:
    """Raises InvalidConfig if the suites of TLS 1.3 among `suites` cannot be had.

    A server prefers TLS_AES_256_GCM_SHA384, which every client offers. A list without it would refuse all of them.
    """
    named = [name for name in suites if name in TLS_1_3]
    if named and TLS_1_3[0] not in named:
        raise InvalidConfig(
            f"ssl.cipher.suites: with TLSv1.3 the list must contain {TLS_1_3[0]} (or no suite of TLSv1.3, for TLSv1.2 only)"
        )


# ---- contexts

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
#: Turns of an exchange in memory: a handshake has four.
_MOST_TURNS = 20


@dataclass(frozen=True)
class Stores:
    """The contents of a listener's stores; None for one that is not set."""

    key: KeyMaterial | None
    trusted: tuple[Certificate, ...] | None


def read_stores(settings: TlsSettings) -> Stores:
    """Raises InvalidConfig."""
    return Stores(read_key_store(settings.key_store), read_trust_store(settings.trust_store))


def server_context(settings: TlsSettings, stores: Stores) -> ssl.SSLContext:
    """Raises InvalidConfig."""
    if stores.key is None:
        raise InvalidConfig(
            "it has no key: set ssl.keystore.location, or ssl.keystore.key and ssl.keystore.certificate.chain"
        )
    has_renegotiation = "TLSv1.2" in settings.versions
    context = (WatchingContext if has_renegotiation else ssl.SSLContext)(ssl.PROTOCOL_TLS_SERVER)
    _set_up(context, settings, stores)
    # As the JDK. A ticket contains the client's certificate: a second one adds a seventh to the CPU of a handshake.
    context.num_tickets = 1
    context.verify_mode = _CLIENT_AUTH[settings.client_auth]
    return context


def client_context(settings: TlsSettings, stores: Stores) -> ssl.SSLContext:
    """The context of connections to this listener of other nodes, whose certificates must be trusted. Raises
    InvalidConfig.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _set_up(context, settings, stores)
    context.check_hostname = settings.checks_host_names
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def _set_up(context: ssl.SSLContext, settings: TlsSettings, stores: Stores) -> None:
    # A peer that renegotiates has the loop compute as often as it likes.
    context.options |= ssl.OP_NO_RENEGOTIATION
    # Every certificate of a trust store is an anchor, as in Java, even one that is not of an authority.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    _limit(context, settings)
    if stores.key is not None:
        _load_key(context, stores.key)
    if stores.trusted is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(cadata=b"".join(_der(one) for one in stores.trusted))


def _der(certificate: Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.DER)


def _limit(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Sets versions and cipher suites."""
    versions = list(settings.versions)
    if settings.cipher_suites:
        names = openssl_names(settings.cipher_suites)
        if names:
            context.set_ciphers(":".join(names))
        elif "TLSv1.2" in versions:
            versions.remove("TLSv1.2")
        if not allows_tls_1_3(settings) and "TLSv1.3" in versions:
            versions.remove("TLSv1.3")
        if not versions:
            raise InvalidConfig("ssl.cipher.suites: none of the suites belongs to a version of ssl.enabled.protocols")
        if "TLSv1.3" in versions:
            check_tls_1_3(settings.cipher_suites)
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    context.minimum_version = _VERSIONS[versions[0]]
    context.maximum_version = _VERSIONS[versions[-1]]


def allows_tls_1_3(settings: TlsSettings) -> bool:
    return not settings.cipher_suites or any(name in TLS_1_3 for name in settings.cipher_suites)


def _load_key(context: ssl.SSLContext, material: KeyMaterial) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding

    chain = b"".join(one.public_bytes(Encoding.PEM) for one in material.chain)
    with _private_file(material.key + chain) as path:
        try:
            context.load_cert_chain(path)
        except ssl.SSLError as error:
            raise InvalidConfig(f"OpenSSL does not take the key or its certificates: {error.reason}") from None


@contextmanager
def _private_file(data: bytes) -> Iterator[str]:
    """A path that has `data` for a moment: OpenSSL reads keys from files only. It is in memory where Linux offers that,
    else in a file of this user alone.
    """
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("odradek-key"), "wb") as file:
            file.write(data)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile() as file:  # created with mode 0600
            file.write(data)
            file.flush()
            yield file.name


def check_handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Has the two contexts exchange a handshake in memory. Raises ssl.SSLError if they do not trust each other.

    Host names are not compared: the peer is no host.
    """
    checks_host_names, client.check_hostname = client.check_hostname, False
    try:
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        ends = [
            client.wrap_bio(to_client, to_server, server_side=False),
            server.wrap_bio(to_server, to_client, server_side=True),
        ]
        for _ in range(_MOST_TURNS):
            for end in list(ends):
                try:
                    end.do_handshake()
                    ends.remove(end)
                except ssl.SSLWantReadError:
                    pass
            if not ends:
                return
        raise ssl.SSLError("the handshake is not finished")
    finally:
        client.check_hostname = checks_host_names


# ---- renegotiation
#
# Finds peers that renegotiate TLS 1.2, which no listener allows.
#
# OpenSSL answers such a hello with a warning and reads on, without an error (`OP_NO_RENEGOTIATION`). Bytes to send
# that a read leaves are that warning: in TLS 1.2 a read writes nothing else after the handshake, except the alert of
# an error. A peer that sends hellos and reads nothing would have the warnings pile up in memory, so its connection is
# closed, as Kafka closes it. A read costs 0.2 us more than one of `ssl.SSLObject`.


_read = ssl.SSLObject.read


class WatchedTls(ssl.SSLObject):
    """The TLS of one connection. `on_renegotiation` is called once, from within a read."""

    outgoing: ssl.MemoryBIO
    on_renegotiation: Callable[[], None] | None = None

    def read(self, len: int = 1024, buffer: ReadableBuffer | None = None) -> bytes:
        outgoing = self.outgoing
        waiting = outgoing.pending
        try:
            return _read(self, len, buffer)
        finally:
            if outgoing.pending > waiting:
                self._wrote(sys.exc_info()[1])

    def _wrote(self, error: BaseException | None) -> None:
        is_warning = error is None or isinstance(error, ssl.SSLWantReadError)
        if is_warning and self.on_renegotiation is not None and self.version() == "TLSv1.2":
            called, self.on_renegotiation = self.on_renegotiation, None
            called()


class WatchingContext(ssl.SSLContext):
    """A context of connections that are `WatchedTls`."""

    sslobject_class = WatchedTls

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **named: Any) -> ssl.SSLObject:
        made = super().wrap_bio(incoming, outgoing, *args, **named)
        assert isinstance(made, WatchedTls)
        made.outgoing = outgoing
        return made


# ---- contexts of a listener

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
