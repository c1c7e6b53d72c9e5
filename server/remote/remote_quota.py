"""The quotas of copies to the remote store and of reads from it (KIP-956)."""

from __future__ import annotations

from collections import deque

#: Kafka's default of the two keys: no limit.
UNLIMITED = (1 << 63) - 1


class RemoteQuota:
    """The rate over the last windows, as Kafka's `RLMQuotaManager` measures it. Times in milliseconds."""

    def __init__(self, most_per_second: int, windows: int, window_s: int) -> None:
        self.most_per_second = most_per_second
        self._windows = windows
        self._window_ms = window_s * 1000
        #: (number of the window, bytes), the last one at the end.
        self._counted: deque[tuple[int, int]] = deque()

    def record(self, size: int, now_ms: int) -> None:
        number = now_ms // self._window_ms
        if self._counted and self._counted[-1][0] == number:
            size += self._counted.pop()[1]
        self._counted.append((number, size))

    def rate(self, now_ms: int) -> float:
        """Returns bytes per second over the windows; those before the current one count whole."""
        first = now_ms // self._window_ms - self._windows + 1
        while self._counted and self._counted[0][0] < first:
            self._counted.popleft()
        elapsed_ms = (self._windows - 1) * self._window_ms + now_ms % self._window_ms
        return sum(size for _, size in self._counted) * 1000 / max(elapsed_ms, self._window_ms)

    def wait_ms(self, now_ms: int) -> int:
        """Returns how long to wait until the rate is within the quota; 0: it is."""
        if self.most_per_second >= UNLIMITED or self.rate(now_ms) <= self.most_per_second:
            return 0
        return self._window_ms - now_ms % self._window_ms
