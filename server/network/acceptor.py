"""Accepting connections, a bounded number per turn of the event loop, each with a decision before it costs anything.

The event loop's own `create_server` accepts all that waits in one turn, without a callback before it takes descriptors.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ...storage.files.descriptors import SPARES

if TYPE_CHECKING:
    from .addresses import Address

log = logging.getLogger("odradek.listener")

#: Connections that are accepted in one turn: setting one up takes some 0.1 ms, and requests wait meanwhile.
ACCEPTS_PER_TURN = 16
#: While more wait than a turn accepts, and the turns are long because those that were accepted are busy, accepting gets
#: a third of the loop's time, and this many a turn at most. With 16 the last of a thousand would wait for 60 long turns.
MOST_ACCEPTS_PER_TURN = 128
_SECONDS_PER_ACCEPT = 0.0003
#: The same where connections begin with a TLS handshake. To the end of its handshake one takes up to a millisecond, and
#: peers may come by the thousand to stall theirs.
SECURED_ACCEPTS_PER_TURN = 1
#: After an accept for which there was no descriptor or no memory. The connection stays in the system's queue.
PAUSE_S = 0.1

_SHORTAGE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Acceptor:
    """A listening socket. `decide` gets each accepted socket and its peer's address, and returns the protocol that
    serves it, or None to have it closed at once. `failed` gets a protocol whose connection could not be set up.
    `short` is called with the error when the system has no descriptors left to accept with. `connect` connects the
    protocol and the socket where that takes more than a transport; it raises OSError.
    """

    def __init__(
        self,
        listening: socket.socket,
        decide: Callable[[socket.socket, Address], asyncio.BaseProtocol | None],
        failed: Callable[[Any], None],
        short: Callable[[OSError], None],
        connect: Callable[[Any, socket.socket], Awaitable[object]] | None = None,
        accepts_per_turn: int = ACCEPTS_PER_TURN,
    ) -> None:
        self._listening = listening
        self._decide = decide
        self._connect = connect
        self._accepts_per_turn = accepts_per_turn
        self._failed = failed
        self._short = short
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None
        #: When the last turn left connections waiting; None when it left none.
        self._left_some_s: float | None = None

    def start(self, backlog: int) -> None:
        self._listening.setblocking(False)
        self._listening.listen(backlog)
        self._resume()

    def close(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        if self._listening.fileno() >= 0:
            self._loop.remove_reader(self._listening.fileno())
            self._listening.close()

    async def wait_closed(self) -> None:
        """Ends the handshakes that are in progress; returns when all connections that were accepted are set up or closed."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listening.fileno(), self._accept)

    def _accept(self) -> None:
        before_s, self._left_some_s = self._left_some_s, self._loop.time()
        for _ in range(self._accepts_now(before_s)):
            try:
                accepted, address = self._listening.accept()
            except BlockingIOError:
                self._left_some_s = None
                return
            except OSError as error:
                if error.errno in _SHORTAGE:
                    self._wait(error)
                    return
                continue  # this connection ended before it was accepted, as accept(2) reports in many ways
            protocol = self._decide(accepted, address)
            if protocol is None:
                accepted.close()
                continue
            task = self._loop.create_task(self._set_up(protocol, accepted))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _accepts_now(self, before_s: float | None) -> int:
        """Returns how many connections this turn accepts. `before_s`: when the last turn left some."""
        count = self._accepts_per_turn
        elapsed_s = 0.0 if before_s is None else self._loop.time() - before_s
        if count < ACCEPTS_PER_TURN or elapsed_s > PAUSE_S:
            return count  # the loop was idle in between
        return min(MOST_ACCEPTS_PER_TURN, max(count, int(elapsed_s / _SECONDS_PER_ACCEPT)))

    def _wait(self, error: OSError) -> None:
        """Nothing can be accepted now, and the socket would be readable all the time."""
        self._loop.remove_reader(self._listening.fileno())
        self._pause = self._loop.call_later(PAUSE_S, self._resume)
        SPARES.fill()
        self._short(error)

    async def _set_up(self, protocol: asyncio.BaseProtocol, accepted: socket.socket) -> None:
        try:
            accepted.setblocking(False)
            if self._connect is None:
                await self._loop.connect_accepted_socket(lambda: protocol, accepted)
            else:
                await self._connect(protocol, accepted)
        except (OSError, asyncio.CancelledError) as error:
            log.debug("a connection was not set up: %s", error)
            accepted.close()
            self._failed(protocol)
