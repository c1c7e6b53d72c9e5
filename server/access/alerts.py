"""The alert of a failed handshake: the reason that its peer gets.

Neither asyncio nor uvloop sends the bytes that OpenSSL leaves when a handshake fails: they close the socket. The peer cannot
tell that from a broker that stops, so Kafka's clients would connect again for ever, in place of an error of authentication.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from contextvars import ContextVar

#: The socket of the handshake that the running task begins. Loops take a context of all connections, and no socket with it.
HANDSHAKING: ContextVar[socket.socket | None] = ContextVar("HANDSHAKING", default=None)


class AlertingTls(ssl.SSLObject):
    """The TLS of one connection. `accepted`: its socket, which gets the alert; None where there is none."""

    outgoing: ssl.MemoryBIO
    accepted: socket.socket | None = None

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            self._send_alert()
            raise
        self.accepted = None

    def _send_alert(self) -> None:
        """Sends the bytes that are left, without a wait. The peer has read those before, and has responded."""
        if self.accepted is not None and (alert := self.outgoing.read()):
            with contextlib.suppress(OSError):
                self.accepted.send(alert)
