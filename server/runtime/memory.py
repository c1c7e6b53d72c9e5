"""Memory that a large piece of work has used goes back to the system.

glibc keeps freed memory for the process: after one request of 100 MB the broker would hold it for the rest of its life.
`malloc_trim` gives back what is free, in some 5 ms per 100 MB, so it runs on a thread, and seldom. Where there
is no such function (musl, macOS, Windows) it is left out.

The interpreter keeps memory as well. It holds up to thousands of freed lists, dicts and tuples ready for the next ones, and
each of them can hold an arena of 1 MB: after a request of a million items that is 100 MB. Only a full collection of garbage
empties these free lists.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cache

from ...heap import malloc_trim
from .gc_policy import empty_free_lists
from .thread_pools import can_start_threads

#: Smaller work leaves too little free memory to justify a system call.
LARGE_BYTES = 8 * 1024 * 1024
#: At most one trim in this time: after each trim the next allocations page-fault.
TRIM_INTERVAL_S = 2.0
#: A trim is followed by so many calls of `flush`, in this time each, and by a last trim. What other clients had made while
#: the work was large goes within seconds, but into the free lists, which hand the same memory out again: only what
#: is there at a flush goes back. Half a millisecond each.
FLUSHES = 40
FLUSH_INTERVAL_S = 0.25
#: The processor time of these flushes together: a process with very many objects does not pay for them again and again.
FLUSHES_CPU_S = 0.1


class MemoryRelease:
    """Trims the heap some time after large work, at most once per TRIM_INTERVAL_S, and flushes what was left behind.

    `trim`: gives free memory back. `flush`: gives up freed objects that are kept for reuse. `clock`: seconds.
    """

    def __init__(
        self,
        trim: Callable[[], object] | None,
        flush: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        interval_s: float = TRIM_INTERVAL_S,
        flush_interval_s: float = FLUSH_INTERVAL_S,
    ) -> None:
        self._trim = trim
        self._flush = flush
        self._clock = clock
        self._interval_s = interval_s
        self._flush_interval_s = flush_interval_s
        self._lock = threading.Lock()
        self._is_due = False
        self._trimmed_at = -interval_s
        self._thread: threading.Thread | None = None
        #: The number of trims.
        self.trims = 0

    def after(self, used_bytes: int) -> None:
        """Notes the end of work that used so many bytes. May be called from any thread; returns immediately."""
        if used_bytes < LARGE_BYTES or self._trim is None or not can_start_threads():
            return
        with self._lock:
            self._is_due = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="memory-release", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        """Runs until nothing large has happened for as long as the flushes take."""
        flushes, flushed_s = 0, 0.0
        time.sleep(self._interval_s / 4)  # the caller still holds the memory of its work
        while True:
            if self._take_due():
                self._release()
                flushes, flushed_s = FLUSHES, 0.0
            elif flushes:
                began_s = time.thread_time()
                self._flush()
                flushed_s += time.thread_time() - began_s
                flushes = flushes - 1 if flushed_s < FLUSHES_CPU_S else 0
                if not flushes:
                    self._release()
            elif self._has_ended():
                return
            time.sleep(self._flush_interval_s)

    def _take_due(self) -> bool:
        with self._lock:
            if not self._is_due or self._clock() - self._trimmed_at < self._interval_s:
                return False
            self._is_due = False
            return True

    def _has_ended(self) -> bool:
        with self._lock:
            if not self._is_due:
                self._thread = None
            return self._thread is None

    def _release(self) -> None:
        assert self._trim is not None
        self._trimmed_at = self._clock()
        self._flush()
        self._trim()
        self.trims += 1


@cache
def _of_process() -> MemoryRelease:
    return MemoryRelease(malloc_trim() or (lambda: None), empty_free_lists)


def prepare() -> None:
    """Loads what a release needs, so that the first one adds nothing to memory that is to be released."""
    _of_process()


def release_after(used_bytes: int) -> None:
    """Schedules a trim if work that used `used_bytes` justifies it."""
    if used_bytes >= LARGE_BYTES:
        _of_process().after(used_bytes)
