"""Garbage collection: one owner, whose pauses may overlap; later collections skip objects that survived a long one."""

from __future__ import annotations

import ast
import gc
import re
import time
from pathlib import Path

import pytest
from odradek.server.runtime import sliced_work, turn_budget
from odradek.server.runtime import turns as sliced_work_turns
from odradek.server.runtime.gc_policy import GC_PAUSES, GcPauses, LongCollections
from odradek.server.runtime.sliced_work import SlicedWork, Steps, without_gc
from odradek.server.runtime.turn_budget import TurnWatch
from odradek.server.runtime.turns import Turns, Work

from tests.server.harness.excluded import is_excluded
from tests.server.harness.remote_broker import until

ROOT = Path(__file__).resolve().parents[3]
PRODUCT = ("protocol", "metadata", "storage", "replication", "coordinator", "server", "testing", "cli", "console")
OWNER = Path("server/runtime/gc_policy.py")
#: Functions of `gc` that one part of a program can undo to another.
CONTROLS = {"enable", "disable", "freeze", "unfreeze", "set_threshold"}


@pytest.mark.parametrize(("long_s", "is_set_aside"), [(0.0, True), (60.0, False)])
def test_survivors_of_a_long_collection_are_excluded_from_the_next(long_s: float, is_set_aside: bool) -> None:
    collections, made = LongCollections(long_s), [[]]
    collections.begin()
    try:
        gc.collect(1)
        assert not is_excluded(made), "only of full ones"
        gc.collect()
    finally:
        collections.end()
    assert is_excluded(made) is is_set_aside


def test_one_that_has_ended_sets_nothing_aside() -> None:
    collections, made = LongCollections(0.0), [[]]
    collections.begin()
    collections.end()
    gc.collect()
    assert not is_excluded(made)


def test_collector_is_on_again_when_the_last_of_overlapping_pauses_ends() -> None:
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


def test_collector_that_the_program_turned_off_stays_off() -> None:
    gc.disable()
    try:
        with GC_PAUSES.pause():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


async def test_every_step_of_large_work_runs_without_collector_while_a_snapshot_loads_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both pause the collector, and the load ends while the large work goes on."""
    monkeypatch.setattr(sliced_work, "SLICE_S", 3600.0)  # so that the load is one slice on a slow machine, too
    monkeypatch.setattr(turn_budget, "SLICE_S", 3600.0)  # so that the load is one slice on a slow machine, too
    monkeypatch.setattr(sliced_work_turns, "SLICE_S", 3600.0)  # so that the load is one slice on a slow machine, too
    enabled, ends, loads = 0, [False], [0]

    def large() -> Work:
        nonlocal enabled
        for _ in range(5_000):
            enabled += gc.isenabled()
            yield
        ends[0] = True

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
    await until(lambda: ends[0])
    assert enabled == 0
    turns.stop()
    assert gc.isenabled()


def test_only_the_owner_controls_the_collector() -> None:
    found = []
    for path in sorted(one for package in PRODUCT for one in (ROOT / package).rglob("*.py")):
        if path.relative_to(ROOT) == OWNER:
            continue
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if re.search(r"\bgc\b", text) else ():
            is_import = isinstance(node, ast.ImportFrom) and node.module == "gc"
            is_call = isinstance(node, ast.Attribute) and node.attr in CONTROLS and ast.unparse(node.value) == "gc"
            if is_import or is_call:
                found.append(str(path.relative_to(ROOT)))
    assert found == []


def test_time_of_a_slice_is_defined_once() -> None:
    found = []
    for path in sorted((ROOT / "server").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "SLICE_S" in text else ():
            targets = node.targets if isinstance(node, ast.Assign) else []
            found += [path.name for target in targets if isinstance(target, ast.Name) and target.id == "SLICE_S"]
    assert found == ["turn_budget.py"]
