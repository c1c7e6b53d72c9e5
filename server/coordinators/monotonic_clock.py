"""A clock that never goes back, for coordinators."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

#: How far the monotonic clock may be ahead of the time of day before it slows down.
TOLERATED_LEAD_MS = 1_000


class MonotonicClock:
    """The time of day in ms as a clock that never goes back and never stands still. Requires a running event loop.

    It times sessions and rebalances. When the time of day is set back, the clock runs at half speed until the time of
    day has caught up. When the time of day is set forward, the clock follows immediately.
    """

    __slots__ = ("_last_ms", "_loop_time", "_seen_at", "_wall_ms")

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._loop_time = asyncio.get_running_loop().time
        self._wall_ms = wall_ms
        self.restart()

    def restart(self) -> None:
        """Begins anew at the time of day."""
        self._last_ms = float(self._wall_ms())
        self._seen_at = self._loop_time()

    def __call__(self) -> int:
        at, wall_ms = self._loop_time(), self._wall_ms()
        passed_ms = (at - self._seen_at) * 1000
        self._seen_at = at
        if self._last_ms > wall_ms + TOLERATED_LEAD_MS:
            passed_ms /= 2
        self._last_ms = max(self._last_ms + passed_ms, wall_ms)
        return int(self._last_ms)
