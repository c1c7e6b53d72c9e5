"""Handshakes and `ssl.SSLContext`s of TLS, made of settings and stores.

- `Handshakes`: the handshakes of a listener in progress, bounded in time, in number and in what they take of the
  event loop.
- `openssl_names`, `check_tls_1_3`: cipher suites.
- `server_context`, `client_context`: the contexts; `check_handshake` tries two of them, `client_failure` explains a
  failed handshake.
- `WatchedTls`: the TLS of a connection, which finds peers that renegotiate.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....metadata.configs import InvalidConfig
from .settings import TlsSettings
from .stores import KeyMaterial, read_key_store, read_trust_store

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from cryptography.x509 import Certificate


# ---- handshakes
#
# A connection costs a descriptor and no TLS object until its first bytes are there. They are looked at, not taken: a
# peer that does not use TLS is seen at once. Then handshakes begin in the order of their first bytes, one in a turn
# of the loop, since the signature of one takes up to a millisecond. Requests of other connections are served in
# between.

#: From the accept to the end of the handshake. A client on the other side of the earth needs a second.
TIME_LIMIT_S = 10.0
#: For the peer's close_notify after ours.
SHUTDOWN_LIMIT_S = 1.0
#: Connections whose handshake has not ended; a further one ends the oldest. The oldest of so many has stalled: a
#: handshake takes milliseconds.
MOST_IN_PROGRESS = 1000
#: The least time between two beginnings. One takes about that much of the loop with a key of RSA; when it takes more, or
#: other work does, the time is longer. So half of the loop's time stays for requests.
REST_S = 0.001
#: Kind, version and length of a TLS record.
_RECORD_HEAD_BYTES = 5
_HANDSHAKE_RECORD = 0x16
_MAJOR_VERSION = b"\x03"
#: A client's first message is shorter, even with keys for quantum computers.
_MOST_PEEKED_BYTES = 16 * 1024


class NoTls(OSError):
    """The peer does not use TLS."""


class TooManyHandshakes(OSError):
    """The handshake was the oldest of too many."""


class Handshakes:
    """The handshakes of one listener."""

    def __init__(self) -> None:
        self._in_progress: dict[asyncio.Task[None], float] = {}
        self._crowded_out: set[asyncio.Task[None]] = set()
        self._ready: deque[asyncio.Future[None]] = deque()
        self._pump: asyncio.TimerHandle | None = None
        self._due_s = 0.0

    def __len__(self) -> int:
        return len(self._in_progress)

    async def establish(self, context: ssl.SSLContext, protocol: asyncio.BaseProtocol, accepted: socket.socket) -> None:
        """Returns when `protocol` has its connection. Raises OSError: what went wrong, a time limit included."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        if len(self._in_progress) >= MOST_IN_PROGRESS:
            self.end_oldest()
        self._in_progress[task] = loop.time()
        try:
            async with asyncio.timeout(TIME_LIMIT_S) as limit:
                await self._first_record(loop, accepted)
                await self._my_turn(loop)
                await loop.connect_accepted_socket(
                    lambda: protocol,
                    accepted,
                    ssl=context,
                    ssl_handshake_timeout=max(0.1, (limit.when() or 0.0) - loop.time()),
                    ssl_shutdown_timeout=SHUTDOWN_LIMIT_S,
                )
        except asyncio.CancelledError:
            if task not in self._crowded_out:
                raise
            task.uncancel()
            raise TooManyHandshakes("too many handshakes are in progress, and this was the oldest") from None
        except TimeoutError:
            raise TimeoutError(f"the handshake was not finished within {TIME_LIMIT_S:g} s") from None
        finally:
            self._in_progress.pop(task, None)
            self._crowded_out.discard(task)

    def end_oldest(self, before_s: float | None = None) -> bool:
        """Ends the oldest handshake; with `before_s` only if it began before (the loop's time). Returns whether one ends."""
        oldest = next(iter(self._in_progress), None)
        if oldest is None or (before_s is not None and self._in_progress[oldest] > before_s):
            return False
        del self._in_progress[oldest]
        self._crowded_out.add(oldest)
        oldest.cancel()
        return True

    async def _first_record(self, loop: asyncio.AbstractEventLoop, accepted: socket.socket) -> None:
        """Waits until the first record is there. It is looked at and not taken. The system wakes us when enough is there."""
        head = await _peek(loop, accepted, 1)
        _check_head(head)
        if len(head) < _RECORD_HEAD_BYTES:
            head = await _peek(loop, accepted, _RECORD_HEAD_BYTES)
            _check_head(head)
        whole = _RECORD_HEAD_BYTES + int.from_bytes(head[3:_RECORD_HEAD_BYTES], "big")
        if len(head) < min(whole, _MOST_PEEKED_BYTES):
            await _peek(loop, accepted, min(whole, _MOST_PEEKED_BYTES))

    async def _my_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        turn: asyncio.Future[None] = loop.create_future()
        self._ready.append(turn)
        if self._pump is None:
            self._begin_next(loop)
        await turn

    def _begin_next(self, loop: asyncio.AbstractEventLoop) -> None:
        now_s = loop.time()
        late_s = now_s - self._due_s if self._pump is not None else 0.0
        self._pump = None
        while self._ready:
            turn = self._ready.popleft()
            if not turn.done():
                turn.set_result(None)
                rest_s = max(REST_S, late_s)
                self._due_s = now_s + rest_s
                self._pump = loop.call_later(rest_s, self._begin_next, loop)
                return


