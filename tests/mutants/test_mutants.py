"""Mutants of small sources, probes, and a run over one module."""

from __future__ import annotations

import builtins
import gzip
import hashlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.__main__ import EQUIVALENT, sample, shown
from tests.mutants.core import ROOT, files_of_tests, modules
from tests.mutants.mutation import Mutant, mutants_in, mutants_of
from tests.mutants.reach import _PROBE, ProbedFinder, ReachMap, digest
from tests.mutants.runner import MOST_CPU_SECONDS, ordered_tests

SOURCE = '''"""A module."""
LIMIT = 5


class Replica:
    @property
    def is_behind(self) -> bool:
        """Whether it is."""
        log.warning("behind %d", 1)
        assert self.end >= 0
        return not self.end < LIMIT and self.is_alive

    def advance(self, by: int = 1) -> None:
        while by > 0:
            self.end += 1
            by -= 1
        if self.end == LIMIT:
            self.stop()
'''


def changes(source: str = SOURCE) -> set[tuple[str, int, str]]:
    """Returns the kind, the line and the new text of each mutant."""
    data = source.encode()
    return {
        (mutant.kind, mutant.line, mutant.apply(data).decode().splitlines()[mutant.line - 1].strip())
        for mutant in mutants_of("replica.py", data)
    }


@pytest.mark.parametrize(("folder", "is_read"), [("transcripts", True), ("others", False)])
def test_record_is_outdated_when_a_transcript_of_its_test_has_changed(
    folder: str, is_read: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.mutants.reach.ROOT", tmp_path)
    (tmp_path / "test_it.py").write_text('FOLDER = "transcripts"')
    before = digest("test_it.py")
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "new.txt").write_text("> join")
    assert (digest("test_it.py") != before) == is_read


def test_each_kind_changes_its_own_part_of_a_function() -> None:
    assert changes() == {
        ("statement", 11, "pass"),
        ("and/or", 11, "return (not self.end < LIMIT or self.is_alive)"),
        ("not", 11, "return (self.end < LIMIT) and self.is_alive"),
        ("comparison", 11, "return not (self.end <= LIMIT) and self.is_alive"),
        ("branch", 14, "while False:"),
        ("comparison", 14, "while (by >= 0):"),
        ("constant", 14, "while by > 1:"),
        ("statement", 15, "pass"),
        ("constant", 15, "self.end += 2"),
        ("statement", 16, "pass"),
        ("constant", 16, "by -= 2"),
        ("branch", 17, "if True:"),
        ("branch", 17, "if False:"),
        ("comparison", 17, "if (self.end != LIMIT):"),
        ("statement", 18, "pass"),
    }


def test_mutant_belongs_to_its_outermost_function_and_its_block() -> None:
    places = {
        (mutant.line, mutant.function, mutant.function_line, mutant.block)
        for mutant in mutants_of("r.py", SOURCE.encode())
    }
    assert places == {
        (11, "Replica.is_behind", 6, 0),
        (14, "Replica.advance", 13, 0),
        (15, "Replica.advance", 13, 1),
        (16, "Replica.advance", 13, 1),
        (17, "Replica.advance", 13, 0),
        (18, "Replica.advance", 13, 2),
    }


def test_characters_of_several_bytes_before_a_mutant_do_not_move_it() -> None:
    assert ("constant", 2, 'return "ä", 3') in changes('def size():\n    return "ä", 2\n')


def test_condition_that_binds_a_name_is_not_forced() -> None:
    kinds = {kind for kind, _, _ in changes("def found():\n    if (one := find()) is not None:\n        return one\n")}
    assert kinds == {"comparison", "statement"}


def test_sample_depends_on_its_seed_only() -> None:
    patterns = ["replication/replica_role.py", "storage/segments/index.py"]
    first = sample(patterns, 20, 4)
    assert sample(patterns, 20, 4) == first
    assert sample(patterns, 20, 5) != first
    assert len(first) == 20


@pytest.mark.slow
def test_every_mutant_of_the_core_compiles_and_has_a_probed_block() -> None:
    chosen = modules(["replication/*", "storage/segments/*"])
    finder = ProbedFinder(chosen)
    for module in chosen:
        finder.compile(module)
    places = set(finder.places)
    for mutant in mutants_in(ROOT, chosen):
        assert f"{mutant.module}:{mutant.function}:{mutant.block}" in places
    for mutant in sample(["replication/*"], 40, 1):
        compile(mutant.apply((ROOT / mutant.module).read_bytes()), mutant.module, "exec")


def test_probe_reports_the_blocks_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    finder = ProbedFinder([])
    reached = set[int]()
    monkeypatch.setattr(builtins, _PROBE, reached.add, raising=False)
    space: dict[str, object] = {"__name__": "odradek.protocol.uuids"}
    exec(finder.compile("protocol/uuids.py"), space)
    to_text = space["uuid_to_text"]
    assert callable(to_text)
    assert not reached
    to_text(bytes(16))
    assert {finder.places[number] for number in reached} == {"protocol/uuids.py:uuid_to_text:0"}


PLACES = NEAR, BY_PACKAGE, FAR = tuple(
    f"tests/{folder}test_a.py::{{}}" for folder in ("server/fetch/", "server/", "protocol/")
)


