"""A client's connection over TLS.

asyncio calls it as it calls any connection, with what the peer has encrypted already decrypted.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..access.renegotiation import WatchedTls
from .client_principals import authenticated, not_authenticated
from .connection import Connection
from .copied_sender import CopiedSender

if TYPE_CHECKING:
    from ..access.listener_tls import ListenerTls
    from .file_sender import Piece
    from .listening import Listening

#: The mechanism of clients that are authenticated by their certificates, for the audit log.
TLS = "TLS"


class TlsConnection(Connection):
    """`tls`: that of the listener when the connection was accepted."""

    __slots__ = ("tls",)

    def __init__(self, listener: Listening, tls: ListenerTls) -> None:
        super().__init__(listener)
        self.tls = tls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self.closed:
            return
        found = transport.get_extra_info("ssl_object")
        if not self.tls.allows_cipher(found):
            not_authenticated(self, TLS, f"its cipher suite {found.cipher()[0]} is not in ssl.cipher.suites")
            return
        if isinstance(found, WatchedTls):
            found.on_renegotiation = self._renegotiates
        if self.sasl_gate is not None:
            return  # SASL authenticates the client
        try:
            principal = self.tls.principal_of(found)
        except ValueError as error:  # NoMatchingRule, or a subject that cannot be read
            not_authenticated(self, TLS, f"its certificate gives no principal: {error}")
            return
        authenticated(self, transport, principal, TLS)

    def connection_lost(self, exc: Exception | None) -> None:
        found = self._transport.get_extra_info("ssl_object")
        if isinstance(found, WatchedTls):
            found.on_renegotiation = None  # else each keeps the other in memory
        super().connection_lost(exc)

    def _renegotiates(self) -> None:
        """Closes the connection once the read that found it has ended, and its warning is sent."""
        asyncio.get_running_loop().call_soon(self._reject_renegotiation)

    def _reject_renegotiation(self) -> None:
        if not self.closed:
            self.drop_for("it renegotiates TLS, which is not allowed")

    def pause_writing(self) -> None:
        super().pause_writing()
        if isinstance(self._sender, CopiedSender):
            self._sender.is_paused = True

    def resume_writing(self) -> None:
        if isinstance(self._sender, CopiedSender):
            self._sender.resume()
        super().resume_writing()

    def _send_large(self, out: list[Piece]) -> None:
        """Never past the transport: the socket itself is not encrypted."""
        if self._sender is None:
            sender = CopiedSender(self._transport, self._transfers, self._resume, self._sending_failed)
            sender.is_paused = not self._peer_reads
            self._sender = sender
        self._sender.send(out)
