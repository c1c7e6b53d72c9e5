"""The reasons for which a connection takes no request: it may be held for several at once.

Reasons are a call whose response may be large (it is released by its answer), the connection's share of the turn of the
loop, the bytes of a turn, the rate of new connections, and the quotas of clients (KIP-219). Reading goes on when none is
left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

from ..runtime.clock import TIMER_RESOLUTION_S

#: The connection has had its share of this turn of the loop.
TURN = "turn"
#: The bytes that connections move in this turn of the loop are used up (transfer_turns.py).
RECEIVING = "receiving"
#: Connections are created faster than `max.connection.creation.rate` allows.
CREATION_RATE = "creation rate"
#: The client is over a quota.
MUTED = "muted"


class HeldConnection(asyncio.BufferedProtocol):
    """A connection that can be held."""

    __slots__ = ("_holds", "_muted_until_s", "_unmuting")

    def __init__(self) -> None:
        #: A tuple, because an empty one takes neither memory nor time.
        self._holds: tuple[Hashable, ...] = ()
        self._muted_until_s = 0.0
        self._unmuting: asyncio.TimerHandle | None = None

    def hold(self, reason: Hashable) -> None:
        """Takes no request before `reason` is released. A call is released by its answer."""
        if reason not in self._holds:
            self._holds += (reason,)

    def release(self, reason: Hashable) -> None:
        """Takes requests again if `reason` was the last one to hold the connection."""
        if reason in self._holds:
            self._drop_hold(reason)
            self._resume()

    def mute(self, time_ms: int) -> None:
        """Takes no request for at least that time: the client is over a quota (KIP-219)."""
        loop = asyncio.get_running_loop()
        delay_s = time_ms / 1000 + TIMER_RESOLUTION_S
        until_s = loop.time() + delay_s
        if self._unmuting is not None:
            if until_s <= self._muted_until_s:
                return
            self._unmuting.cancel()
        self._muted_until_s = until_s
        self.hold(MUTED)
        self._unmuting = loop.call_later(delay_s, self._unmute)

    def _unmute(self) -> None:
        self._unmuting = None
        self.release(MUTED)

    def _drop_holds(self) -> None:
        """Forgets all reasons at the end of the connection: a throttle may be days long, and its timer keeps the object."""
        self._holds = ()
        if self._unmuting is not None:
            self._unmuting.cancel()
            self._unmuting = None

    def _drop_hold(self, reason: Hashable) -> None:
        """Removes a reason; `_holds` has at least one."""
        holds = self._holds
        if len(holds) > 1:
            self._holds = tuple(one for one in holds if one is not reason)
        elif holds[0] is reason:
            self._holds = ()

    def _resume(self) -> None:
        """Goes on reading if nothing stands against it any more."""
        raise NotImplementedError
