"""Counters of damaged records: found by the scrubber and readers, and healed. A scrape reads them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable

log = logging.getLogger("odradek.damage")
#: The same damage is logged at most once in this time, however many readers meet it.
QUIET_S = 60.0
#: The number of different log lines remembered for that.
MOST_REMEMBERED = 1000


class DamageCounters:
    """The damage counters of one broker. The logs' registries (`Log.damage`) hold the current damage."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        # Looked up at run time: a simulation replaces time.monotonic.
        self._clock = clock or time.monotonic
        self._said: dict[Hashable, float] = {}
        self.ranges_found = 0
        self.ranges_healed = 0
        self.bytes_healed = 0
        self.healings_failed = 0
        self.reads_rejected = 0
        #: Batches with a wrong CRC, or without a valid batch, that a follower on this broker fetched from a leader.
        self.bad_fetches = 0
        self.indexes_rebuilt = 0
        self.scrubbed_bytes = 0
        self.scrubbed_segments = 0
        self.scrub_rounds = 0
        #: The end of the last complete round, in ms since 1970; 0 before the first.
        self.last_round_ms = 0
        self.last_round_took_ms = 0

    def say(self, key: Hashable, words: str, *arguments: object, level: int = logging.ERROR) -> None:
        """Logs one line, unless a line with this key was logged a short while ago."""
        now = self._clock()
        if now - self._said.get(key, -QUIET_S) < QUIET_S:
            return
        if len(self._said) >= MOST_REMEMBERED:
            del self._said[next(iter(self._said))]
        self._said.pop(key, None)
        self._said[key] = now
        log.log(level, words, *arguments)
