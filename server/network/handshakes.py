"""The handshakes of a listener in progress, bounded in time, in number and in what they take of the event loop.

A connection costs a descriptor and no TLS object until its first bytes are there. They are looked at, not taken: a
peer that does not use TLS is seen at once. Then handshakes begin in the order of their first bytes, one in a turn
of the loop, since the signature of one takes up to a millisecond. Requests of other connections are served in
between.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque

from ..access.alerts import HANDSHAKING
from ..runtime.memory import LARGE_BYTES, release_after

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
                HANDSHAKING.set(accepted)
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
