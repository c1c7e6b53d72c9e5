"""The blocks of the pages on testing run under pytest-xdist: the suites, and each program as a test of its own.

Pages share a run with two workers, so that suites and programs meet on a worker, and workers run side by side.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, blocks
from tests.testing.frameworks import LARGE, SPARK

pytestmark = pytest.mark.usefixtures("processes")

#: Blocks with environments of their own, which tests/testing/frameworks.py and spark_examples/tests run.
_ELSEWHERE = {*LARGE, *SPARK}
_FRAMEWORKS = "testing-frameworks"
_DEADLINE_S = 240
_PROGRAMS = '''"""The programs of the pages, each in the process of a worker."""

import runpy
from pathlib import Path

import pytest

PROGRAMS = sorted(Path(__file__).with_name("programs").glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_program(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(program), run_name="__main__")
'''


def _write(folder: Path, pages: list[Path]) -> set[str]:
    """Writes the suites and the programs of pages into a folder. Returns the names of their tests' files."""
    programs = folder / "programs"
    programs.mkdir(parents=True)
    expected = set()
    for page in pages:
        place = folder / page.stem
        place.mkdir()
        for number, block in enumerate(block for block in blocks(page) if block.language == "python"):
            if not block.title:
                name = f"{page.stem}-{number}"
                (programs / f"{name}.py").write_text(block.text, encoding="utf-8")
                expected.add(f"test_programs.py::test_program[{name}]")
            elif page.stem != _FRAMEWORKS or block.title not in _ELSEWHERE:
                (place / block.title).write_text(block.text, encoding="utf-8")
                expected.add(f"{page.stem}/{block.title}")
    (folder / "test_programs.py").write_text(_PROGRAMS, encoding="utf-8")
    return expected


def _has_conftest(page: Path) -> bool:
    return any(block.title == "conftest.py" and page.stem != _FRAMEWORKS for block in blocks(page))


@pytest.mark.parametrize("has_conftest", [True, False], ids=["pages with a conftest.py", "other pages"])
def test_blocks_of_the_pages_on_testing_run_under_xdist(has_conftest: bool, tmp_path: Path) -> None:
    """A conftest.py of a page sets the properties of the broker of a whole run."""
    found = [*sorted(DOCS.glob("testing*.md")), *sorted((DOCS / "specialists").glob("testing*.md"))]
    pages = [page for page in found if _has_conftest(page) is has_conftest]
    expected = _write(tmp_path / "blocks", pages)
    command = [sys.executable, "-m", "pytest", "-v", "--numprocesses", "2", "--import-mode=importlib"]
    command += ["-p", "no:cacheprovider", "-p", "no:django"]
    command += ["-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function"]
    # This test may run in a worker itself, whose variables would reach the run.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    folder = tmp_path / "blocks"
    done = subprocess.run(
        [*command, "--rootdir", str(folder)], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=_DEADLINE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    passed = {line.split(" PASSED ")[1].strip() for line in done.stdout.splitlines() if " PASSED " in line}
    files = {name.partition("::")[0] for name in passed}
    missing = {name for name in expected if name not in passed | files and not name.endswith("conftest.py")}
    assert missing == set(), done.stdout
    assert "[gw0]" in done.stdout and "[gw1]" in done.stdout
