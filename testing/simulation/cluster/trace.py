"""Records events in virtual time, and a hash that shows whether two runs were the same."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable

#: The number of lines kept for the report of a failure.
KEPT_LINES = 400


class Trace:
    """The trace of a run. `show` gets every line."""

    def __init__(self, clock: Callable[[], float], show: Callable[[str], None] | None = None) -> None:
        self._clock = clock
        self._show = show
        self._began = clock()
        self.hash = 0
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)

    def say(self, who: str, what: str) -> None:
        line = f"{self._clock() - self._began:10.6f} {who:>8} {what}"
        self.hash = zlib.crc32(line.encode(), self.hash)
        self.lines.append(line)
        if self._show is not None:
            self._show(line)
