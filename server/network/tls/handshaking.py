"""The connections of a listener between their accept and the end of their TLS handshake."""

from __future__ import annotations

import logging
import socket
import ssl
from collections import Counter
from typing import TYPE_CHECKING

from ...access.tls.failures import client_failure
from ...access.tls.handshakes import Handshakes, NoTls, TooManyHandshakes
from .connection import TLS, TlsConnection

if TYPE_CHECKING:
    from ...access.audit import AuditLog
    from ...runtime.log_lines import RepeatedLines

log = logging.getLogger("odradek.listener")


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
