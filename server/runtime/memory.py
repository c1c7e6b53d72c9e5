"""Memory that a large piece of work has used goes back to the system.

glibc keeps freed memory for the process: after one request of 100 MB the broker would hold it for the rest of its life.
`malloc_trim` gives back what is free, in some 5 ms per 100 MB, so it runs on a thread, and seldom. Where there
is no such function (musl, macOS, Windows) nothing is done.

The interpreter keeps memory as well. It holds up to thousands of freed lists, dicts and tuples ready for the next ones, and
each of them can hold an arena of 1 MB: after a request of a million items that is 100 MB. Only a full collection of garbage
empties these free lists.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from functools import cache

#: Smaller work leaves too little free memory to justify a system call.
LARGE_BYTES = 8 * 1024 * 1024
#: At most one trim in this time: after each trim the next allocations page-fault.
TRIM_INTERVAL_S = 2.0


class MemoryRelease:
    """Trims the heap some time after large work, at most once per TRIM_INTERVAL_S.

    `trim`: gives free memory back. `clock`: seconds.
    """

    def __init__(
        self,
        trim: Callable[[], object] | None,
        clock: Callable[[], float] = time.monotonic,
        interval_s: float = TRIM_INTERVAL_S,
    ) -> None:
        self._trim = trim
        self._clock = clock
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._trimmed_at = -interval_s
        #: The number of trims.
        self.trims = 0

    def after(self, used_bytes: int) -> None:
        """Notes the end of work that used so many bytes. May be called from any thread; returns immediately."""
        if used_bytes < LARGE_BYTES or self._trim is None:
            return
        with self._lock:
            if self._timer is not None:
                return
            # Delayed: the caller still holds the memory of its work.
            wait_s = max(self._interval_s / 4, self._trimmed_at + self._interval_s - self._clock())
            self._timer = threading.Timer(wait_s, self._run)
            self._timer.daemon = True
            self._timer.start()

    def _run(self) -> None:
        assert self._trim is not None
        with self._lock:
            self._timer = None
            self._trimmed_at = self._clock()
        self._trim()
        self.trims += 1


def _malloc_trim() -> Callable[[], object] | None:
    """Returns glibc's malloc_trim, which releases the interpreter's lock while it runs; None where it does not exist."""
    import ctypes  # lazy: keeps the broker's start fast

    try:
        function = ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):
        return None
    function.argtypes, function.restype = [ctypes.c_size_t], ctypes.c_int
    return lambda: function(0)


def empty_free_lists() -> None:
    """Has the interpreter give up the freed objects that it keeps, without a look at all that there is.

    A full collection alone would hold the loop for 0.1 s per million objects. While everything is frozen it has nothing to
    look at. What somebody else has frozen stays so: then only the rest is looked at.
    """
    if not gc.isenabled():
        return  # large work is in progress, and calls this again when it ends
    gc.collect(1)  # the young garbage, which would be frozen with the rest
    if gc.get_freeze_count():
        gc.collect()
        return
    gc.freeze()
    try:
        gc.collect()
    finally:
        gc.unfreeze()


@cache
def _of_process() -> MemoryRelease:
    trim = _malloc_trim()

    def release() -> None:
        empty_free_lists()
        if trim is not None:
            trim()

    return MemoryRelease(release)


def release_after(used_bytes: int) -> None:
    """Schedules a trim if work that used `used_bytes` justifies it."""
    if used_bytes >= LARGE_BYTES:
        _of_process().after(used_bytes)