def _wake(readable: asyncio.Future[None]) -> None:
    if not readable.done():
        readable.set_result(None)


async def _peek(loop: asyncio.AbstractEventLoop, accepted: socket.socket, needed: int) -> bytes:
    """Returns the first bytes, `needed` ones or more. Raises ConnectionResetError when the peer ends before."""
    if needed > 1:
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, needed)
    readable: asyncio.Future[None] = loop.create_future()
    loop.add_reader(accepted.fileno(), _wake, readable)
    try:
        await readable
    finally:
        loop.remove_reader(accepted.fileno())
    found = accepted.recv(_MOST_PEEKED_BYTES, socket.MSG_PEEK)
    if needed > 1:
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
    if len(found) < needed:
        raise ConnectionResetError("the peer closed the connection during the handshake")
    return found


def _check_head(head: bytes) -> None:
    """Raises NoTls if these are not the first bytes of a TLS record with a handshake message."""
    if head[0] != _HANDSHAKE_RECORD or head[1:2] not in (b"", _MAJOR_VERSION):
        raise NoTls("the peer does not use TLS")


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


_NO_COMMON_VERSION = ("UNSUPPORTED_PROTOCOL", "VERSION_TOO_LOW", "WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL")
_NO_COMMON_SUITE = (
    "NO_SHARED_CIPHER",
    "NO_CIPHERS_AVAILABLE",
    "NO_SUITABLE_SIGNATURE_ALGORITHM",
    "NO_SUITABLE_KEY_SHARE",
)
#: Alerts of a peer that does not accept our certificate.
_NOT_TRUSTED = (
    "UNKNOWN_CA",
    "BAD_CERTIFICATE",
    "CERTIFICATE_UNKNOWN",
    "CERTIFICATE_EXPIRED",
    "UNSUPPORTED_CERTIFICATE",
)


def client_failure(error: BaseException, settings: TlsSettings) -> str:
    """Returns why the handshake of a client with this listener failed."""
    if isinstance(error, NoTls):
        return "the peer does not use TLS, which this listener requires (is its security.protocol SSL?)"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return _words_of(str(error.reason or error), settings)
    if isinstance(error, TimeoutError | ConnectionAbortedError):
        return "the TLS handshake took too long"
    return f"the TLS handshake failed: {error}"


def _words_of(reason: str, settings: TlsSettings) -> str:
    if reason in _NO_COMMON_VERSION:
        return f"it offers no version of TLS that is enabled here ({', '.join(settings.versions)})"
    if reason in _NO_COMMON_SUITE:
        return "it offers no cipher suite that this listener supports"
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return "it has no certificate, and ssl.client.auth is required"
    if any(reason.endswith(alert) for alert in _NOT_TRUSTED):
        return f"it does not trust the certificate of this listener ({reason})"
    return f"the TLS handshake failed: {reason}"


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
