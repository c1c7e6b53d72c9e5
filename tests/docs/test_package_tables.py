"""Packages that have a table of their modules name each of them, and no module that is not there."""

from __future__ import annotations

import ast
import re
from pathlib import PurePosixPath

import pytest

from tests.harness.sources import files, tree_of

_HEAD = "| module | purpose |"


def table_of(init: str) -> list[str] | None:
    """The modules that the table of a package names; None for one that has no table."""
    text = ast.get_docstring(tree_of(init)) or ""
    if _HEAD not in text:
        return None
    rows = [line for line in text.split(_HEAD, 1)[1].splitlines() if line.startswith("|")]
    return [name for row in rows for name in re.findall(r"`(\w+\.py)`", row)]


def modules_of(init: str) -> set[str]:
    folder = PurePosixPath(init).parent
    return {PurePosixPath(file).name for file in files("*.py") if PurePosixPath(file).parent == folder} - {
        "__init__.py"
    }


INITS = [file for file in files("*.py") if file.endswith("__init__.py") and table_of(file) is not None]


def test_tables_are_found() -> None:
    assert "columns/__init__.py" in INITS and "spark/__init__.py" in INITS


@pytest.mark.parametrize("init", INITS)
def test_table_of_a_package_names_each_module(init: str) -> None:
    named = set(table_of(init) or ())
    assert {"missing": modules_of(init) - named, "gone": named - modules_of(init)} == {"missing": set(), "gone": set()}
