"""The decisions of the last minute, from counters that each scrape looks at.

So a decision costs nothing more for being counted.
"""

from __future__ import annotations

from collections import deque

WINDOW_MS = 60_000
#: Looks that are kept: one a second and more often changes little.
_MOST_LOOKS = 128


class RecentDecisions:
    """`started_ms`: when the counters were zero."""

    def __init__(self, started_ms: int) -> None:
        self._looks: deque[tuple[int, int, int]] = deque([(started_ms, 0, 0)], _MOST_LOOKS)

    def since(self, now_ms: int, allowed: int, denied: int) -> tuple[int, int, int]:
        """Notes the counters. Returns by how much they grew, and in how many milliseconds: those since the last look that
        is a window old, or since the first one that is known.
        """
        looks = self._looks
        while len(looks) > 1 and now_ms - looks[1][0] >= WINDOW_MS:
            looks.popleft()
        then_ms, allowed_then, denied_then = looks[0]
        if now_ms - looks[-1][0] >= WINDOW_MS // _MOST_LOOKS:
            looks.append((now_ms, allowed, denied))
        return allowed - allowed_then, denied - denied_then, now_ms - then_ms
