"""Memory goes back to the system after large work, seldom, and nothing is done where the C library cannot."""

from __future__ import annotations

import gc
import sys
import threading

import pytest
from odradek.server.runtime import memory
from odradek.server.runtime.memory import LARGE_BYTES, MemoryRelease, empty_free_lists

DEADLINE_S = 10


class Trims:
    """Stands for the C library: counts, and lets a test wait for the next one."""

    def __init__(self) -> None:
        self.happened = threading.Event()
        self.count = 0

    def __call__(self) -> None:
        self.count += 1
        self.happened.set()


def test_large_work_is_followed_by_one_trim() -> None:
    trims = Trims()
    release = MemoryRelease(trims, interval_s=0.01)
    for _ in range(5):
        release.after(LARGE_BYTES)
    assert trims.happened.wait(DEADLINE_S)
    assert trims.count == 1


def test_second_trim_waits_for_the_interval() -> None:
    trims, now = Trims(), [0.0]
    release = MemoryRelease(trims, clock=lambda: now[0], interval_s=0.2)
    release.after(LARGE_BYTES)
    assert trims.happened.wait(DEADLINE_S)
    trims.happened.clear()
    release.after(LARGE_BYTES)
    assert release._timer is not None
    assert release._timer.interval >= 0.2
    assert trims.happened.wait(DEADLINE_S)


def test_small_work_is_not_followed_by_a_trim() -> None:
    release = MemoryRelease(Trims(), interval_s=0.0)
    release.after(LARGE_BYTES - 1)
    assert release._timer is None


def test_missing_function_of_the_c_library_is_no_error() -> None:
    release = MemoryRelease(None)
    release.after(1 << 40)
    assert release._timer is None


def full_collections() -> int:
    return int(gc.get_stats()[2]["collections"])


def test_free_lists_are_emptied_by_a_collection_that_leaves_nothing_frozen() -> None:
    assert gc.isenabled()
    gc.unfreeze()
    before = full_collections()
    empty_free_lists()
    assert full_collections() == before + 1
    assert gc.get_freeze_count() == 0


def test_objects_that_were_frozen_stay_frozen() -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        before = full_collections()
        empty_free_lists()
        assert full_collections() == before + 1
        assert frozen * 0.9 < gc.get_freeze_count() <= frozen  # what dies meanwhile leaves
    finally:
        gc.unfreeze()


def test_nothing_is_collected_while_large_work_is_under_way() -> None:
    before = full_collections()
    gc.disable()
    try:
        empty_free_lists()
    finally:
        gc.enable()
    assert full_collections() == before


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's own function")
def test_trim_of_glibc_can_be_called() -> None:
    trim = memory._malloc_trim()
    if trim is not None:  # None with musl
        assert trim() in (0, 1)
