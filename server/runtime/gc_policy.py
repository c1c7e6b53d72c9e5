"""Garbage collection of the process: the only module that turns the collector on and off, or freezes objects.

Python's full collection scans all objects in one piece. With a hundred thousand partitions this takes more than a tenth
of a second, in which no request is served. So nothing is collected during work that makes many objects (`GcPauses`), and
objects that survive are excluded from later collections by `gc.freeze`, when there are so many that a collection takes
long. Excluded objects are still freed by reference counting. Only those that were part of a cycle at that time and are
released later are leaked, so objects are excluded rarely.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

#: Objects that work has left behind, of which the next collection would look at each: 100 ms for 8,000 new topics. Beyond
#: this they are excluded from collections.
YOUNG_OBJECTS = 50_000
#: Limit of a full collection, in this process's own CPU time. Some 40,000 partitions take as long.
LONG_S = 0.05
#: CPython 3.12 itself excludes some hundred immortal objects at each collection. A freeze by other code has more than this.
FROZEN_BY_OTHERS = 2_000


class GcPauses:
    """Times without garbage collection, which may overlap: the last one to end turns the collector on again.

    A collector that the program has turned off stays off. May be used from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._was_enabled = False
        self._freezes = False

    @property
    def count(self) -> int:
        """The number of pauses that have not ended."""
        return self._count

    def begin(self) -> None:
        """Begins a pause. Each needs one `end`."""
        with self._lock:
            self._count += 1
            if self._count == 1:
                self._was_enabled, self._freezes = gc.isenabled(), False
                gc.disable()

    def end(self, *, freeze: bool = False) -> None:
        """Ends a pause. `freeze`: excludes what was made from later collections, however little it is."""
        with self._lock:
            assert self._count > 0, "a pause ends once"
            self._count -= 1
            self._freezes |= freeze
            if self._count or not self._was_enabled:
                return
            if self._freezes or gc.get_count()[0] > YOUNG_OBJECTS:
                gc.freeze()
            gc.enable()

    @contextmanager
    def pause(self, *, freeze: bool = False) -> Iterator[None]:
        """Begins a pause, and ends it with the block."""
        self.begin()
        try:
            yield
        finally:
            self.end(freeze=freeze)


#: Those of this process: it has one collector.
GC_PAUSES = GcPauses()


def freeze() -> None:
    """Excludes everything that there is from later collections."""
    gc.freeze()


def empty_free_lists() -> None:
    """Has the interpreter give up the freed objects that it keeps, without a look at all that there is.

    A full collection alone would hold the loop for 0.1 s per million objects. While everything is frozen it has nothing to
    look at. Objects that other code has frozen stay so: then only the rest is looked at.
    """
    if not gc.isenabled():
        return  # large work is in progress, and calls this again when it ends
    gc.collect(1)  # the young garbage, which would be frozen with the rest
    if gc.get_freeze_count() >= FROZEN_BY_OTHERS:
        gc.collect()
        return
    gc.freeze()
    try:
        gc.collect()
    finally:
        gc.unfreeze()


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
