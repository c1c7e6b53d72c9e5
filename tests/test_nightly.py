"""Tests that only `make nightly` runs: each name is that of a test, the page shows the table, and the run follows it."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.docs import programs
from tests.plugins.without_nightly import NIGHTLY, is_nightly

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "development" / "testing.md"


def functions(path: Path) -> list[str]:
    """Returns the names of the tests of a module, or of all modules of a folder."""
    files = [path] if path.is_file() else sorted([*path.parent.glob(path.name), *path.rglob("test_*.py")])
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files if file.is_file()]
    nodes = [node for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [node.name for node in nodes if node.name.startswith("test_")]


@pytest.mark.parametrize("name", [name for part in NIGHTLY for name in part.names])
def test_name_of_the_table_is_that_of_a_test(name: str) -> None:
    path, _, test = name.partition("::")
    wanted = test.partition("[")[0] or "*"
    assert [one for one in functions(ROOT / path) if fnmatchcase(one, wanted)], name


def test_page_shows_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    shown = re.findall(r"^\| (.+) \| (.+) \|$", text.partition("| only `make nightly` |")[2], re.MULTILINE)
    assert [row for row in shown if row[0] != "---"][: len(NIGHTLY)] == [(part.title, part.kept) for part in NIGHTLY]


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("compat_tests/cluster/test_mixed_cluster.py::test_leaders_and_followers_are_of_both[plain]", True),
        ("compat_tests/cluster/test_mixed_cluster.py::test_leaders_and_followers_are_of_both[secured]", False),
        ("tests/explored/test_explored.py::test_whole_configuration_is_explored", True),
        ("tests/storage/test_recovery.py::test_any", False),
    ],
)
def test_name_selects_all_tests_that_begin_with_it(test: str, expected: bool) -> None:
    assert is_nightly(test) is expected


def test_programs_of_a_page_run_if_a_block_or_the_code_changed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    test = "tests/docs/test_blocks.py::test_blocks_of_a_page_run_in_order[backup.md]"
    monkeypatch.setattr(programs, "FILE", tmp_path / "programs.tsv")
    assert programs.page_of(test) == "backup.md" and not is_nightly(test)
    programs.FILE.write_text(f"backup.md\t{programs.digest('backup.md')}\n", encoding="utf-8")
    assert is_nightly(test)
    monkeypatch.setattr(programs, "_HARNESS", ("tests/docs/shells.py",))
    assert not is_nightly(test)


@pytest.mark.parametrize("test", programs.PAGES_OF_TESTS)
def test_test_of_a_page_exists(test: str) -> None:
    path, _, name = test.partition("::")
    assert name in functions(ROOT / path)


def test_code_of_a_page_has_the_modules_of_its_commands_and_imports() -> None:
    text = "odradek backup x\nodradek query y\nodradek start\nimport odradek\n"
    found = {str(path.relative_to(ROOT)) for path in programs._code(text)}
    assert {"cli/backup/taking.py", "columns/scan.py", "cli/start_command.py", "testing/pytest_plugin.py"} < found
