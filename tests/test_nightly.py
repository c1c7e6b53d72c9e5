"""Tests that only `make nightly` runs: each name is that of a test, the page shows the table, and the run follows it."""

from __future__ import annotations

import ast
import json
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.docs import programs
from tests.docs.pages import blocks
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
    assert programs.pages_of(test) == ["backup.md"] and not is_nightly(test)
    programs.FILE.write_text(f"backup.md\t{programs.digest('backup.md')}\n", encoding="utf-8")
    assert is_nightly(test)
    monkeypatch.setattr(programs, "_HARNESS", ("tests/docs/shells.py",))
    assert not is_nightly(test)


@pytest.mark.parametrize("test", programs.PAGES_OF_TESTS)
def test_test_of_a_page_exists(test: str) -> None:
    path, _, name = test.partition("::")
    assert name in functions(ROOT / path)


def test_code_of_a_page_has_the_modules_of_its_commands_and_of_the_names_that_it_imports() -> None:
    text = (
        "odradek backup x\nodradek query y\nodradek start\nimport odradek\nodradek.scan(folder)\n"
        "from odradek.plugins import Action\ndef test_any(odradek_broker): ...\n"
    )
    found = {str(path.relative_to(ROOT)) for path in programs._code(text)}
    commands = {"cli/backup/command.py", "query/command.py", "cli/start_command.py"}
    names = {"columns/scan.py", "server/access/authorization/authorizer.py", "testing/pytest_plugin.py"}
    assert found == {*programs._HARNESS, *commands, *names}


@pytest.mark.parametrize("page", programs.pages_with_programs())
def test_each_name_that_a_page_imports_is_found(page: str) -> None:
    path = programs.path_of(page)
    text = "\n".join(block.text for block in blocks(path) if block.language == "python")
    imported = programs._IMPORTED.findall(text)
    assert [names for module, names in imported if not [*programs._modules_of_imported(module, names)]] == []


def test_words_of_a_module_change_no_program(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("first.py", "second.py", "third.py"))
    first.write_text('"""One."""\n# Why.\ndef f():\n    """Two\n    lines."""\n    return """\nx"""\n')
    second.write_text('"""Another."""\n\ndef f():\n    # Because.\n    return """\nx"""\n')
    third.write_text('def f():\n    return """\ny"""\n')
    assert programs._without_comments(first) == programs._without_comments(second)
    assert programs._without_comments(first) != programs._without_comments(third)


def test_digests_are_of_pages_whose_tests_all_passed(tmp_path: Path) -> None:
    blocks_of = "tests/docs/test_blocks.py::test_blocks_of_a_page_run_in_order[{}.md]".format
    folder, bucket = [test for test, page in programs.PAGES_OF_TESTS.items() if page == "tiered-storage.md"]
    guide = next(test for test, page in programs.PAGES_OF_TESTS.items() if page == "spark.md")
    beside = next(test for test, page in programs.PAGES_OF_TESTS.items() if page == "testing*.md")
    passed = [blocks_of("backup"), blocks_of("testing"), blocks_of("testing-faults"), guide, folder, f"{beside}[a]"]
    kinds = {"passed": passed, "failed": [blocks_of("tables"), blocks_of("testing-faults")], "skipped": [bucket]}
    entries = [{"kind": "began", "options": []}]
    for kind, tests in kinds.items():
        entries += [{"kind": one, "test": test} for test in tests for one in ("started", kind)]
    entries.append({"kind": "started", "test": blocks_of("columns")})
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "1.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    found = programs.pages_that_passed(tmp_path)
    assert {"backup.md", "spark.md", "testing.md"} <= found
    assert {
        "columns.md",
        "tables.md",
        "testing-faults.md",
        "testing-frameworks.md",
        "tiered-storage.md",
    } & found == set()
    with (tmp_path / "tests" / "1.jsonl").open("a") as file:
        file.write(json.dumps({"kind": "failed", "test": f"{beside}[b]"}) + "\n")
    (tmp_path / "2.jsonl").write_text(json.dumps({"kind": "passed", "test": blocks_of("columns")}) + "\n")
    assert programs.pages_that_passed(tmp_path) == {"backup.md", "columns.md", "spark.md"}
