"""Every tool around Kafka has a folder with pins, tests and findings, and a row in docs/specialists/compatibility.md."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from compat_tests import report, results
from compat_tests.ecosystem.install import environment
from compat_tests.ecosystem.tools import HERE, TOOLS, Tool, kind_of, pinned_version

ROW = re.compile(
    r"^\| (?P<name>[^|]+) \| (?P<version>[^|]+) \| (?P<passed>\d+) \| (?P<failed>\d+) \| .*compat_tests/ecosystem/"
)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.folder)
def test_a_tool_has_pins_tests_and_findings(tool: Tool) -> None:
    assert list(tool.home.glob("test_*.py"))
    assert (tool.home / "FINDINGS.md").read_text(encoding="utf-8").strip()
    if kind_of(tool) == "debian":  # Debian's mirrors hold one version of a package: a release is the pin
        assert tool.package in (tool.home / "packages.txt").read_text(encoding="utf-8").split()
    else:
        assert re.match(r"\d", pinned_version(tool))


def test_every_folder_is_of_a_tool() -> None:
    folders = {path.name for path in HERE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == {tool.folder for tool in TOOLS}


def test_every_requirement_is_pinned() -> None:
    for file in HERE.glob("*/requirements.txt"):
        loose = [line for line in file.read_text(encoding="utf-8").splitlines() if not re.match(r"[\w.-]+==\S+$", line)]
        assert not loose, (file, loose)


def test_a_large_tool_is_collected_only_when_it_is_named() -> None:
    def collected(*places: str) -> str:
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *places]
        return subprocess.run(command, cwd=report.ROOT, capture_output=True, text=True, check=True, timeout=120).stdout

    all_of_them, named = collected("compat_tests/ecosystem"), collected("compat_tests/ecosystem/sarama")
    for tool in TOOLS:
        assert (f"ecosystem/{tool.folder}/test_" in all_of_them) is tool.is_kept, tool.folder
    assert "ecosystem/sarama/test_sarama.py::" in named


def test_every_tool_has_a_row() -> None:
    rows = {found["name"]: found for found in map(ROW.match, report.DOCUMENT.read_text("utf-8").splitlines()) if found}
    assert list(rows) == [tool.name for tool in TOOLS], "run `make ecosystem`"
    for tool in TOOLS:
        assert int(rows[tool.name]["passed"]) > 0, tool.name
        if kind_of(tool) != "debian":
            assert rows[tool.name]["version"] == pinned_version(tool)


def test_rows_of_tools_that_did_not_run_are_kept() -> None:
    old = report.DOCUMENT.read_text(encoding="utf-8")
    ran = [
        results.Result(
            f"compat_tests/ecosystem/{TOOLS[0].folder}/test_x.py::test_y", "ecosystem", "passed", frozenset()
        )
    ]
    before, after = ([line for line in text.splitlines() if ROW.match(line)] for text in (old, report.tools(ran, old)))
    assert after[1:] == before[1:]
    assert " | 1 | 0 | " in after[0]


def test_environments_are_apart() -> None:
    assert len({environment(tool) for tool in TOOLS}) == len(TOOLS)
