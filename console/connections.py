"""Connections of browsers, each within limits: a request has to come whole in a time, and an address has a part of them.

Under a flood a new connection ends the oldest one whose request has not come yet, so that slow requests keep no browser out.
When all are at work, a few more are accepted for the health alone.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, ClassVar

import h11
from starlette.responses import PlainTextResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from .access.guard import HEALTH

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from .handshakes import HandshakeListener

#: Connections of all addresses, and of one: a browser has six, and a proxy those of all its users.
MOST_CONNECTIONS, MOST_OF_ADDRESS = 500, 100
#: Connections beyond them, for the health.
SPARE_CONNECTIONS = 20
#: Times for the head of a request, for its body, and for a viewer to take a part of the response.
HEAD_S, BODY_S, READING_S = 10.0, 30.0, 30.0


class Connections:
    """The open connections of a server, the oldest first. `listener`: of those that are in a handshake."""

    def __init__(self, listener: HandshakeListener | None = None) -> None:
        self._listener = listener
        self._open: dict[LimitedProtocol, None] = {}
        self._of_address: Counter[str] = Counter()

    def handshake_ended(self, protocol: LimitedProtocol) -> None:
        accepted = protocol.transport.get_extra_info("socket")
        if self._listener is not None and accepted is not None:
            self._listener.ended(accepted.fileno())

    def admit(self, protocol: LimitedProtocol) -> bool:
        """Counts a new connection, and ends an old one where there are too many. Returns whether it may stay."""
        self._open[protocol] = None
        self._of_address[protocol.address] += 1
        of_address = self._of_address[protocol.address]
        if of_address > MOST_OF_ADDRESS:
            has_room = self._end_oldest(lambda one: one is not protocol and one.address == protocol.address)
        else:
            has_room = len(self._open) <= MOST_CONNECTIONS or self._end_oldest(lambda one: one is not protocol)
        if has_room:
            return True
        protocol.serve_health_alone()
        return (
            of_address <= MOST_OF_ADDRESS + SPARE_CONNECTIONS
            and len(self._open) <= MOST_CONNECTIONS + SPARE_CONNECTIONS
        )

    def _end_oldest(self, is_chosen: Callable[[LimitedProtocol], bool]) -> bool:
        oldest = next((one for one in self._open if one.is_waiting and is_chosen(one)), None)
        if oldest is None:
            return False
        self.remove(oldest)
        oldest.transport.abort()
        return True

    def remove(self, protocol: LimitedProtocol) -> None:
        if protocol in self._open:
            del self._open[protocol]
            self._of_address[protocol.address] -= 1
            if not self._of_address[protocol.address]:
                del self._of_address[protocol.address]


class LimitedProtocol(H11Protocol):
    """A connection. `open_connections`: those of its server."""

    open_connections: ClassVar[Connections]

    address = ""
    _timer: asyncio.TimerHandle | None = None
    #: The part of a request that the timer is for: `head`, `body` or none.
    _part = ""
    _reading: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether no request of it is at work."""
        return self.conn.their_state is not h11.DONE or self.cycle is None or self.cycle.response_complete

    def serve_health_alone(self) -> None:
        self.app = _health_alone(self.app)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.open_connections.handshake_ended(self)
        self.address = self.client[0] if self.client else ""
        self._time("head")
        if not self.open_connections.admit(self):
            self.open_connections.remove(self)
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.open_connections.remove(self)
        self._time("")
        if self._reading is not None:
            self._reading.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        state = self.conn.their_state
        if state is h11.DONE and self.cycle is not None and self.conn.trailing_data[0]:
            self.cycle.keep_alive = (
                False  # browsers send no request before the last response: one response, and no more
            )
        self._time("head" if state is h11.IDLE else "body" if state is h11.SEND_BODY else "")

    def _time(self, part: str) -> None:
        """Sets the timer for a part of a request, unless it runs: a byte now and then makes it no longer."""
        if part == self._part:
            return
        self._part = part
        if self._timer is not None:
            self._timer.cancel()
        seconds = {"head": HEAD_S, "body": BODY_S}.get(part)
        self._timer = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reading = self.loop.call_later(READING_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()


def protocol_of(connections: Connections) -> type[LimitedProtocol]:
    """The protocol of one server's connections."""
    return type("ConsoleProtocol", (LimitedProtocol,), {"open_connections": connections})


def _health_alone(app: ASGIApp) -> ASGIApp:
    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == HEALTH:
            await app(scope, receive, send)
        else:
            await PlainTextResponse("The console has too many connections: try again.\n", 503)(scope, receive, send)

    return served
