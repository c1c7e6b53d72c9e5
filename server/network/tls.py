"""Connections over TLS: the handshake, the principal of a client's certificate, and answers that hold parts of files.

- `authenticated` and `not_authenticated` give a connection its principal, or end it. A class of a user's own may make
  the principals (`principal.builder.class`); `context_of` is its argument.
- `TlsConnection`: a client's connection. asyncio calls it as it calls any connection, with what the peer's TLS has
  encrypted already decrypted.
- `CopiedSender`: large answers over TLS, which are copied, not sent from files.
- `Handshaking`: the handshakes of a listener, and the clients that fail in them.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
from collections import Counter, deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...storage.segments.segment import LogSlice
from ..access.principals import AuthenticationContext, NoPrincipal, built
from ..access.tls.contexts import Handshakes, NoTls, TooManyHandshakes, WatchedTls, client_failure
from ..access.tls.listener_tls import ListenerTls
from .connection import Connection, Listening
from .file_sender import Piece, joined
from .shared_parts import CALL_BYTES, TransferTurns

if TYPE_CHECKING:
    from ..access.audit import AuditLog
    from ..config.broker_config import BrokerConfig
    from ..runtime.log_lines import RepeatedLines


# ---- principals of connections


def context_of(
    connection: Connection,
    transport: asyncio.BaseTransport,
    principal: str,
    mechanism: str = "",
    authorization_id: str = "",
) -> AuthenticationContext:
    """Returns the argument of the builder. `principal`: the one that Kafka's default class makes."""
    found = transport.get_extra_info("ssl_object")
    config: BrokerConfig = connection.listener.shared.config
    return AuthenticationContext(
        connection.listener_name,
        config.listeners.protocols[connection.listener_name],
        connection.client_host.lstrip("/"),
        principal,
        mechanism,
        authorization_id,
        found.getpeercert(True) if found is not None else None,
    )


def authenticated(
    connection: Connection, transport: asyncio.BaseTransport, principal: str, mechanism: str = ""
) -> None:
    """Gives a connection without SASL its principal, or ends it. `mechanism`: for the audit log."""
    builder = connection.listener.principal_builder
    if builder is None:
        connection.principal = principal
        return
    try:
        connection.principal = built(builder, context_of(connection, transport, principal))
    except NoPrincipal as error:
        not_authenticated(connection, mechanism, str(error))


def not_authenticated(connection: Connection, mechanism: str, reason: str) -> None:
    """Ends a connection whose client did not prove who it is."""
    audit = connection.listener.shared.audit
    audit.failed_authentication(connection.client_host, connection.listener_name, mechanism, reason)
    connection.close_for(reason)


# ---- connections

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


# ---- answers copied from files
#
# Answers that hold stretches of log files, sent over TLS: read from the file, encrypted and written a chunk at a time.
#
# The socket takes nothing from a file past the encryption (Python's ssl offers no kernel TLS over a transport). A reader
# that is slow costs the chunks that the transport has taken, and not the answer.
#: Bytes that are read and encrypted at once: eight records of TLS. They stay in the processor's cache between the two.
CHUNK_BYTES = 128 << 10
#: Reads of files for one chunk: some 10 us each.
CHUNK_READS = 64
#: To encrypt a byte costs as much as to copy two: so a byte counts twice in the bytes of a turn.
COST = 2

#: All senders read into it: a transport with TLS encrypts what it is given before `write` returns.
_chunk = memoryview(bytearray(CHUNK_BYTES))


class CopiedSender:
    """Sends pieces in order: bytes, and `LogSlice`s. `drained` is called when all is sent after it had to wait; `failed`
    when a file is no good any more. The connection sets `is_paused` while its transport takes no more.
    """

    __slots__ = (
        "_drained",
        "_failed",
        "_is_scheduled",
        "_pieces",
        "_position",
        "_transport",
        "_turns",
        "_waited",
        "is_paused",
    )

    def __init__(
        self,
        transport: asyncio.WriteTransport,
        turns: TransferTurns,
        drained: Callable[[], None],
        failed: Callable[[OSError], None],
    ) -> None:
        self.is_paused = False
        self._turns = turns
        self._transport = transport
        self._drained = drained
        self._failed = failed
        self._pieces: deque[Piece] = deque()
        #: How much of the first piece has been sent.
        self._position = 0
        self._waited = self._is_scheduled = False

    @property
    def is_busy(self) -> bool:
        return bool(self._pieces)

    def send(self, pieces: list[Piece]) -> None:
        is_first = not self._pieces
        self._pieces += joined(pieces)
        if is_first:
            self._waited = False
            self._push()

    def resume(self) -> None:
        """The transport takes more."""
        self.is_paused = False
        if self._pieces and not self._is_scheduled:
            self._push()

    def _push(self) -> None:
        self._is_scheduled = False
        pieces, turns = self._pieces, self._turns
        while pieces and turns.left > 0 and not self.is_paused:
            try:
                size, reads = self._fill_chunk()
            except OSError as error:
                self.close()
                self._failed(error)
                return
            turns.spend(COST * size + CALL_BYTES * reads)
            if size:
                self._transport.write(_chunk[:size])
        if pieces:
            self._waited = True
            if not self.is_paused:
                self._is_scheduled = True
                turns.wait(self._push)
        elif self._waited:
            self._waited = False
            self._drained()

    def _fill_chunk(self) -> tuple[int, int]:
        """Takes what comes next into the chunk, until it is full: a short piece is no record of TLS and no write of its
        own. Returns the bytes in it, and how many reads of files they took.
        """
        pieces, position, size, reads = self._pieces, self._position, 0, 0
        while pieces and size < CHUNK_BYTES and reads < CHUNK_READS:
            piece = pieces[0]
            count = min(CHUNK_BYTES - size, len(piece) - position)
            if type(piece) is LogSlice:
                count = self._read(piece, position, _chunk[size : size + count]) if count else 0
                reads += 1
            else:
                _chunk[size : size + count] = memoryview(piece)[position : position + count]
            size += count
            position += count
            if position >= len(piece):
                pieces.popleft()
                position = 0
        self._position = position
        return size, reads

    @staticmethod
    def _read(piece: LogSlice, position: int, room: memoryview) -> int:
        found = os.preadv(piece.fd, [room], piece.position + position)
        if not found:
            raise OSError(errno.EIO, f"{piece!r}: the file ends too early")
        return found

    def close(self) -> None:
        self._pieces.clear()


# ---- handshakes

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
