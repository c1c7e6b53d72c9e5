"""The time budget for one turn of the event loop, and the watch for turns that exceed it.

One event loop serves all clients of a broker: while a request holds the loop, all others wait. So one request holds it
for TURN_BUDGET_S at most. Longer work runs in slices or on a thread.

The watch costs a connection two clock readings per received data, and nothing else until a turn is too long.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable

from ...client.shown_text import shown
from ...protocol.apis import APIS

log = logging.getLogger("odradek.turns")
#: A well-behaved client should not notice a hostile one: Kafka's clients time requests in tens of milliseconds at best.
TURN_BUDGET_S = 0.020
#: The time of a slice of long work. A quarter of the budget: the last step of a slice, and other work due in the same
#: turn, add to it.
SLICE_S = TURN_BUDGET_S / 4
#: Longer turns are logged as warnings, since a person may notice them. Shorter ones appear with `-v` and in the metric:
#: on a busy machine a turn lasts longer than its work, and the first request of an API creates its codec.
WARNED_TURN_S = 0.100
#: At most one line per level in this time; the turns between two lines are counted.
LOG_INTERVAL_S = 10.0
#: Returns the time in seconds.
Stopwatch = Callable[[], float]


class TurnWatch:
    """Counts the turns of one broker that took longer than the budget, and logs some of them.

    `clock`: the clock that times this broker's turns.
    """

    def __init__(self, clock: Stopwatch) -> None:
        self.clock = clock
        #: By log level.
        self._logged_at_s = {logging.INFO: -LOG_INTERVAL_S, logging.WARNING: -LOG_INTERVAL_S}
        self._unlogged = {logging.INFO: 0, logging.WARNING: 0}
        #: Turns over the budget, by API ("" where no request was running).
        self.counts: dict[str, int] = {}
        #: The longest turn over the budget, in seconds.
        self.longest_s = 0.0

    @property
    def count(self) -> int:
        return sum(self.counts.values())

    def exceeded_by_frame(
        self, took_s: float, client_id: str | None, buffer: bytearray | memoryview, pos: int, size: int
    ) -> None:
        """Notes that the request in buffer[pos:pos + size] held the loop for longer than the budget."""
        key, version = struct.unpack_from(">hh", buffer, pos)
        api = APIS.get(key)
        self.exceeded(took_s, api.name if api is not None else str(key), version, client_id, size)

    def exceeded(self, took_s: float, api: str, version: int, client_id: str | None, size: int) -> None:
        """Notes a turn over the budget. `size`: bytes of the request."""
        self.counts[api] = self.counts.get(api, 0) + 1
        self.longest_s = max(self.longest_s, took_s)
        level = logging.WARNING if took_s >= WARNED_TURN_S else logging.INFO
        now_s = self.clock()
        if now_s - self._logged_at_s[level] < LOG_INTERVAL_S:
            self._unlogged[level] += 1
            return
        log.log(
            level,
            "%s v%s request of %s bytes from client %s blocked the event loop for %.0f ms; the budget is %.0f ms "
            "(%s more such requests since the last line)",
            *(api, version, size, shown(client_id), took_s * 1000, TURN_BUDGET_S * 1000, self._unlogged[level]),
        )
        self._logged_at_s[level], self._unlogged[level] = now_s, 0
