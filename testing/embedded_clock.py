"""`broker.clock`: the clock of a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .clock import catch_up, move

if TYPE_CHECKING:
    from .completion import Completion
    from .run_holder import RunHolder


class EmbeddedClock:
    """`broker.clock`: the time of the broker, or of all brokers of a cluster."""

    def __init__(self, embedded: RunHolder) -> None:
        self._embedded = embedded

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, milliseconds: float = 0
    ) -> Completion[None]:
        """Advances the clock and runs due timers: retention, session timeouts, transactional expiry, locks.

        Blocks or is awaited. Raises ValueError for a time of 0 or less.
        """
        ahead_s = _seconds(days, hours, minutes, seconds, milliseconds)
        if ahead_s <= 0:
            raise ValueError(f"advance() needs more than 0 s, not {ahead_s:g} s: use jump() to set the clock back")
        run = self._embedded._here()

        async def advance() -> None:
            move(run.clock, run.servers.values(), ahead_s)
            await catch_up(run.servers.values())

        return self._embedded._do("clock.advance()", advance)

    def jump(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, milliseconds: float = 0
    ) -> Completion[None]:
        """Sets the clock forward or back, as an administrator does. The periodic tasks of logs keep their times."""
        run = self._embedded._here()

        async def jump() -> None:
            move(run.clock, run.servers.values(), _seconds(days, hours, minutes, seconds, milliseconds))

        return self._embedded._do("clock.jump()", jump)

    @property
    def offset_seconds(self) -> float:
        """How far the clock is ahead of real time, in seconds."""
        return self._embedded._here().clock.offset_s

    @property
    def now_ms(self) -> int:
        """The broker's time, in ms since 1970."""
        return self._embedded._here().clock.now_ms()


def _seconds(days: float, hours: float, minutes: float, seconds: float, milliseconds: float) -> float:
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds + milliseconds / 1000
