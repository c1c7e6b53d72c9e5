"""Garbage collection has one owner, and a slice one length. test_collector.py has what the owner does."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PRODUCT = ("protocol", "metadata", "storage", "replication", "coordinator", "server", "testing", "cli", "console")
OWNER = Path("server/runtime/gc_policy.py")
#: Functions of `gc` that one part of a program can undo to another.
CONTROLS = {"enable", "disable", "freeze", "unfreeze", "set_threshold"}


def test_only_the_owner_controls_the_collector() -> None:
    found = []
    for path in sorted(one for package in PRODUCT for one in (ROOT / package).rglob("*.py")):
        if path.relative_to(ROOT) == OWNER:
            continue
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if re.search(r"\bgc\b", text) else ():
            is_import = isinstance(node, ast.ImportFrom) and node.module == "gc"
            is_call = isinstance(node, ast.Attribute) and node.attr in CONTROLS and ast.unparse(node.value) == "gc"
            if is_import or is_call:
                found.append(str(path.relative_to(ROOT)))
    assert found == []


def test_time_of_a_slice_is_defined_once() -> None:
    found = []
    for path in sorted((ROOT / "server").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "SLICE_S" in text else ():
            targets = node.targets if isinstance(node, ast.Assign) else []
            found += [path.name for target in targets if isinstance(target, ast.Name) and target.id == "SLICE_S"]
    assert found == ["turn_budget.py"]
