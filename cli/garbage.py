"""Limits the garbage collection of a broker's process to objects that may become garbage.

Python's full collection scans all objects in one piece. With a hundred thousand partitions this takes more than a tenth
of a second, in which no request is served. Objects that exist when the broker begins to serve are excluded by
`gc.freeze`. Objects that come later, as topics are created, are excluded once there are so many that a collection takes
long. Excluded objects are still freed by reference counting. Only those that were part of a cycle at that time and are
released later are leaked, so objects are excluded rarely.
"""

from __future__ import annotations

import gc
import time

#: Limit of this process's own CPU time. Some 40,000 partitions take as long.
LONG_S = 0.05


class LongCollections:
    """Watches for long full collections: objects that survive one are excluded from later collections."""

    def __init__(self, long_s: float = LONG_S) -> None:
        self._long_s = long_s
        self._began_s = 0.0

    def begin(self) -> None:
        gc.callbacks.append(self._watch)

    def end(self) -> None:
        gc.callbacks.remove(self._watch)

    def _watch(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] < 2:
            return
        if phase == "start":
            self._began_s = time.thread_time()
        elif time.thread_time() - self._began_s >= self._long_s:
            gc.freeze()
