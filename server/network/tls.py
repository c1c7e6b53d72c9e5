"""Connections over TLS: the handshake, the principal of a client's certificate, and responses that hold parts of files.

- `TlsConnection`: a client's connection. asyncio calls it as it calls any connection, with what the peer's TLS has
  encrypted already decrypted.
- `CopiedSender`: large responses over TLS, which are copied, not sent from files.
- `Handshakes`: the handshakes of a listener in progress, bounded in time, in number and in what they take of the
  event loop. `Handshaking` logs the clients that fail in them, with the words of `client_failure`.
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
from ..access.tls_contexts import ListenerTls, TlsSettings, WatchedTls
from ..runtime.memory import LARGE_BYTES, release_after
from .connection import Connection, Listening, authenticated, not_authenticated
from .file_sender import Piece, joined
from .shared_parts import CALL_BYTES, TransferTurns

if TYPE_CHECKING:
    from ..access.audit import AuditLog
    from ..runtime.log_lines import RepeatedLines


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


# ---- responses copied from files
#
# Responses that hold stretches of log files, sent over TLS: read from the file, encrypted and written a chunk at a time.
#
# The socket takes nothing from a file past the encryption (Python's ssl offers no kernel TLS over a transport). A reader
# that is slow costs the chunks that the transport has taken, and not the response.
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


log = logging.getLogger("odradek.listener")


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
#: The memory of a handshake that has begun. The allocator keeps it after a failure: thousands, again and again, would leave
#: 200 MB.
HANDSHAKE_BYTES = 32 * 1024
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
        #: The memory of handshakes that have failed since the last release.
        self._failed_bytes = 0

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
        has_begun = has_ended = False
        try:
            async with asyncio.timeout(TIME_LIMIT_S) as limit:
                await self._first_record(loop, accepted)
                await self._my_turn(loop)
                has_begun = True
                await loop.connect_accepted_socket(
                    lambda: protocol,
                    accepted,
                    ssl=context,
                    ssl_handshake_timeout=max(0.1, (limit.when() or 0.0) - loop.time()),
                    ssl_shutdown_timeout=SHUTDOWN_LIMIT_S,
                )
            has_ended = True
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
            if has_begun and not has_ended:
                self._failed()

    def _failed(self) -> None:
        self._failed_bytes += HANDSHAKE_BYTES
        if self._failed_bytes >= LARGE_BYTES:
            release_after(self._failed_bytes)
            self._failed_bytes = 0

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
