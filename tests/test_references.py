"""What docstrings, comments and pages refer to exists: paths of files, and the classes that docstrings say are raised."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.sources import files

ROOT = Path(__file__).resolve().parents[1]
#: Files of other programs, of the system, of users, and those that `make docs` writes.
ELSEWHERE = frozenset(
    (
        "contexts.toml",
        "kafka/cluster.py",
        "notes.md",
        "odradek/contexts.toml",
        "producer/sender.py",
        "python.md",
        "reference/command-line.md",
        "stdint.h",
        "string.h",
        "test_file.py",
    )
)
_PATH = re.compile(r"(?<![\w/.-])((?:[a-z_][\w-]*/)*[a-z_][\w-]*\.(?:py|md|c|h|toml))\b(?![\w/(])")
#: In pages, names without a folder are often examples.
_PATH_WITH_FOLDER = re.compile(r"(?<![\w/.:-])((?:[a-z_][\w-]*/)+[a-z_][\w-]*\.(?:py|md|c|h|toml))\b(?![\w/(])")
_RAISES = re.compile(r"\bRaises ([A-Z]\w+(?:(?:,| and| or|, and|, or)\s[A-Z]\w+)*)")
_CLASS = re.compile(r"[A-Z]\w+")
_COMMENT = re.compile(r"^[^\n\"']*?#([^\n]*)", re.MULTILINE)


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    return {name: (ROOT / name).read_text(encoding="utf-8") for name in files("*.py")}


@pytest.fixture(scope="module")
def trees(sources: dict[str, str]) -> dict[str, ast.Module]:
    return {name: ast.parse(text) for name, text in sources.items()}


@pytest.fixture(scope="module")
def paths() -> set[str]:
    """All files, with each end of their paths."""
    found = set()
    for name in files("*"):
        parts = name.split("/")
        found.update("/".join(parts[at:]) for at in range(len(parts)))
    return found


def docstrings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def stale(text: str, paths: set[str], pattern: re.Pattern[str]) -> list[str]:
    return [path for path in pattern.findall(text) if path not in paths and path not in ELSEWHERE]


def test_paths_in_docstrings_and_comments_exist(
    sources: dict[str, str], trees: dict[str, ast.Module], paths: set[str]
) -> None:
    found = [
        f"{name}: {path}"
        for name, text in sources.items()
        for prose in (*docstrings(trees[name]), *_COMMENT.findall(text))
        for path in stale(prose, paths, _PATH)
    ]
    assert found == []


def test_paths_in_pages_exist(paths: set[str]) -> None:
    found = [
        f"{name}: {path}"
        for name in files("*.md")
        for path in stale((ROOT / name).read_text(encoding="utf-8"), paths, _PATH_WITH_FOLDER)
    ]
    assert found == []


def test_classes_that_docstrings_say_are_raised_exist(trees: dict[str, ast.Module]) -> None:
    known = set(vars(builtins))
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                known.add(node.name)
            elif isinstance(node, ast.ImportFrom):
                known.update(alias.name for alias in node.names)
    found = [
        f"{name}: Raises {cls}"
        for name, tree in trees.items()
        for text in docstrings(tree)
        for listed in _RAISES.findall(text)
        for cls in _CLASS.findall(listed)
        if cls not in known
    ]
    assert found == []
