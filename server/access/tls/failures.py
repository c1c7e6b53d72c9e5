"""One line of words for a handshake that failed."""

from __future__ import annotations

import ssl
import sys
from collections.abc import Callable
from typing import Any

from .handshakes import NoTls
from .settings import TlsSettings

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

    def read(self, len: int = 1024, buffer: Any = None) -> Any:
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
