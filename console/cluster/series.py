"""A series of a chart: the newest values of one figure with their times, and before these the mean of each minute."""

from __future__ import annotations

from array import array

#: Points of a chart: five minutes at two seconds each, and six hours at one minute each.
MOST_POINTS, MOST_MINUTES = 150, 360
_MINUTE_S = 60.0


class Series:
    """The newest values of one figure with their times, and before these the mean of each minute."""

    __slots__ = ("_minute", "_old_times", "_old_values", "_times", "_values")

    def __init__(self, old_times: array[float] | None = None, old_values: array[float] | None = None) -> None:
        """`old_times` and `old_values`: means of minutes that an earlier process has kept."""
        self._times, self._values = array("d"), array("d")
        self._old_times = array("d") if old_times is None else old_times[-MOST_MINUTES:]
        self._old_values = array("d") if old_values is None else old_values[-MOST_MINUTES:]
        #: Begin, sum and count of the minute that is being added up.
        self._minute = (0.0, 0.0, 0)

    @property
    def changed_at(self) -> float:
        return self._times[-1] if self._times else 0.0

    def add(self, at: float, value: float) -> None:
        self._times.append(at)
        self._values.append(value)
        if len(self._times) > MOST_POINTS:
            self._note_old(self._times.pop(0), self._values.pop(0))

    def _note_old(self, at: float, value: float) -> None:
        begun, total, count = self._minute
        if count and at - begun >= _MINUTE_S:
            self._old_times.append(begun)
            self._old_values.append(total / count)
            if len(self._old_times) > MOST_MINUTES:
                self._old_times.pop(0)
                self._old_values.pop(0)
            count = 0
        self._minute = (begun, total + value, count + 1) if count else (at, value, 1)

    @property
    def values(self) -> array[float]:
        """Without the means."""
        return self._values[:]

    @property
    def points(self) -> tuple[array[float], array[float]]:
        """Times in seconds since 1970, and values."""
        return self._old_times + self._times, self._old_values + self._values
