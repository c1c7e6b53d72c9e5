"""The throttle of a link: what one broker fetches of its source."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..access.quotas.rates import SimpleRate

if TYPE_CHECKING:
    from ..partitions.replica import Replica
    from ..runtime.clock import Clock

#: The rate is that of the last windows, of a second each.
_WINDOWS, _WINDOW_MS = 5, 1000


class LinkQuota:
    """`limit`: bytes a second, 0 for no limit. It is read each time: `odradek mirror throttle` changes it."""

    def __init__(self, limit: Callable[[], int], clock: Clock) -> None:
        self._limit = limit
        self._clock = clock
        #: Bytes since the link began here.
        self.total = 0
        self._rate = SimpleRate(_WINDOWS, _WINDOW_MS)

    @property
    def is_on(self) -> bool:
        return self._limit() > 0

    def is_throttled(self, replica: Replica, follower: int) -> bool:
        limit = self._limit()
        return limit > 0 and self._rate.measure(self._clock.now_ms())[0] > limit

    def record(self, replica: Replica, size: int) -> None:
        self.total += size
        if self._limit() > 0:
            self._rate.record(size, self._clock.now_ms())
