"""The limits of CONTRIBUTING.md: functions fit a screen, and a file holds one whole noun."""

from __future__ import annotations

import ast
import statistics
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from tests.harness.examples import examples
from tests.harness.facts import kept_facts
from tests.harness.prose import statements_of
from tests.harness.sources import files, nodes_of, tree_of

ROOT = Path(__file__).resolve().parents[1]
MOST_FILE_LINES = 800
MOST_FUNCTION_LINES = 70
MOST_MEDIAN_FUNCTION_LINES = 20
#: Tables, whose length has no limit.
TABLES = ("protocol/messages/", "protocol/internal/")
ROOMS = (
    "admin",
    "client",
    "protocol",
    "metadata",
    "storage",
    "replication",
    "coordinator",
    "server",
    "testing",
    "cli",
    "admin",
    "archive",
    "columns",
    "console",
    "records",
    "spark",
    "tiers",
)
PURE_ROOMS = ("protocol", "metadata", "replication", "coordinator")


@kept_facts
def lengths_of_functions(name: str) -> list[tuple[str, int]]:
    found = []
    for node in statements_of(name):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            found.append((node.name, node.end_lineno - node.lineno + 1))
    return found


@kept_facts
def imports_from(name: str) -> list[tuple[int, int, str]]:
    """Returns line, level and module of each `from module import …` of a module."""
    nodes = [node for node in statements_of(name) if isinstance(node, ast.ImportFrom)]
    return [(node.lineno, node.level, node.module or "") for node in nodes]


@kept_facts
def absolute_imports(name: str) -> list[tuple[int, str]]:
    """Returns line and name of each module that a module imports absolutely."""
    nodes = [node for node in statements_of(name) if isinstance(node, ast.Import)]
    plain = [(node.lineno, alias.name) for node in nodes for alias in node.names]
    return [*plain, *((line, module) for line, level, module in imports_from(name) if level == 0 and module)]


@pytest.fixture(scope="module")
def sources() -> list[str]:
    return files("*.py")


def test_no_file_is_longer_than_the_limit(sources: list[str]) -> None:
    lengths = {name: (ROOT / name).read_text(encoding="utf-8").count("\n") for name in sources}
    long = {name: lines for name, lines in lengths.items() if lines > MOST_FILE_LINES and not name.startswith(TABLES)}
    assert not long, f"over {MOST_FILE_LINES} lines, split by noun: {long}"


def test_no_function_is_longer_than_a_screen(sources: list[str]) -> None:
    long = {
        f"{name}:{function}": length
        for name in sources
        for function, length in lengths_of_functions(name)
        if length > MOST_FUNCTION_LINES
    }
    assert not long, long


def test_most_functions_are_short(sources: list[str]) -> None:
    lengths = [length for name in sources for _, length in lengths_of_functions(name)]
    assert statistics.median(lengths) < MOST_MEDIAN_FUNCTION_LINES


def test_rooms_import_each_other_relatively(sources: list[str]) -> None:
    """An absolute import from the root loads a package twice; an import of `odradek.` from inside it hides a cycle."""
    absolute = [
        f"{name}:{line}"
        for name in sources
        if name.split("/")[0] in ROOMS
        for line, imported in absolute_imports(name)
        if imported.split(".")[0] in (*ROOMS, "odradek")
    ]
    assert not absolute


def test_no_module_imports_a_test_module(sources: list[str]) -> None:
    """Helpers that several test modules need stand in a `harness/` module."""
    imported = [
        f"{name}:{line}: {module}"
        for name in sources
        for line, _, module in imports_from(name)
        if module.rpartition(".")[2].startswith("test_")
    ]
    assert not imported


@cache
def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def test_imports_of_test_helpers_exist(sources: list[str]) -> None:
    """Ruff and mypy do not resolve them, and a collection of all tests takes a minute."""
    missing = [
        f"{name}:{line}: {module}"
        for name in sources
        for line, level, module in imports_from(name)
        if level == 0 and module.split(".")[0] in ("tests", "compat_tests") and not is_module(module)
    ]
    assert not missing


def test_tests_of_the_server_follow_its_folders(sources: list[str]) -> None:
    flat = [name for name in sources if name.startswith("tests/server/test_")]
    assert not flat


@kept_facts
def lines_that_open(name: str) -> list[int]:
    calls = [node for node in nodes_of(name) if isinstance(node, ast.Call)]
    return [node.lineno for node in calls if isinstance(node.func, ast.Name) and node.func.id == "open"]


def test_pure_rooms_open_no_files(sources: list[str]) -> None:
    pure = [name for name in sources if name.split("/")[0] in PURE_ROOMS]
    assert [f"{name}:{line}" for name in pure for line in lines_that_open(name)] == []


@kept_facts
def docstring_of(name: str) -> str:
    return ast.get_docstring(tree_of(name)) or ""


def test_every_file_says_what_it_is_for(sources: list[str]) -> None:
    silent = [name for name in sources if name.split("/")[0] in ROOMS and not docstring_of(name)]
    assert not silent


@kept_facts
def fixed_examples(name: str) -> list[int]:
    """Returns the lines that give Hypothesis a number of examples which no option of the run reduces."""
    calls = [node for node in nodes_of(name) if isinstance(node, ast.Call)]
    given = [one for call in calls for one in call.keywords if one.arg == "max_examples"]
    return [one.value.lineno for one in given if _is_fixed(one.value)]


def _is_fixed(count: ast.expr) -> bool:
    if isinstance(count, ast.Name):
        return count.id.isupper()
    return not isinstance(count, ast.Call) and ast.unparse(count) != "1"


def test_numbers_of_examples_are_reduced_by_the_options_of_a_run(sources: list[str]) -> None:
    """`make check` runs a tenth of them: tests/harness/examples.py."""
    fixed = [f"{name}:{line}" for name in sources for line in fixed_examples(name)]
    assert fixed == []


def test_default_number_of_examples_of_hypothesis_is_reduced_by_the_options_of_a_run() -> None:
    assert settings().max_examples == examples(100)
