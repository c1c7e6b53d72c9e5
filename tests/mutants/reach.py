"""The map from each block of statements in the core to the tests that reach it, with their times.

A hook of the import compiles the modules of the core with a probe at the beginning of each block; then all tests run once.
`coverage` does this with a context for each test, and traces all code for it. A probe is one call of `set.add`, and no other
code is slower. The map has a file for each test file below `.mutants/`. A test file that has changed runs again.
"""

from __future__ import annotations

import ast
import builtins
import gzip
import hashlib
import importlib.machinery
import json
import resource
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import CodeType, ModuleType
from typing import Any

import pytest

from tests.mutants.core import ROOT, files_of_tests
from tests.mutants.mutation import Mutant, blocks

FOLDER = ROOT / ".mutants"
_PROBE = "__odradek_reached__"
#: The format of the records below FOLDER: a record of another one is outdated.
_FORMAT = b"2"


def digest(path: str) -> str:
    """Returns the digest of a test file, and of the texts in folders beside it that it names, such as transcripts."""
    source = (ROOT / path).read_bytes()
    found = hashlib.sha256(_FORMAT + source)
    for text in sorted((ROOT / path).parent.glob("*/*.txt")):
        if f'"{text.parent.name}"'.encode() in source:
            found.update(text.read_bytes())
    return found.hexdigest()


def cpu_seconds() -> float:
    """Returns the CPU time of this process and of its children that have ended: other work of the machine adds none."""
    usages = [resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class ProbedFinder:
    """Finds the modules of the core, and compiles them with probes. `places`: the place of each probe by its number."""

    def __init__(self, modules: Sequence[str]) -> None:
        self.places: list[str] = []
        self._modules = set(modules)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        parts = name.split(".")
        module = "/".join(parts[1:])
        for file in (f"{module}.py", f"{module}/__init__.py"):
            if parts[0] == "odradek" and file in self._modules:
                return importlib.util.spec_from_file_location(name, ROOT / file, loader=_ProbedLoader(self, name, file))
        return None

    def compile(self, module: str) -> CodeType:
        tree = ast.parse((ROOT / module).read_bytes())
        for name, function in _functions(tree, ()):
            for number, block in enumerate(list(blocks(function))):
                self._insert(f"{module}:{name}:{number}", block)
        return compile(ast.fix_missing_locations(tree), str(ROOT / module), "exec", dont_inherit=True)

    def _insert(self, place: str, block: list[ast.stmt]) -> None:
        probe = ast.Expr(ast.Call(ast.Name(_PROBE, ast.Load()), [ast.Constant(len(self.places))], []))
        self.places.append(place)
        has_docstring = isinstance(block[0], ast.Expr) and isinstance(block[0].value, ast.Constant)
        block.insert(int(has_docstring), ast.copy_location(probe, block[0]))


class _ProbedLoader(importlib.machinery.SourceFileLoader):
    def __init__(self, finder: ProbedFinder, name: str, module: str) -> None:
        super().__init__(name, str(ROOT / module))
        self._finder = finder
        self._module = module

    def get_code(self, fullname: str) -> CodeType:
        return self._finder.compile(self._module)


def _functions(node: ast.AST, names: tuple[str, ...]) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield ".".join((*names, child.name)), child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, (*names, child.name))
        else:
            yield from _functions(child, names)


class ReachRecorder:
    """A plugin of pytest that writes the map of each test file when its last test has run."""

    def __init__(self, modules: Sequence[str], files: Sequence[str]) -> None:
        self._finder = ProbedFinder(modules)
        self._files = set(files)
        self._tests: dict[str, dict[str, Any]] = {}
        self._reached: dict[str, set[int]] = {}
        sys.meta_path.insert(0, self._finder)
        setattr(builtins, _PROBE, set[int]().add)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        reached = self._reached[item.nodeid] = set[int]()
        setattr(builtins, _PROBE, reached.add)
        before = cpu_seconds()
        try:
            return (yield)
        finally:
            setattr(builtins, _PROBE, set[int]().add)
            self._tests[item.nodeid]["cpu_seconds"] = cpu_seconds() - before
            if nextitem is None or nextitem.path != item.path:
                self._write(item.nodeid.partition("::")[0])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = self._tests.setdefault(report.nodeid, {"seconds": 0.0, "passed": False})
        if report.when == "call":
            test["passed"] = report.passed
        # The set-up of a fixture that many tests share is a part of each, when it runs alone.
        test["seconds"] += report.duration

    def pytest_sessionfinish(self) -> None:
        for file in sorted(self._files):  # all of their tests are in a higher tier
            self._write(file)

    def _write(self, file: str) -> None:
        self._files.discard(file)
        reached: dict[str, list[int]] = {}
        for number, name in enumerate(self._tests):
            for probe in sorted(self._reached[name]):
                reached.setdefault(self._finder.places[probe], []).append(number)
        content = {"digest": digest(file), "tests": self._tests, "reached": reached}
        path = FOLDER / "reach" / f"{file.replace('/', '.')}.json.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(json.dumps(content).encode(), compresslevel=5))
        self._tests, self._reached = {}, {}


@dataclass(slots=True)
class ReachMap:
    #: The time of each test that passes without a mutant, and its CPU time, which does not depend on other work.
    seconds: dict[str, float] = field(default_factory=dict)
    cpu_seconds: dict[str, float] = field(default_factory=dict)
    failing: set[str] = field(default_factory=set)
    #: Test files with a map, and those whose map is not there or older than the file.
    files: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    _reached: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def load(cls, patterns: Sequence[str] = ()) -> ReachMap:
        """`patterns`: prefixes of the paths of test files; without any, all."""
        found = cls()
        for file in files_of_tests():
            if patterns and not file.startswith(tuple(patterns)):
                continue
            path = FOLDER / "reach" / f"{file.replace('/', '.')}.json.gz"
            content = json.loads(gzip.decompress(path.read_bytes())) if path.exists() else None
            if content is None or content["digest"] != digest(file):
                found.stale.append(file)
            else:
                found.files.append(file)
                found._add(content)
        return found

    def _add(self, content: dict[str, Any]) -> None:
        names = list(content["tests"])
        for name, test in content["tests"].items():
            if test["passed"]:
                self.seconds[name] = test["seconds"]
                self.cpu_seconds[name] = test["cpu_seconds"]
            else:
                self.failing.add(name)
        for place, numbers in content["reached"].items():
            self._reached.setdefault(place, set()).update(names[number] for number in numbers)

    def tests_of(self, mutant: Mutant) -> set[str]:
        """Returns the passing tests that reach the mutant's block."""
        found = self._reached.get(f"{mutant.module}:{mutant.function}:{mutant.block}", set())
        return found & self.seconds.keys()
