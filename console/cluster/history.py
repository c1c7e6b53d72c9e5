"""The history behind the charts: series by name in memory, and their means on disk, which outlive the process.

Each series has a mean of each minute, which a file takes in one transaction a minute. Without a file, or after one cannot be
written, the series in memory are all.

With more figures than series, a figure that has a series keeps it: were the oldest dropped for each new one, none would
get a second point. A new one takes the place of a series that has ended, or of one of a narrower scope.
"""

from __future__ import annotations

import logging
import threading
import time
from array import array
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path

from ..settings import DAYS
from .history_file import HistoryFile, HistoryLost
from .series import MOST_MINUTES, Series

#: Series in memory.
MOST_SERIES = 500
#: A series that has no new point for so long has ended: without viewers, groups have one in half an hour.
STALE_S = 3600.0
MINUTE_S = 60
#: Between two writes.
_WRITE_S = 60.0

logger = logging.getLogger(__name__)


class Scope(IntEnum):
    """The figures of the cluster come before those of a topic, a group or a pipeline, and these before a partition's."""

    CLUSTER = 0
    SUBJECT = 1
    PARTITION = 2


class History:
    """Any thread adds and reads. `folder`: has the file of each cluster, for `days`; None: nothing is kept on disk."""

    def __init__(self, folder: Path | None = None, days: int = DAYS, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._days = folder, days
        self._clock = clock
        self._lock = threading.RLock()
        #: The least recently changed first.
        self._series: dict[str, Series] = {}
        self._scopes: dict[str, Scope] = {}
        self._file: HistoryFile | None = None
        #: Begin, sum and count of the minute of each series that is being added up, and means that no write has taken.
        self._minutes: dict[str, tuple[int, float, int]] = {}
        self._means: list[tuple[str, int, float]] = []
        self._written_at = 0.0

    def identify(self, cluster_id: str) -> None:
        """Opens the file of the cluster, before the first point. Logs the reason where it cannot."""
        folder, self._folder = self._folder, None
        if folder is None or not cluster_id:
            return
        try:
            self._file = HistoryFile(folder, cluster_id, self._days, self._clock())
        except HistoryLost as error:
            logger.warning("the history of charts is kept in memory alone: %s", error)

    def add(self, name: str, value: float, scope: Scope = Scope.SUBJECT) -> None:
        """Adds a point, unless the series is new and there is no room for it."""
        with self._lock:
            now = self._clock()
            series = self._series.pop(name, None)
            if series is None:
                if not self._make_room(scope, now):
                    return
                series = self._restored(name, now)
            series.add(now, value)
            self._series[name], self._scopes[name] = series, scope
            if self._file is not None:
                self._sum_up(name, now, value)

    def _make_room(self, scope: Scope, now: float) -> bool:
        if len(self._series) < MOST_SERIES:
            return True
        oldest = next(iter(self._series))
        if now - self._series[oldest].changed_at >= STALE_S:
            self._drop(oldest)
            return True
        if scope is Scope.PARTITION:
            return False
        narrowest = max(self._series, key=self._scopes.__getitem__)
        if self._scopes[narrowest] <= scope:
            return False
        self._drop(narrowest)
        return True

    def _drop(self, name: str) -> None:
        del self._series[name], self._scopes[name]
        begun, total, count = self._minutes.pop(name, (0, 0.0, 0))
        if count:
            self._means.append((name, begun, total / count))

    def _restored(self, name: str, now: float) -> Series:
        if self._file is None:
            return Series()
        try:
            return Series(*self._file.points(name, now - MOST_MINUTES * MINUTE_S))
        except HistoryLost as error:
            self._lose(error)
            return Series()

    def _sum_up(self, name: str, now: float, value: float) -> None:
        minute = int(now) // MINUTE_S * MINUTE_S
        begun, total, count = self._minutes.get(name, (minute, 0.0, 0))
        if begun != minute:
            self._means.append((name, begun, total / count))
            begun, total, count = minute, 0.0, 0
        self._minutes[name] = (begun, total + value, count + 1)

    def write(self, *, at_end: bool = False) -> None:
        """Writes the means of the minutes that are over, once a minute; `at_end` those of the minutes that began, too."""
        file, now = self._file, self._clock()
        if file is None or (not at_end and now - self._written_at < _WRITE_S):
            return
        with self._lock:
            means, self._means, self._written_at = self._means, [], now
            if at_end:
                means += [(name, begun, total / count) for name, (begun, total, count) in self._minutes.items()]
        try:
            file.add(means, now)
        except HistoryLost as error:
            self._lose(error)

    def _lose(self, error: HistoryLost) -> None:
        logger.warning("the history of charts is kept in memory alone from now on: %s", error)
        self.close_file()

    def close_file(self) -> None:
        file, self._file = self._file, None
        self._means, self._minutes = [], {}
        if file is not None:
            file.close()

    def close(self) -> None:
        """Writes what is left."""
        self.write(at_end=True)
        self.close_file()

    def values(self, name: str) -> array[float]:
        found = self._series.get(name)
        return found.values if found is not None else array("d")

    def points(self, name: str) -> tuple[array[float], array[float]]:
        found = self._series.get(name)
        return found.points if found is not None else (array("d"), array("d"))

    def since(self, name: str, seconds: float) -> tuple[array[float], array[float]]:
        """Points of so many seconds: those of the file, and after them those in memory."""
        begin = self._clock() - seconds
        times, values = self.points(name)
        first = next((index for index, time_s in enumerate(times) if time_s >= begin), len(times))
        times, values = times[first:], values[first:]
        file = self._file
        if file is None:
            return times, values
        try:
            old_times, old_values = file.points(name, begin, times[0] if times else None)
        except HistoryLost:  # the next write logs it
            return times, values
        return old_times + times, old_values + values
