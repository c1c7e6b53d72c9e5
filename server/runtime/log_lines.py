"""Limits log lines that a peer can provoke at will: the first is logged immediately, then one a minute with a count.

Lines with the same key count as the same: usually the peer's address without its port, and the reason. A peer that
varies the reason gets only a few keys. At the end of each period the counts are logged, and keys without a count
are removed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Hashable

#: The time from the first line to the counts, and between counts.
PERIOD_S = 60.0
#: The number of keys of one peer in a period; further reasons share one key.
MOST_KEYS_OF_ONE = 16
#: The number of keys in a period; further peers share one key.
MOST_KEYS = 128

_OTHERS = "other peers"


class _Seen:
    """A line of this period and its number of suppressed repetitions."""

    __slots__ = ("count", "level", "logger", "words")

    def __init__(self, logger: logging.Logger, level: int, words: str) -> None:
        self.logger = logger
        self.level = level
        self.words = words
        self.count = 0


class RepeatedLines:
    """The repeated lines of one broker."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, Hashable], _Seen] = {}
        self._keys_of: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None

    def log(
        self, logger: logging.Logger, level: int, peer: str, kind: Hashable, words: str, bug: Exception | None = None
    ) -> bool:
        """Logs `words` (with the traceback of a bug), or counts them. Returns whether the line was written.

        `peer` is an address without port, "" for lines that no peer caused.
        """
        key = (peer, kind)
        seen = self._seen.get(key)
        if seen is None and len(self._seen) >= MOST_KEYS:
            key = (_OTHERS, "")
        elif seen is None and self._keys_of[peer] >= MOST_KEYS_OF_ONE:
            key = (peer, _OTHERS)
        seen = seen or self._seen.get(key)
        if seen is not None:
            seen.count += 1
            return False
        self._seen[key] = _Seen(logger, level, words)
        self._keys_of[peer] += 1
        logger.log(level, "%s", words, exc_info=bug)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PERIOD_S, self._end_period)
        return True

    def _end_period(self) -> None:
        """Restarts the counts. A key with a count stays, so that its next line is counted too."""
        self._timer = None
        seen, self._seen = self._seen, {}
        self._keys_of.clear()
        for key, line in seen.items():
            if line.count:
                line.logger.log(line.level, "%d more like: %s", line.count, line.words)
                line.count = 0
                self._seen[key] = line
                self._keys_of[key[0]] += 1
        if self._seen:
            self._timer = asyncio.get_running_loop().call_later(PERIOD_S, self._end_period)

    def stop(self) -> None:
        """Logs the counts so far."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for line in self._seen.values():
            if line.count:
                line.logger.log(line.level, "%d more like: %s", line.count, line.words)
        self._seen.clear()
        self._keys_of.clear()
