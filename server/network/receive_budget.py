"""The memory for requests that have not come whole, bounded for all connections together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Protocol

from ..runtime.memory import release_after

#: The budget where queued.max.request.bytes is not set: two of the largest requests (socket.request.max.bytes) and a half,
#: or 256 requests of a megabyte at once.
DEFAULT_BYTES = 256 << 20
#: Requests that need no turn. Most are smaller, and a thousand connections that hold as much have 16 MB.
SMALL_REQUEST_BYTES = 16 * 1024
#: A request takes the turn of one that is so many times larger. Turns that are taken from one another add up to a third of
#: the largest request then.
MUCH_SMALLER = 4
#: How often progress is looked at while the budget is used up; a turn without any ends.
TICK_S = 0.25
#: The progress of a request within `STALLED_TICKS`, while others wait for memory; slower ones end. A link that
#: carries requests so large is faster.
LEAST_PROGRESS_BYTES = 16 * 1024
STALLED_TICKS = 20
#: The most that one read takes while the budget is used up.
SMALL_READ_BYTES = 4096


class ReceivingConnection(Protocol):
    """A connection that receives requests into a buffer of its own."""

    max_frame_bytes: int

    @property
    def awaits_rest(self) -> bool:
        """True while the peer has sent only a part of a frame."""

    @property
    def needed(self) -> int:
        """The bytes of that frame when it is whole."""

    @property
    def received(self) -> int:
        """The bytes of it that have come."""

    def on_memory_available(self) -> None:
        """Goes on receiving if there is memory now."""

    def drop_for(self, reason: str) -> None:
        """Ends the connection."""


class ReceivingListener(Protocol):
    """A listener, with the buffer that its connections read into."""

    connections: Any
    read_buffer: bytearray
    read_view: memoryview


class ReceiveBudget:
    """The bytes that connections hold in their own buffers, and the connections that wait for some.

    A connection's own buffer grows to at most four times the received bytes, so an announced size costs nothing. But
    received bytes add up: a thousand connections may each send the half of a request of 100 MB. So buffers are
    counted against `queued.max.request.bytes`. When that is used up,

    - requests up to `SMALL_REQUEST_BYTES` are received all the same;
    - of the larger ones, one connection at a time may grow further, the one with the smallest request first. Its turn
      ends when its request is whole, or makes no progress, or when a much smaller request comes;
    - the others wait: they are not read, and their peers feel TCP's window;
    - requests that have stopped coming are ended, with their connections;
    - reads into the shared buffer become small, so that a connection which cannot be served now keeps little.

    `max_bytes`: queued.max.request.bytes, of which -1 is our own default.
    """

    def __init__(self, max_bytes: int, listeners: Iterable[ReceivingListener]) -> None:
        self._listeners = listeners
        self.limit = max_bytes if max_bytes > 0 else DEFAULT_BYTES
        self.taken = 0
        #: Connections whose request cannot grow now, in the order in which they came to that.
        self._waiting: dict[ReceivingConnection, None] = {}
        #: The connection whose turn it is to grow past the limit.
        self._turn: ReceivingConnection | None = None
        #: How far each request was, and for how many ticks it made no progress.
        self._progress: dict[ReceivingConnection, tuple[int, int]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def may_grow(self, connection: ReceivingConnection, count: int) -> bool:
        """Takes `count` more bytes, or has the connection wait: its `on_memory_available` is called."""
        if self.taken + count > self.limit and connection.needed > SMALL_REQUEST_BYTES:
            turn = self._turn
            if turn is not None and turn is not connection and turn.needed < MUCH_SMALLER * connection.needed:
                self._waiting[connection] = None
                return False
            self._turn = connection
            self._watch()
        self.taken += count
        return True

    def take(self, count: int) -> None:
        """Counts bytes that have arrived already, and must be kept."""
        self.taken += count
        if self.taken > self.limit:
            self._watch()

    def give_back(self, connection: object, count: int) -> None:
        """The connection's request is whole or written, or the connection has ended."""
        self.taken -= count
        release_after(count)
        if self._turn is connection:
            self._turn = None
        if self._waiting and self._turn is None:
            asyncio.get_running_loop().call_soon(self._wake)

    def forget(self, connection: ReceivingConnection) -> None:
        """The connection has ended."""
        self._waiting.pop(connection, None)
        self._progress.pop(connection, None)

    def _wake(self) -> None:
        """Has those go on that were waiting, the smallest requests first, for as long as there is room."""
        for connection in sorted(self._waiting, key=lambda waiting: waiting.needed):
            if self._turn is not None:
                return
            del self._waiting[connection]
            connection.on_memory_available()

    def _watch(self) -> None:
        if self._timer is None:
            self._read_at_most(SMALL_READ_BYTES)
            self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        """Ends connections whose frames have stopped arriving, while the budget is used up."""
        self._timer = None
        if self._turn is None and self.taken <= self.limit:
            self._progress.clear()
            self._read_at_most(None)
            return
        before, self._progress = self._progress, {}
        for connection in [one for listener in self._listeners for one in listener.connections]:
            if connection.awaits_rest:
                self._inspect(connection, *before.get(connection, (connection.received, -1)))
        if self._turn is not None and not self._turn.awaits_rest:
            self._end_turn()  # it has to wait for something else
        self._timer = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _inspect(self, connection: ReceivingConnection, received: int, ticks: int) -> None:
        """`received`: how far its request was `ticks` ago, when it last made progress."""
        if connection.received - received >= LEAST_PROGRESS_BYTES:
            received, ticks = connection.received, -1
        ticks += 1
        has_turn = connection is self._turn
        if ticks >= STALLED_TICKS or (ticks and has_turn and self.taken > self.limit + connection.max_frame_bytes):
            connection.drop_for("its request is incomplete and stalled, and the memory for requests is used up")
            return
        self._progress[connection] = received, ticks
        if ticks and has_turn:
            self._end_turn()

    def _end_turn(self) -> None:
        self._turn = None
        self._wake()

    def _read_at_most(self, count: int | None) -> None:
        for listener in self._listeners:
            listener.read_view = memoryview(listener.read_buffer)[:count]

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
