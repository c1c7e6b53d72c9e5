"""The `ssl.SSLContext`s of a listener and of a client, made of settings and stores."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...metadata.configs import InvalidConfig
from .cipher_suites import TLS_1_3, check_tls_1_3, openssl_names
from .key_material import KeyMaterial
from .renegotiation import WatchingContext
from .tls_settings import TlsSettings
from .tls_stores import read_key_store, read_trust_store

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

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
