"""Rates over windows of time and token buckets, and the throttle time of each.

`Rate` is that of client quotas, `SimpleRate` that of replication, links and the remote store, as in Kafka's classes of these
names: both keep the same windows, and divide by another time.

A window is `window_ms` long and `windows` of them count, the current one included (`quota.window.num`,
`quota.window.size.seconds`). All times are ms, of any clock that goes on.
"""

from __future__ import annotations

import math

#: A throttle time is an INT32 on the wire.
LONGEST_THROTTLE_MS = 2**31 - 1


class Rate:
    """The recorded amount per second over the last windows (KIP-13).

    A window begins with the first value after the one before is over, so idle time is in none of them. The rate is over at
    least `windows` - 1 whole windows: a burst after a pause is averaged over all of them.
    """

    __slots__ = (
        "_began_ms", "_current", "_kept", "_most", "_others", "_valid_until_ms", "_window", "_window_ends_ms",
        "_window_ms", "_windows",
    )  # fmt: skip

    def __init__(self, windows: int, window_ms: int) -> None:
        self._windows = windows
        self._window_ms = window_ms
        #: The windows that count, each [start, time of the last value, sum], and one that overlaps their beginning.
        self._kept: list[list[float]] = []
        self._current = 0
        #: Until a time the sum of all windows but the current one, and when the first one began.
        self._valid_until_ms, self._others, self._began_ms = 0, 0.0, 0
        #: The current window, and when it is over.
        self._window: list[float] = []
        self._window_ends_ms = 0
        self._most = 0.0

    def set_guaranteed_bound(self, bound: float) -> None:
        """Sets the rate for `guaranteed_allowance`."""
        # A rate is over `windows` - 1 windows or more: a sum that is within the bound for these is within it.
        self._most = bound * (self._windows - 1) * self._window_ms / 1000

    def guaranteed_allowance(self, now_ms: int) -> tuple[float, int]:
        """Returns how much may be recorded before a time, in this window, for the rate to be within the bound for certain.

        `measure` was just asked.
        """
        return self._most - self._others - self._window[2], min(self._window_ends_ms, self._valid_until_ms)

    def record(self, value: float, now_ms: int) -> None:
        if now_ms >= self._window_ends_ms:
            self._begin_window(now_ms)
        window = self._window
        window[1] = now_ms
        window[2] += value

    def _begin_window(self, now_ms: int) -> None:
        kept = self._kept
        if kept:
            self._current = (self._current + 1) % (self._windows + 1)
        if self._current == len(kept):
            kept.append([now_ms, now_ms, 0.0])
        self._window = window = kept[self._current]
        window[0], window[2] = now_ms, 0.0
        self._valid_until_ms = 0
        self._window_ends_ms = now_ms + self._window_ms

    def measure(self, now_ms: int) -> tuple[float, int]:
        """Returns the rate per second, and the ms that it is an average over."""
        if now_ms >= self._valid_until_ms:
            self._inspect(now_ms)
        total = self._others + self._kept[self._current][2] if self._kept else 0.0
        elapsed_ms = self._averaged_ms(now_ms - self._began_ms)
        return total * 1000 / elapsed_ms, elapsed_ms

    def _averaged_ms(self, elapsed_ms: int) -> int:
        """Returns the time that the sum is divided by. `elapsed_ms`: since the first window that counts began."""
        missing = self._windows - 1 - elapsed_ms // self._window_ms
        if missing > 0:
            elapsed_ms += missing * self._window_ms
        return max(elapsed_ms, 1)

    def _inspect(self, now_ms: int) -> None:
        """Empties the windows that do not count any more, and adds up the others."""
        over_ms = self._windows * self._window_ms
        began_ms, last_ms, others = now_ms, now_ms, 0.0
        for index, window in enumerate(self._kept):
            if window[1] <= now_ms - over_ms:
                window[0], window[1], window[2] = now_ms, now_ms, 0.0
                if index == self._current:
                    self._window_ends_ms = now_ms + self._window_ms
            elif window[0] < began_ms:
                began_ms = int(window[0])
            last_ms = min(last_ms, int(window[1]))
            if index != self._current:
                others += window[2]
        self._valid_until_ms, self._others, self._began_ms = last_ms + over_ms, others, began_ms


class SimpleRate(Rate):
    """The recorded amount per second since the first window that counts began, or over one window if that is longer.

    A burst after a pause counts at once, since a throttle of replication has to hold for moves that begin now (KIP-73).
    """

    __slots__ = ()

    def _averaged_ms(self, elapsed_ms: int) -> int:
        return max(elapsed_ms, self._window_ms)


class TokenBucket:
    """Tokens that come at the rate of a quota, and collect for as long as all windows take (KIP-599).

    It is empty at the time 0, long ago: a new bucket is full. Below zero the quota is exceeded.
    """

    __slots__ = ("_tokens", "_updated_ms", "_whole_s")

    def __init__(self, windows: int, window_ms: int) -> None:
        self._whole_s = windows * window_ms / 1000
        self._tokens = 0.0
        self._updated_ms = 0

    def measure(self, bound: float, now_ms: int) -> float:
        """Returns the tokens that there are; negative when more were taken than came."""
        burst = self._whole_s * bound
        self._tokens = min(burst, self._tokens + bound * (now_ms - self._updated_ms) / 1000)
        self._updated_ms = now_ms
        return self._tokens

    def record(self, value: float, bound: float, now_ms: int) -> None:
        self._tokens = min(self._whole_s * bound, self.measure(bound, now_ms) - value)


def rate_throttle_ms(rate: float, bound: float, over_ms: int) -> int:
    """Returns the pause after which a rate over `over_ms` has come down to `bound`; 0 if it is not above."""
    return _rounded((rate - bound) / bound * over_ms) if rate > bound else 0


def bucket_throttle_ms(tokens: float, bound: float) -> int:
    """Returns the time until a bucket is at zero again; 0 if it is not below."""
    return _rounded(-tokens / bound * 1000) if tokens < 0 else 0


def _rounded(time_ms: float) -> int:
    """Rounds as Java's Math.round does."""
    return LONGEST_THROTTLE_MS if time_ms >= LONGEST_THROTTLE_MS else math.floor(time_ms + 0.5)
