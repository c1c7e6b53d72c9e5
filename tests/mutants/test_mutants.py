"""Mutants of small sources, probes, and a run over one module."""

from __future__ import annotations

import builtins
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.mutants.__main__ import EQUIVALENT, reason_of, sample
from tests.mutants.core import ROOT, files_of_tests, modules
from tests.mutants.mutation import Mutant, mutants_in, mutants_of
from tests.mutants.reach import _PROBE, ProbedFinder, digest

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
    patterns = ["replication/isr.py", "storage/segments/index.py"]
    first = sample(patterns, 20, 4)
    assert sample(patterns, 20, 4) == first
    assert sample(patterns, 20, 5) != first
    assert len(first) == 20


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


def test_the_core_has_modules_and_tests() -> None:
    assert len(modules([])) > 70
    assert len(files_of_tests()) > 100


def test_each_equivalent_mutant_exists_and_has_a_reason() -> None:
    rows = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8")).get("mutant", [])
    known = {row["module"] for row in rows}
    listed: list[Mutant] = [mutant for mutant in mutants_in(ROOT, sorted(known)) if reason_of(mutant) is not None]
    assert len({(mutant.module, mutant.start, mutant.kind, mutant.replacement) for mutant in listed}) >= len(rows)
    assert all(row["reason"] for row in rows)


@pytest.mark.usefixtures("processes")
def test_run_over_a_module_counts_what_its_tests_notice() -> None:
    module = ROOT / "replication/isr.py"
    before = module.read_bytes()
    command = (
        "-m tests.mutants --modules replication/isr.py --sample 12 --seed 3 --tests tests/replication/test_partition.py"
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
