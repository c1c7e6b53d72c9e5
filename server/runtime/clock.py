"""The time of a broker, which a simulation replaces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import time

#: A timer of uvloop may fire this much early: it counts whole milliseconds of a clock that is rounded down. What promises
#: a time to a client adds it.
TIMER_RESOLUTION_S = 0.001


class Clock:
    """Wall-clock time, and calls at a time of it.

    `seconds` returns the seconds since 1970.
    """

    __slots__ = ("_seconds", "is_system")

    def __init__(self, seconds: Callable[[], float] = time) -> None:
        #: Whether it goes as the system's clocks go.
        self.is_system = seconds is time and type(self) is Clock
        self._seconds = seconds

    def now_ms(self) -> int:
        """Returns the milliseconds since 1970."""
        return int(self._seconds() * 1000)

    def call_at(self, deadline_ms: int, function: Callable[[], object]) -> asyncio.TimerHandle:
        """Calls `function` on the loop at that time (ms since 1970); `.cancel()` of what is returned prevents it."""
        delay_s = deadline_ms / 1000 - self._seconds()
        return asyncio.get_running_loop().call_later(max(0.0, delay_s), function)
