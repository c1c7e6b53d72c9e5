"""The memory of the process: garbage collection, and free memory that goes back to the system.

`GcPauses` and `LongCollections` are the collector's part: no other module turns the collector on and off, or freezes
objects. Python's full collection scans all objects in one piece. With a hundred thousand partitions this takes more
than a tenth of a second, in which no request is served. So nothing is collected during work that makes many objects
(`GcPauses`), and objects that survive are excluded from later collections by `freeze`, when there are so many that a
collection takes long (`LongCollections`). Excluded objects are still freed by reference counting. Only those that
were part of a cycle at that time and are released later are leaked, so objects are excluded rarely.

`MemoryRelease` gives back memory that a large piece of work has used, from two owners:
- glibc keeps freed memory for the process: after one request of 100 MB the broker would hold it for the rest of its
  life. `malloc_trim` gives back what is free, in some 5 ms per 100 MB, so it runs on a thread, and seldom. Where
  there is no such function (musl, macOS, Windows) it is left out.
- The interpreter keeps up to thousands of freed lists, dicts and tuples ready for the next ones, and each of them can
  hold an arena of 1 MB: after a request of a million items that is 100 MB. Only a full collection of garbage empties
  these free lists (`empty_free_lists`).
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from .thread_pools import can_start_threads

# ---- garbage collection

#: Objects that work has left behind, of which the next collection would look at each: 100 ms for 8,000 new topics. Beyond
#: this they are excluded from collections.
YOUNG_OBJECTS = 50_000
#: Limit of a full collection, in this process's own CPU time. Some 40,000 partitions take as long.
LONG_S = 0.05


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


#: CPython 3.12 itself excludes some hundred immortal objects at each collection. A freeze by other code has more than this.
FROZEN_BY_OTHERS = 2_000


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


# ---- release of memory

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


def _malloc_trim() -> Callable[[], object] | None:
    """Returns glibc's malloc_trim, which releases the interpreter's lock while it runs; None where it does not exist.

    The kernel has it: ctypes takes a megabyte, in a process that needs it for nothing else.
    """
    try:
        from odradek_kernel import trim_memory  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return _malloc_trim_by_ctypes()
    return trim_memory  # type: ignore[no-any-return, unused-ignore]


def _malloc_trim_by_ctypes() -> Callable[[], object] | None:
    import ctypes  # lazy: keeps the broker's start fast

    try:
        function = ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):
        return None
    function.argtypes, function.restype = [ctypes.c_size_t], ctypes.c_int
    return lambda: function(0)


@cache
def _of_process() -> MemoryRelease:
    return MemoryRelease(_malloc_trim() or (lambda: None), empty_free_lists)


def prepare() -> None:
    """Loads what a release needs, so that the first one adds nothing to memory that is to be released."""
    _of_process()


def release_after(used_bytes: int) -> None:
    """Schedules a trim if work that used `used_bytes` justifies it."""
    if used_bytes >= LARGE_BYTES:
        _of_process().after(used_bytes)
