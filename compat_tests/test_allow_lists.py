"""Tests that passed once must pass again: no name leaves an allow-list."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from compat_tests import allow_list

HERE = Path(__file__).resolve().parent
LISTS = sorted(HERE.glob("*/tests.allow"))


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.parent.name)
def test_an_allow_list_only_grows(path: Path) -> None:
    command = ["git", "log", "--format=", "--unified=0", "--patch", "--", str(path)]
    history = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=True).stdout
    once = {line[1:].split(" #")[0].strip() for line in history.splitlines() if is_added_name(line)}
    withdrawn = set(re.findall(r"^# withdrawn (\S+): \S", path.read_text(encoding="utf-8"), re.MULTILINE))
    assert once <= set(allow_list.read(path)) | withdrawn, f"names have left {path.parent.name}/tests.allow"


def is_added_name(line: str) -> bool:
    return line.startswith("+") and not line.startswith(("+++", "+#")) and bool(line[1:].strip())


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.parent.name)
def test_an_allow_list_names_each_test_once(path: Path) -> None:
    names = allow_list.read(path)
    assert names
    assert len(names) == len(set(names))


@pytest.mark.parametrize("folder", sorted({path.parent for path in LISTS}), ids=lambda path: path.name)
def test_a_client_with_an_allow_list_has_findings(folder: Path) -> None:
    assert (folder / "FINDINGS.md").read_text(encoding="utf-8").strip()
