"""Runs mutants: each in a fork of a process that has collected all tests, so that a mutant costs only its tests.

The fork replaces the code of the mutant's function in memory, and no file changes. It runs the tests that reach the mutated
block, and ends at the first failure. The cheapest tests in the folder that is named after the mutant's package come first.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import shutil
import signal
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from tests.mutants.core import ROOT
from tests.mutants.mutation import Mutant
from tests.mutants.reach import ReachMap

KILLED, SURVIVED, TIMED_OUT, UNREACHED = "killed", "survived", "timed out", "unreached"
#: Tests of one mutant, by the CPU time that they take without it: on a busy machine a mutant gets the same tests. Lines of
#: a broker's start are reached by thousands.
MOST_CPU_SECONDS = 15.0
#: These run in the order of their CPU times, before those that share the fixtures of their modules.
_CHEAPEST = 40
#: CPU time of a fork, beyond a multiple of its tests' own: it ends an endless loop. On a busy machine time passes faster.
_CPU_LIMIT_SECONDS, _WALL_PER_CPU = 30, 15
_SLOWER = 3
#: A test that waits for longer, beyond a multiple of its time, fails.
_WAIT_SECONDS = 25


class NotReplaceable(Exception):
    """The code of the mutant has other free variables than that of its function, as without a call of `super()`."""


@dataclass(frozen=True, slots=True)
class Outcome:
    mutant: Mutant
    status: str
    #: The test that failed, or was running.
    test: str = ""
    ran: int = 0
    reaching: int = 0


class MutantRunner:
    """A plugin of pytest: in the place of the collected tests it runs those of each mutant."""

    def __init__(self, mutants: Sequence[Mutant], reach: ReachMap) -> None:
        self.outcomes: list[Outcome] = []
        self._mutants = mutants
        self._reach = reach
        self._progress: Path | None = None
        self._ran = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        for mutant in self._mutants:
            importlib.import_module(mutant.import_name)
        _functions_of.update(_functions_by_file())
        for number, mutant in enumerate(self._mutants, 1):
            reaching = self._reach.tests_of(mutant) & items.keys()
            chosen = ordered_tests(mutant, reaching, self._reach.cpu_seconds)
            outcome = self._confirmed(mutant, [items[name] for name in chosen], len(reaching))
            self.outcomes.append(outcome)
            print(f"{number:>4} {outcome.status:<10} {mutant}  {outcome.test}", flush=True)
        return True

    def _confirmed(self, mutant: Mutant, items: list[pytest.Item], reaching: int) -> Outcome:
        """Runs the tests. A test that fails once and then passes, as on a busy machine, does not notice the mutant."""
        while True:
            outcome = self._run(mutant, items, reaching)
            failed = next((number for number, item in enumerate(items) if item.nodeid == outcome.test), None)
            if outcome.status != KILLED or failed is None:
                return outcome
            if self._run(mutant, items[failed : failed + 1], reaching).status != SURVIVED:
                return outcome
            items = items[failed + 1 :]
            if not items:
                return Outcome(mutant, SURVIVED, ran=failed + 1, reaching=reaching)

    def _run(self, mutant: Mutant, items: list[pytest.Item], reaching: int) -> Outcome:
        if not items:
            return Outcome(mutant, UNREACHED)
        cpu_limit = _CPU_LIMIT_SECONDS + _SLOWER * sum(self._reach.cpu_seconds[item.nodeid] for item in items)
        wall_limit = cpu_limit * _WALL_PER_CPU + _SLOWER * sum(self._reach.seconds[item.nodeid] for item in items)
        folder = tempfile.mkdtemp(prefix="mutant-")
        progress = Path(folder, "progress")
        process = os.fork()
        if not process:
            self._run_here(mutant, items, folder, progress, int(cpu_limit))
        try:
            has_ended = _wait(process, wall_limit)
            status, test, ran = json.loads(progress.read_text()) if progress.exists() else ["running", "", 0]
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if status == "running" or not has_ended:
            status = TIMED_OUT
        return Outcome(mutant, status, test, ran, reaching)

    def _run_here(self, mutant: Mutant, items: list[pytest.Item], folder: str, progress: Path, cpu_limit: int) -> None:
        """Runs the tests in the fork, which ends in any case: threads of a mutant may never end."""
        try:
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_limit, cpu_limit))
            output = os.open(Path(folder, "output"), os.O_WRONLY | os.O_CREAT)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.environ |= {"TMPDIR": folder, "HYPOTHESIS_STORAGE_DIRECTORY": folder}
            tempfile.tempdir = None
            replace_code(mutant)
            self._progress = progress
            for item, following in zip(items, [*items[1:], None]):
                self._note("running", item.nodeid)
                item.add_marker(pytest.mark.timeout(_WAIT_SECONDS + _SLOWER * self._reach.seconds[item.nodeid]))
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                self._ran += 1
            self._note(SURVIVED, "")
        except BaseException as failure:  # of the import of a module, or of pytest itself
            self._note(KILLED, repr(failure))
        finally:
            os._exit(0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self._progress is not None:
            self._note(KILLED, report.nodeid)
            os._exit(0)

    def _note(self, status: str, test: str) -> None:
        assert self._progress is not None
        self._progress.write_text(json.dumps([status, test, self._ran]))


def ordered_tests(mutant: Mutant, names: set[str], cpu_seconds: Mapping[str, float]) -> list[str]:
    """Returns the first tests of `names` that take MOST_CPU_SECONDS together, those near the mutant's package first."""
    parts = mutant.module.split("/")[:-1]
    folders = [f"tests/{'/'.join(parts[:count])}/" for count in range(len(parts), 0, -1)]

    def rank(name: str) -> tuple[int, float, str]:
        distance = next((number for number, folder in enumerate(folders) if name.startswith(folder)), len(folders))
        return distance, cpu_seconds[name], name

    kept, total = [], 0.0
    for name in sorted(names, key=rank):
        total += cpu_seconds[name]
        if kept and total > MOST_CPU_SECONDS:
            break
        kept.append(name)
    cheapest, others = kept[:_CHEAPEST], kept[_CHEAPEST:]
    return cheapest + sorted(others, key=lambda name: name.partition("::")[0])


