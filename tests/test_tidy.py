"""The limits of CONTRIBUTING.md: functions fit a screen, and a file holds one whole noun."""

from __future__ import annotations

import ast
import statistics
from functools import cache
from pathlib import Path

import pytest

from tests.harness.prose import statements_of
from tests.harness.sources import files, nodes_of, tree_of

ROOT = Path(__file__).resolve().parents[1]
MOST_FILE_LINES = 800
MOST_FUNCTION_LINES = 70
MOST_MEDIAN_FUNCTION_LINES = 20
#: Tables, whose length has no limit.
TABLES = ("protocol/messages/", "protocol/internal/")
ROOMS = (
    "client",
    "protocol",
    "metadata",
    "storage",
    "replication",
    "coordinator",
    "server",
    "testing",
    "cli",
    "archive",
    "columns",
    "console",
    "spark",
    "tiers",
)
PURE_ROOMS = ("protocol", "metadata", "replication", "coordinator")


def functions(name: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in statements_of(name) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


@pytest.fixture(scope="module")
def sources() -> dict[str, ast.Module]:
    return {name: tree_of(name) for name in files("*.py")}


def test_no_file_is_longer_than_the_limit(sources: dict[str, ast.Module]) -> None:
    lengths = {name: (ROOT / name).read_text(encoding="utf-8").count("\n") for name in sources}
    long = {name: lines for name, lines in lengths.items() if lines > MOST_FILE_LINES and not name.startswith(TABLES)}
    assert not long, f"over {MOST_FILE_LINES} lines, split by noun: {long}"


def test_no_function_is_longer_than_a_screen(sources: dict[str, ast.Module]) -> None:
    long = {
        f"{name}:{node.name}": length(node)
        for name in sources
        for node in functions(name)
        if length(node) > MOST_FUNCTION_LINES
    }
    assert not long, long


def test_most_functions_are_short(sources: dict[str, ast.Module]) -> None:
    lengths = [length(node) for name in sources for node in functions(name)]
    assert statistics.median(lengths) < MOST_MEDIAN_FUNCTION_LINES


def test_rooms_import_each_other_relatively(sources: dict[str, ast.Module]) -> None:
    """An absolute import from the root loads a package twice; an import of `odradek.` from inside it hides a cycle."""
    absolute = [
        f"{name}:{node.lineno}"  # type: ignore[attr-defined]
        for name, tree in sources.items()
        if name.split("/")[0] in ROOMS
        for node in statements_of(name)
        for imported in imported_absolutely(node)
        if imported.split(".")[0] in (*ROOMS, "odradek")
    ]
    assert not absolute


def test_no_module_imports_a_test_module(sources: dict[str, ast.Module]) -> None:
    """Helpers that several test modules need stand in a `harness/` module."""
    imported = [
        f"{name}:{node.lineno}: {node.module}"
        for name, tree in sources.items()
        for node in statements_of(name)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.rpartition(".")[2].startswith("test_")
    ]
    assert not imported


@cache
def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def test_imports_of_test_helpers_exist(sources: dict[str, ast.Module]) -> None:
    """Ruff and mypy do not resolve them, and a collection of all tests takes a minute."""
    missing = [
        f"{name}:{node.lineno}: {node.module}"
        for name, tree in sources.items()
        for node in statements_of(name)
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0
        if node.module.split(".")[0] in ("tests", "compat_tests")
        if not is_module(node.module)
    ]
    assert not missing


def test_tests_of_the_server_follow_its_folders(sources: dict[str, ast.Module]) -> None:
    flat = [name for name in sources if name.startswith("tests/server/test_")]
    assert not flat


def imported_absolutely(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        return [node.module]
    return []


def test_pure_rooms_open_no_files(sources: dict[str, ast.Module]) -> None:
    opened = [
        f"{name}:{node.lineno}"
        for name, tree in sources.items()
        if name.split("/")[0] in PURE_ROOMS
        for node in nodes_of(name)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open"
    ]
    assert not opened


def test_every_file_says_what_it_is_for(sources: dict[str, ast.Module]) -> None:
    silent = [name for name, tree in sources.items() if name.split("/")[0] in ROOMS and not ast.get_docstring(tree)]
    assert not silent
