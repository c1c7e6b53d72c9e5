"""Each module of ours that code, or a program in a string, imports is there: a move leaves no stale name behind.

mypy does not see a missing module of ours in tests, whose imports it ignores, and no tool sees one in a string.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.harness.facts import kept_facts
from tests.harness.sources import files, text_of

ROOT = Path(__file__).resolve().parents[1]
IMPORT = re.compile(
    r"(?:\bfrom|\bimport|(?<= )-m) ((?:odradek|tests|compat_tests|benchmarks|spark_examples)(?:\.\w+)+)"
)


def is_module(dotted: str) -> bool:
    path = ROOT.joinpath(*dotted.removeprefix("odradek").strip(".").split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def missing_modules(text: str) -> list[str]:
    return [name for name in IMPORT.findall(text) if not is_module(name)]


@kept_facts
def imported_modules(file: str) -> set[str]:
    return set(IMPORT.findall(text_of(file)))


@pytest.mark.parametrize(
    "text", ["from odradek.storage.nothing import x", "import odradek.nothing", "python -m tests.nothing --write"]
)
def test_missing_module_is_found(text: str) -> None:
    assert len(missing_modules(text)) == 1


@pytest.mark.parametrize("text", ["from odradek.storage.log.log import x", "import odradek", "python -m tests.walked"])
def test_module_that_is_there_is_none(text: str) -> None:
    assert not missing_modules(text)


def test_every_imported_module_is_there() -> None:
    importers: dict[str, list[str]] = {}
    for file in files("*.py", "*.toml", "*.yml", "*.sh", "Makefile"):
        if file != "tests/test_imports.py":
            for name in imported_modules(file):
                importers.setdefault(name, []).append(file)
    assert len(importers) > 500
    assert {name: importers[name] for name in importers if not is_module(name)} == {}
