"""Cases of the process-wide garbage collector, each in a process with one thread: tests/server/runtime/test_collector.py.

In the process of the tests, threads of other tests may be inside a collection, in which `gc.collect` does nothing, or may
freeze, unfreeze and turn the collector off at any time.

`python -m tests.server.harness.collector_cases` prints a JSON object: case -> the traceback of its failure, or "".
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

from odradek.server.runtime import sliced_work, turn_budget
from odradek.server.runtime import turns as turns_module
from odradek.server.runtime.gc_policy import (
    FROZEN_BY_OTHERS,
    GC_PAUSES,
    GcPauses,
    LongCollections,
    empty_free_lists,
)
from odradek.server.runtime.sliced_work import SlicedWork, Steps, run_to_completion, without_gc
from odradek.server.runtime.turn_budget import TurnWatch
from odradek.server.runtime.turns import Turns, Work

DEADLINE_S = 60
#: The status of a process whose case has failed.
_FAILED = 1


def is_excluded(made: object) -> bool:
    """Whether collections leave out `made`: `gc.get_objects` does, too.

    A count of frozen objects does not show it: the count falls when any other frozen object is released.
    """
    return all(tracked is not made for tracked in gc.get_objects())


def full_collections() -> int:
    return int(gc.get_stats()[2]["collections"])


def survivors_of_a_long_collection_are_excluded_from_the_next() -> None:
    assert _is_excluded_by_a_full_collection(LongCollections(0.0))


def survivors_of_a_short_collection_are_not_excluded() -> None:
    assert not _is_excluded_by_a_full_collection(LongCollections(60.0))


def _is_excluded_by_a_full_collection(collections: LongCollections) -> bool:
    made = [[]]
    collections.begin()
    try:
        gc.collect(1)
        assert not is_excluded(made), "only of full ones"
        gc.collect()
    finally:
        collections.end()
    return is_excluded(made)


def watch_that_has_ended_excludes_nothing() -> None:
    collections, made = LongCollections(0.0), [[]]
    collections.begin()
    collections.end()
    gc.collect()
    assert not is_excluded(made)


def collector_is_on_again_when_the_last_of_overlapping_pauses_ends() -> None:
    pauses = GcPauses()
    pauses.begin()
    pauses.begin()
    made = [[]]
    pauses.end(freeze=True)
    assert not gc.isenabled()
    assert not is_excluded(made), "what the other pause makes is excluded with the rest"
    pauses.end()
    assert gc.isenabled()
    assert is_excluded(made)
    assert pauses.count == 0


def collector_that_the_program_turned_off_stays_off() -> None:
    gc.disable()
    with GC_PAUSES.pause():
        assert not gc.isenabled()
    assert not gc.isenabled()


def every_step_of_large_work_runs_without_collector_while_a_snapshot_loads_beside_it() -> None:
    """Both pause the collector, and the load ends while the large work goes on."""
    modules: tuple[Any, ...] = (sliced_work, turn_budget, turns_module)
    for module in modules:
        module.SLICE_S = 3600.0  # so that the load is one slice on a slow machine, too
    asyncio.run(_large_work_beside_a_load())


async def _large_work_beside_a_load() -> None:
    enabled, ends, loads = 0, asyncio.Event(), [0]

    def large() -> Work:
        nonlocal enabled
        for _ in range(5_000):
            enabled += gc.isenabled()
            yield
        ends.set()

    def load() -> Steps[None]:
        yield
        loads[0] += 1

    def fail(failure: Exception) -> None:
        raise AssertionError("the work failed") from failure

    turns, loading = Turns(TurnWatch(time.perf_counter)), SlicedWork(fail)
    turns.begin(large(), fail)
    loading.begin(without_gc(load()), lambda: None)
    assert loads == [1]
    assert not gc.isenabled()
    await asyncio.wait_for(ends.wait(), DEADLINE_S)
    assert enabled == 0
    turns.stop()
    assert gc.isenabled()


def objects_made_without_collector_are_excluded_and_it_is_on_again() -> None:
    made: list[list[int]] = []

    def steps() -> Steps[None]:
        assert not gc.isenabled()
        made.append([])
        yield

    assert gc.isenabled()
    run_to_completion(without_gc(steps()))
    assert gc.isenabled() and is_excluded(made[0]), "what was made is not looked through again"
    given_up = without_gc(steps())
    next(given_up)
    assert not gc.isenabled()
    given_up.close()
    assert gc.isenabled(), "also when the work was not done"
    gc.disable()
    run_to_completion(without_gc(steps()))
    assert not gc.isenabled(), "a collector that was off stays off"


def free_lists_are_emptied_by_a_collection_that_leaves_nothing_frozen() -> None:
    gc.unfreeze()
    assert gc.isenabled()
    before = full_collections()
    empty_free_lists()
    assert full_collections() == before + 1
    assert gc.get_freeze_count() == 0


def immortal_objects_that_the_interpreter_excludes_do_not_count_as_frozen() -> None:
    calls: list[str] = []
    replaced: Any = gc
    for name in ("freeze", "unfreeze"):
        setattr(replaced, name, partial(calls.append, name))
    replaced.get_freeze_count = lambda: FROZEN_BY_OTHERS - 1
    empty_free_lists()
    assert calls == ["freeze", "unfreeze"]


def objects_that_were_frozen_stay_frozen() -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    before = full_collections()
    empty_free_lists()
    assert full_collections() == before + 1
    assert frozen * 0.9 < gc.get_freeze_count() <= frozen  # objects that die meanwhile are no longer counted


def nothing_is_collected_while_large_work_is_under_way() -> None:
    before = full_collections()
    gc.disable()
    empty_free_lists()
    assert full_collections() == before


CASES: tuple[Callable[[], None], ...] = (
    survivors_of_a_long_collection_are_excluded_from_the_next,
    survivors_of_a_short_collection_are_not_excluded,
    watch_that_has_ended_excludes_nothing,
    collector_is_on_again_when_the_last_of_overlapping_pauses_ends,
    collector_that_the_program_turned_off_stays_off,
    every_step_of_large_work_runs_without_collector_while_a_snapshot_loads_beside_it,
    objects_made_without_collector_are_excluded_and_it_is_on_again,
    free_lists_are_emptied_by_a_collection_that_leaves_nothing_frozen,
    immortal_objects_that_the_interpreter_excludes_do_not_count_as_frozen,
    objects_that_were_frozen_stay_frozen,
    nothing_is_collected_while_large_work_is_under_way,
)


def outcome(case: Callable[[], None]) -> str:
    """Runs a case in a fork, whose collector is as this process leaves it. Returns the traceback of a failure, or ""."""
    read_end, write_end = os.pipe()
    process = os.fork()
    if not process:
        status = _FAILED
        try:
            case()
            status = 0
        except BaseException:
            os.write(write_end, traceback.format_exc()[-4_000:].encode())
        finally:
            os._exit(status)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        text = pipe.read().decode(errors="replace")
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return text if status in (0, _FAILED) else f"status {status}\n{text}"


if __name__ == "__main__":
    print(json.dumps({case.__name__: outcome(case) for case in CASES}))