def _wait(process: int, limit_seconds: float) -> bool:
    """Returns whether the process ended by itself."""
    deadline = time.monotonic() + limit_seconds
    while time.monotonic() < deadline:
        if os.waitpid(process, os.WNOHANG)[0]:
            return True
        time.sleep(0.02)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return False


def replace_code(mutant: Mutant) -> None:
    """Replaces the code of the function, and of functions made in it, wherever they are. Raises NotReplaceable."""
    path = ROOT / mutant.module
    compiled = compile(mutant.apply(path.read_bytes()), str(path), "exec", dont_inherit=True)
    inner = f"{mutant.function}.<locals>."
    codes = {
        (code.co_qualname, code.co_firstlineno): code
        for code in _codes_in(compiled)
        if (code.co_qualname, code.co_firstlineno) == (mutant.function, mutant.function_line)
        or code.co_qualname.startswith(inner)
    }
    for function in _functions_of[str(path)]:
        code = codes.get((function.__code__.co_qualname, function.__code__.co_firstlineno))
        if code is not None:
            try:
                function.__code__ = code
            except ValueError as error:
                raise NotReplaceable(str(mutant)) from error


def is_replaceable(mutant: Mutant, source: bytes) -> bool:
    """Returns whether the mutant's functions have the free variables of the original ones."""
    original, changed = _free_variables(mutant.module, source), _free_variables(mutant.module, mutant.apply(source))
    return all(original.get(place) == names for place, names in changed.items())


@lru_cache(maxsize=64)
def _free_variables(module: str, source: bytes) -> dict[tuple[str, int], tuple[str, ...]]:
    codes = _codes_in(compile(source, module, "exec", dont_inherit=True))
    return {(code.co_qualname, code.co_firstlineno): code.co_freevars for code in codes}


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes_in(constant)


#: The functions of each file of the product, by its path. A fork that looked for them would copy the memory of all objects.
_functions_of: dict[str, list[FunctionType]] = defaultdict(list)


def _functions_by_file() -> dict[str, list[FunctionType]]:
    found: dict[str, list[FunctionType]] = defaultdict(list)
    gc.unfreeze()  # tests/conftest.py froze them, and frozen objects are not listed
    for one in gc.get_objects():
        if isinstance(one, FunctionType):
            found[one.__code__.co_filename].append(one)
    gc.freeze()
    return found
