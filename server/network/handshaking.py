"""The clients that fail in the handshakes of a listener, and the words of their failures."""

from __future__ import annotations

import logging
import socket
import ssl
from collections import Counter
from typing import TYPE_CHECKING

from .handshakes import Handshakes, NoTls, TooManyHandshakes
from .tls_connection import TLS

if TYPE_CHECKING:
    from ..access.audit import AuditLog
    from ..access.tls_settings import TlsSettings
    from ..runtime.log_lines import RepeatedLines
    from .tls_connection import TlsConnection

log = logging.getLogger("odradek.listener")

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


class Handshaking:
    """`refused` counts the connections of the listener that were closed, by reason."""

    def __init__(self, listener_name: str, lines: RepeatedLines, audit: AuditLog, rejected: Counter[str]) -> None:
        self._name = listener_name
        self._lines = lines
        self._audit = audit
        self._error_response = rejected
        self._handshakes = Handshakes()

    def __len__(self) -> int:
        return len(self._handshakes)

    async def connect(self, connection: TlsConnection, accepted: socket.socket) -> None:
        """Returns when the connection may send requests. Raises OSError after one line in the log."""
        context = connection.tls.server
        assert context is not None, "a listener that accepts has a context"
        try:
            await self._handshakes.establish(context, connection, accepted)
        except TooManyHandshakes:
            self._log(
                "",
                "crowded",
                f"closing connections on {self._name} with unfinished TLS handshakes, to make room for new ones",
            )
            raise
        except ConnectionResetError:
            raise  # a probe, or a client that gave up: no line for it
        except OSError as error:
            ip = connection.counted_as or ""
            words = client_failure(error, connection.tls.settings)
            self._log(ip, words, f"closing a connection from {ip} on {self._name}: {words}")
            if isinstance(error, ssl.SSLError | NoTls):
                self._audit.failed_authentication(ip, self._name, TLS, words)
            raise

    def _log(self, peer: str, kind: str, words: str) -> None:
        self._error_response["handshake"] += 1
        self._lines.log(log, logging.WARNING, peer, ("handshake", self._name, kind), words)

    def end_oldest(self, before_s: float) -> bool:
        """Ends the oldest handshake if it began before (the loop's time). Returns whether one ends."""
        return self._handshakes.end_oldest(before_s)
