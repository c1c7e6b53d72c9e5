"""A clock that stands at a time until the test sets another."""

from __future__ import annotations

from odradek.server.runtime.clock import Clock


class SetClock(Clock):
    """`time_ms`: the milliseconds since 1970."""

    __slots__ = ("time_ms",)

    def __init__(self, time_ms: int = 0) -> None:
        super().__init__(lambda: self.time_ms / 1000)
        self.time_ms = time_ms

    def now_ms(self) -> int:
        return self.time_ms
