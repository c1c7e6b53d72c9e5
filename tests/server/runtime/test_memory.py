"""Release of memory to the system after large work: at intervals, and only where the C library supports it."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest
from odradek.server.runtime.memory import FLUSHES, FLUSHES_CPU_S, LARGE_BYTES, MemoryRelease

DEADLINE_S = 60


class Calls:
    """Stands for the C library: counts, and lets a test wait for the next call."""

    def __init__(self) -> None:
        self._happened = threading.Semaphore(0)
        self.count = 0

    def __call__(self) -> None:
        self.count += 1
        self._happened.release()

    def wait(self) -> bool:
        return self._happened.acquire(timeout=DEADLINE_S)


def await_end(release: MemoryRelease) -> None:
    thread = release._thread
    if thread is not None:
        thread.join(DEADLINE_S)
        assert not thread.is_alive()


def test_large_work_is_followed_by_a_trim_flushes_and_a_last_trim() -> None:
    trims, flushes = Calls(), Calls()
    release = MemoryRelease(trims, flushes, interval_s=0.01, flush_interval_s=0.0)
    release._lock = threading.RLock()  # type: ignore[assignment]
    with release._lock:  # the thread waits until all five calls have come
        for _ in range(5):
            release.after(LARGE_BYTES)
    await_end(release)
    assert (trims.count, flushes.count) == (2, 2 + FLUSHES)


def test_large_work_after_the_end_is_followed_by_a_trim_again() -> None:
    trims = Calls()
    release = MemoryRelease(trims, interval_s=0.01, flush_interval_s=0.0)
    release.after(LARGE_BYTES)
    await_end(release)
    release.after(LARGE_BYTES)
    await_end(release)
    assert release.trims == trims.count == 4


def test_second_trim_waits_for_the_interval() -> None:
    trims, flushes, now, allowed = Calls(), Calls(), [0.0], threading.Semaphore(7)

    def flush() -> None:
        assert allowed.acquire(timeout=DEADLINE_S)
        flushes()

    release = MemoryRelease(trims, flush, clock=lambda: now[0], interval_s=0.2, flush_interval_s=0.001)
    release.after(LARGE_BYTES)
    assert trims.wait()
    release.after(LARGE_BYTES)
    for _ in range(5):  # a trim is pending, and the clock stands still
        assert flushes.wait()
    assert trims.count == 1
    now[0] = 0.2
    allowed.release(4 * FLUSHES)
    assert trims.wait()
    await_end(release)


def test_long_flushes_are_few() -> None:
    def burn() -> None:
        flushes()
        began_s = time.thread_time()
        while time.thread_time() - began_s < FLUSHES_CPU_S / 2:
            pass

    trims, flushes = Calls(), Calls()
    release = MemoryRelease(trims, burn, interval_s=0.01, flush_interval_s=0.0)
    release.after(LARGE_BYTES)
    await_end(release)
    assert trims.count == 2
    assert flushes.count <= 4


def test_small_work_is_not_followed_by_a_trim() -> None:
    release = MemoryRelease(Calls(), interval_s=0.0)
    release.after(LARGE_BYTES - 1)
    assert release._thread is None


def test_missing_function_of_the_c_library_is_no_error() -> None:
    release = MemoryRelease(None)
    release.after(1 << 40)
    assert release._thread is None


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_kernel_gives_freed_memory_back() -> None:
    kernel = pytest.importorskip("odradek_kernel")
    pieces = [b"x" * 100_000 for _ in range(1_000)]  # smaller than what malloc maps by itself
    wall = b"x" * 100_000
    full = resident_bytes()
    del pieces
    kernel.trim_memory()
    assert resident_bytes() < full - 50_000_000
    assert wall


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
