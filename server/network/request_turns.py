"""The requests that one turn of the loop handles, for all connections together.

A turn takes the requests of all connections that are readable, in the order in which they came, and its responses are
sent at its end. If 200 connections of one application send at once, that is 10 ms, and the request of another client
waits for all of them. So a turn handles requests for REQUESTS_PER_TURN_S. The rest of them wait by client, an entity of
quotas: each turn handles some of them, one connection of each client in rotation, and takes in what has come meanwhile.
Clients that wait for nothing else wait no longer by this: their requests are handled in their order.
A client that is alone gains nothing, and short turns take more writes of logs: its requests do not wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from typing import Protocol

#: The time of one turn, twice: that of requests that have come, and of those that wait. One request takes some 50 us; each
#: turn of the loop costs as much.
REQUESTS_PER_TURN_S = 0.001
#: Several clients take turns for so long after two of them met in a full turn.
SEVERAL_CLIENTS_S = 1.0


class WaitingConnection(Protocol):
    """A connection with a whole request."""

    def handle_waiting(self) -> None:
        """Handles the requests that wait."""

    def abort(self) -> None:
        """Ends the connection."""


class RequestTurns:
    """The turns of one loop. `is_full`: requests are to wait. `left_s`: connections take the time of each request from it,
    and call `check` when nothing is left.

    A turn that takes little time costs no callback: the time that is left may be that of several turns.
    """

    __slots__ = ("_clock", "_is_scheduled", "_latest", "_several_until_s", "_waiting", "is_full", "left_s")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        #: By client: those whose turn comes next first.
        self._waiting: dict[Hashable, deque[WaitingConnection]] = {}
        self._is_scheduled = False
        #: The client of the latest request in a full turn.
        self._latest: Hashable = None
        self._several_until_s = 0.0
        self.is_full = False
        self.left_s = REQUESTS_PER_TURN_S / 2

    def are_several(self, client: Hashable) -> bool:
        """Notes a request of the client in a full turn. Returns whether several clients have sent requests recently."""
        now_s = self._clock()
        if client != self._latest:
            if self._latest is not None:
                self._several_until_s = now_s + SEVERAL_CLIENTS_S
            self._latest = client
        return now_s < self._several_until_s

    def check(self) -> None:
        """The turn is full if it is still that of the last check."""
        self.left_s = REQUESTS_PER_TURN_S / 2
        if self._is_scheduled:
            self.is_full = True
        else:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def wait(self, client: Hashable, connection: WaitingConnection) -> None:
        """Has the connection's requests wait behind those of the same client. It does not wait yet, and the turn is full."""
        queue = self._waiting.get(client)
        if queue is None:
            queue = self._waiting[client] = deque()
        queue.append(connection)

    def _begin_turn(self) -> None:
        self._is_scheduled = False
        try:
            if self._waiting:
                self._handle_waiting()
        finally:
            self.left_s = REQUESTS_PER_TURN_S / 2
            self.is_full = bool(self._waiting)
            if self.is_full and not self._is_scheduled:
                self._is_scheduled = True
                asyncio.get_running_loop().call_soon(self._begin_turn)

    def _handle_waiting(self) -> None:
        waiting, clock = self._waiting, self._clock
        until_s = clock() + REQUESTS_PER_TURN_S
        while waiting:
            client = next(iter(waiting))
            queue = waiting.pop(client)
            connection = queue.popleft()
            if queue:
                waiting[client] = queue  # behind the others
            try:
                connection.handle_waiting()
            except BaseException:
                connection.abort()
                raise
            if clock() >= until_s:
                break
