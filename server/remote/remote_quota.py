"""The quotas of copies to the remote store and of reads from it (KIP-956)."""

from __future__ import annotations

from ..access.quotas.rates import SimpleRate, rate_throttle_ms

#: Kafka's default of the two keys: no limit.
UNLIMITED = (1 << 63) - 1


class RemoteQuota:
    """The rate over the last windows, measured as by Kafka's `RLMQuotaManager`. Times in milliseconds."""

    def __init__(self, most_per_second: int, windows: int, window_s: int) -> None:
        self.most_per_second = most_per_second
        self._window_ms = window_s * 1000
        self._rate = SimpleRate(windows, self._window_ms)

    def record(self, size: int, now_ms: int) -> None:
        self._rate.record(size, now_ms)

    def wait_ms(self, now_ms: int) -> int:
        """Returns how long to wait before the quota is looked at again, a window at most; 0: the rate is within it."""
        if self.most_per_second >= UNLIMITED:
            return 0
        rate, over_ms = self._rate.measure(now_ms)
        return min(rate_throttle_ms(rate, self.most_per_second, over_ms), self._window_ms)