@pytest.mark.parametrize(
    ("cpu_seconds", "expected"),
    [
        ({NEAR.format(1): 0.2, NEAR.format(2): 0.1}, [NEAR.format(2), NEAR.format(1)]),
        ({FAR.format(1): 1, BY_PACKAGE.format(1): 2, NEAR.format(1): 3}, [place.format(1) for place in PLACES]),
        ({NEAR.format(1): MOST_CPU_SECONDS + 1, FAR.format(1): 0.1}, [NEAR.format(1)]),
        ({NEAR.format(1): MOST_CPU_SECONDS - 1, FAR.format(1): 1.0, FAR.format(2): 1.1}, [NEAR.format(1), FAR.format(1)]),
    ],
)  # fmt: skip
def test_mutant_gets_the_nearest_and_cheapest_tests_up_to_the_limit_of_their_cpu_time(
    cpu_seconds: dict[str, float], expected: list[str]
) -> None:
    mutant = Mutant("server/fetch/fetch.py", "not", "f", 1, 0, 1, 0, 1, "pass")
    assert ordered_tests(mutant, set(cpu_seconds), cpu_seconds) == expected


RECORDED = """
import subprocess, sys, threading, time

def burn():
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass

def test_that_computes():
    burn()

def test_that_waits():
    threading.Event().wait(0.6)

def test_with_a_child():
    child = "import time\\nwhile time.process_time() < 0.4: pass"
    subprocess.run([sys.executable, "-c", child], check=True)
"""
RECORDER = """
import sys
from pathlib import Path
import pytest
from tests.mutants import reach
reach.FOLDER = reach.ROOT = Path(sys.argv[1])
reach.files_of_tests = lambda: ["test_recorded.py"]
file = ["test_recorded.py"]
pytest.main(["-q", "--rootdir", sys.argv[1], "-p", "no:cacheprovider", sys.argv[1]], plugins=[reach.ReachRecorder([], file)])
found = reach.ReachMap.load()
for name in sorted(found.cpu_seconds):
    print("recorded", name.partition("::")[2], found.cpu_seconds[name], found.seconds[name])
"""


@pytest.mark.usefixtures("processes")
def test_record_has_the_cpu_time_of_a_test_and_of_its_children_without_its_waits(tmp_path: Path) -> None:
    """The time that passes grows with the other work of the machine, and a mutant would get fewer tests then."""
    (tmp_path / "test_recorded.py").write_text(RECORDED)
    command = [sys.executable, "-c", RECORDER, str(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    lines = [line.split()[1:] for line in ran.stdout.splitlines() if line.startswith("recorded")]
    cpu = {name: float(seconds) for name, seconds, _ in lines}
    wall = {name: float(seconds) for name, _, seconds in lines}
    assert cpu["test_that_computes"] >= 0.3
    assert cpu["test_with_a_child"] >= 0.4
    assert cpu["test_that_waits"] < 0.3 < 0.6 <= wall["test_that_waits"]


def test_record_without_cpu_times_is_outdated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a record was written before they were kept, with a digest of the test file alone."""
    monkeypatch.setattr("tests.mutants.reach.ROOT", tmp_path)
    monkeypatch.setattr("tests.mutants.reach.FOLDER", tmp_path)
    monkeypatch.setattr("tests.mutants.reach.files_of_tests", lambda: ["test_it.py"])
    (tmp_path / "test_it.py").write_text("def test_it(): pass")
    content: dict[str, Any] = {"tests": {"test_it.py::test_it": {"seconds": 0.1, "passed": True}}, "reached": {}}
    (tmp_path / "reach").mkdir()
    for is_old in (True, False):
        source = (tmp_path / "test_it.py").read_bytes()
        content["digest"] = hashlib.sha256(source).hexdigest() if is_old else digest("test_it.py")
        content["tests"]["test_it.py::test_it"] |= {} if is_old else {"cpu_seconds": 0.05}
        (tmp_path / "reach" / "test_it.py.json.gz").write_bytes(gzip.compress(json.dumps(content).encode()))
        found = ReachMap.load()
        assert found.stale == (["test_it.py"] if is_old else [])
    assert found.cpu_seconds == {"test_it.py::test_it": 0.05}


@pytest.mark.slow
def test_the_core_has_modules_and_tests() -> None:
    assert len(modules([])) > 70
    assert len(files_of_tests()) > 100


@pytest.mark.slow
def test_each_equivalent_mutant_exists_and_has_a_reason() -> None:
    rows = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["mutant"]
    places = {(row["module"], row["function"], row["kind"]) for row in rows}
    modules_with_rows = sorted({row["module"] for row in rows})
    assert [module for module in modules_with_rows if not (ROOT / module).is_file()] == []
    existing = {
        (mutant.module, mutant.function, mutant.kind, shown(mutant, (ROOT / mutant.module).read_bytes()))
        for mutant in mutants_in(ROOT, modules_with_rows)
        if (mutant.module, mutant.function, mutant.kind) in places
    }
    listed = [(row["module"], row["function"], row["kind"], row["diff"].strip()) for row in rows]
    assert [row for row in listed if row not in existing] == [], "the code of these rows has changed"
    assert len(set(listed)) == len(listed)
    assert all(row["reason"] for row in rows)


@pytest.mark.usefixtures("processes")
def test_run_over_a_module_counts_what_its_tests_notice() -> None:
    module = ROOT / "replication/replica_role.py"
    before = module.read_bytes()
    command = (
        "-m tests.mutants --modules replication/replica_role.py --sample 12 --seed 3 "
        "--tests tests/replication/test_replica_role.py"
    )
    ran = subprocess.run(
        [sys.executable, *command.split()], cwd=ROOT, capture_output=True, text=True, timeout=250, check=True
    )
    counts = re.search(
        r"12 mutants in 1 modules: (\d+) killed, (\d+) timed out, (\d+) survived, (\d+) unreached", ran.stdout
    )
    assert counts is not None, ran.stdout + ran.stderr
    assert int(counts[1]) > 0
    assert module.read_bytes() == before
