"""The table of consoles: each Y of Odradek is shown by a test that exists."""

from __future__ import annotations

import ast
import re

import pytest

from tests.docs.pages import DOCS, ROOT

PAGE = DOCS / "development" / "console-comparison.md"
_ROW = re.compile(r"^\| (?P<what>[^|]+) \| (?P<odradek>[^|]+) \| [^|]+ \| [^|]+ \| [^|]+ \|$", re.MULTILINE)
CELLS = {found["what"]: found["odradek"] for found in _ROW.finditer(PAGE.read_text(encoding="utf-8"))}


def test_table_has_its_rows() -> None:
    assert len(CELLS) > 30 and {cell[0] for cell in CELLS.values()} == {"Y", "N"}


@pytest.mark.parametrize("what", [what for what, cell in CELLS.items() if cell != "N"])
def test_yes_is_shown_by_a_test(what: str) -> None:
    found = re.fullmatch(r"Y `(?P<file>[\w/]+\.py)::(?P<test>test_\w+)`", CELLS[what])
    assert found is not None, CELLS[what]
    tree = ast.parse((ROOT / found["file"]).read_text(encoding="utf-8"))
    assert found["test"] in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
