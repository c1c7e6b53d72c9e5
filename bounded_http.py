"""An HTTP server with a thread for each connection, within limits: for few clients, as scrapers and tests are.

A request has to come whole in a time, and its response to go. With too many connections a new one ends the oldest whose
request has not come, so that silent clients keep no other client out. Where all are at their responses,
it waits for a second.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar, Union

#: As socketserver has them.
Request = Union[socket.socket, tuple[bytes, socket.socket]]
#: States of a connection: it waits for a request, takes one, or answers it.
IDLE, RECEIVING, RESPONDING = "idle", "receiving", "responding"
#: A connection that finds all others at their responses waits for one of them, before it is closed.
_ROOM_S = 1.0


class _Open:
    """An open connection, and since when it does what it does."""

    def __init__(self) -> None:
        self.part, self.since_s = RECEIVING, time.monotonic()


class BoundedServer(ThreadingHTTPServer):
    """A server of BoundedHandlers. `deadlines_s`: the longest time in each state of a connection."""

    daemon_threads = True
    #: Connections that wait to be accepted: with socketserver's 5, a burst has to connect again a second later.
    request_queue_size = 128
    most_connections: ClassVar[int] = 64
    deadlines_s: ClassVar[dict[str, float]] = {IDLE: 120.0, RECEIVING: 10.0, RESPONDING: 120.0}

    def __init__(self, address: tuple[str, int], handler: type[BoundedHandler]) -> None:
        #: The oldest first.
        self._open: dict[socket.socket, _Open] = {}
        self._lock = threading.Lock()
        #: Notified when a connection has ended or its response has gone.
        self._room = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        super().__init__(address, handler)

    def begin(self, name: str, poll_s: float) -> None:
        """Serves on a thread of that name until `end`, which waits for `poll_s` at most."""
        self._thread = threading.Thread(target=self.serve_forever, args=(poll_s,), name=name, daemon=True)
        self._thread.start()

    def end(self) -> None:
        assert self._thread is not None, "begin starts it"
        self.shutdown()
        self.server_close()
        self._thread.join()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def process_request(self, request: Request, client_address: object) -> None:
        assert isinstance(request, socket.socket)
        with self._lock:
            has_room = self._room.wait_for(self._makes_room, _ROOM_S)
            if has_room:
                self._open[request] = _Open()
        if has_room:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def _makes_room(self) -> bool:
        return len(self._open) < self.most_connections or self._end_oldest()

    def _end_oldest(self) -> bool:
        waiting = (one for one, state in self._open.items() if state.part != RESPONDING)
        oldest = next(waiting, None)
        if oldest is None:
            return False
        self._end(oldest)
        return True

    def _end(self, connection: socket.socket) -> None:
        """Has the thread of a connection read its end."""
        del self._open[connection]
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    def process_request_thread(self, request: Request, client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._open.pop(request, None)  # type: ignore[arg-type]
                self._room.notify()

    def service_actions(self) -> None:
        """Ends connections whose time is over; the loop of the server calls it."""
        now_s = time.monotonic()
        with self._lock:
            for one, state in list(self._open.items()):
                if now_s - state.since_s > self.deadlines_s[state.part]:
                    self._end(one)

    def note(self, connection: socket.socket, part: str) -> None:
        """Notes what a connection does from now on."""
        with self._lock:
            state = self._open.get(connection)
            if state is not None:
                state.part, state.since_s = part, time.monotonic()
                if part != RESPONDING:
                    self._room.notify()

    def handle_error(self, request: Request, client_address: object) -> None:
        """A client that has gone costs no line."""


class BoundedHandler(BaseHTTPRequestHandler):
    """The requests of a connection, one at a time. `received` is called once a request has come whole."""

    server: BoundedServer
    _has_had_one = False

    def handle_one_request(self) -> None:
        if self._has_had_one:
            self.server.note(self.connection, IDLE)
            with contextlib.suppress(OSError):
                self.rfile.peek(1)  # type: ignore[attr-defined]
            self.server.note(self.connection, RECEIVING)
        self._has_had_one = True
        super().handle_one_request()

    def received(self) -> None:
        self.server.note(self.connection, RESPONDING)

    def log_message(self, format: str, *arguments: object) -> None:
        """Writes nothing: requests are not logged."""
