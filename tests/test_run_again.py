"""Failed tests run again, alone, at the end of tests/run: unsteady ones are listed and kept, others fail the run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("processes")

ROOT = Path(__file__).resolve().parents[1]
DEADLINE_S = 240
#: The plugin without its table, and the option of tests/conftest.py.
WITHOUT_NIGHTLY = """
def pytest_addoption(parser):
    parser.addoption("--few-examples", action="store_true")
"""
PYTEST_INI = "[pytest]\naddopts = --import-mode=importlib\n"
#: Only the plugins of tests/run: those of other packages take two thirds of the CPU of each start of pytest.
OTHERS = ("anyio", "asyncio", "hypothesispytest", "odradek", "timeout")
PLUGINS = {"PYTEST_ADDOPTS": " ".join(f"-p no:{name}" for name in OTHERS)}
#: Folders that the test did not make have no tests.
PYTEST = """for word in "$@"; do
  case $word in tests*|compat_tests*|spark_examples*) [ -e "$word" ] || exit 0; esac
done
exec {python} -m pytest -p no:cacheprovider "$@"
"""
#: The folder `pythons` has the tests of the other Pythons. Extras have no tests here, and pages no programs.
PYTHON = """[ "$2" != tests.ranges ] && [ "$2" != tests.docs.programs ] || exit 0
[ "$2" = tests.pythons ] || exec {python} "$@"
[ -e pythons ] || exit 0
PYTHONPATH=$PWD/tests/plugins exec {python} -m pytest --quiet -p run_journal pythons
"""
#: Python of a test module. `turn("name")` returns 1 in the first process that calls it, 2 in the second.
TURN = """
import os, pathlib, pytest, signal
def turn(name):
    file = pathlib.Path({folder!r}, f"{{name}}.turns")
    with file.open("a") as calls:
        calls.write("x")
    return len(file.read_text())
"""
PASSES_AT_SECOND = "def test_{0}():\n    assert turn('{0}') > 1, 'first time of {0}'\n"
FAILS = "def test_{0}():\n    assert turn('{0}') > 9, 'each time of {0}'\n"
FIXTURE_FAILS_FIRST = """
@pytest.fixture(scope="module")
def broker():
    assert turn("fixture") > 1, "no broker"
@pytest.mark.parametrize("number", range(7))
def test_with_broker(broker, number):
    pass
"""
DIES_FIRST = """
def test_before():
    pass
def test_dies():
    if turn("dies") == 1:
        os.kill(os.getpid(), signal.SIGKILL)
def test_after():
    assert turn("after") == 1
"""
TEARDOWN_FAILS_FIRST = """
@pytest.fixture
def ends():
    yield
    assert turn("ends") > 1, "first end"
def test_ends(ends):
    pass
"""
SKIPPED_AT_SECOND = "def test_skips():\n    turn('skips') > 1 and pytest.skip('not again')\n    assert False\n"
NEEDS_OTHERS = """
def test_first():
    assert turn("first") > 1, "first time"
def test_needs_results_of_first():
    assert os.environ.get("ODRADEK_TEST_AGAIN"), "first has failed"
"""


class Checkout:
    """A folder with tests/run, its plugins, and modules of tests that this test writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        bin_folder = folder / ".venv" / "bin"
        bin_folder.mkdir(parents=True)
        for name in ("run", "run_again.py", "plugins/run_journal.py", "plugins/run_report.py"):
            (folder / "tests" / name).parent.mkdir(exist_ok=True, parents=True)
            shutil.copy(ROOT / "tests" / name, folder / "tests" / name)
        (folder / "tests/plugins/without_nightly.py").write_text(WITHOUT_NIGHTLY, encoding="utf-8")
        (folder / "pytest.ini").write_text(PYTEST_INI, encoding="utf-8")
        self.program(bin_folder / "pytest", PYTEST.format(python=sys.executable))
        self.program(bin_folder / "python", PYTHON.format(python=sys.executable))
        for name in ("ruff", "lint-imports"):
            self.program(bin_folder / name, "exit 0\n")
        self.program(folder / "tests" / "types", "exit 0\n")
        (folder / "Makefile").write_text("tools:\n", encoding="utf-8")

    @staticmethod
    def program(path: Path, text: str) -> None:
        path.write_text(f"#!/bin/bash\n{text}", encoding="utf-8")
        path.chmod(0o755)

    def module(self, name: str, *texts: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TURN.format(folder=str(self.folder)) + "".join(texts), encoding="utf-8")

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        left = (
            "MAKEFLAGS",
            "MAKELEVEL",
            "MFLAGS",
            "ODRADEK_TEST_TIMES",
            "ODRADEK_TEST_JOURNALS",
            "ODRADEK_TEST_AGAIN",
            "CI",
        )
        variables = {name: value for name, value in os.environ.items() if name not in left} | PLUGINS
        command = [self.folder / "tests" / "run", *arguments]
        return subprocess.run(
            command, env=variables, capture_output=True, text=True, timeout=DEADLINE_S, check=False, cwd=self.folder
        )

    def kept(self) -> str:
        """Returns the texts of all lists of unsteady tests."""
        return "\n".join(file.read_text(encoding="utf-8") for file in sorted(self.folder.glob(".tools/unsteady/*.txt")))


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def last_lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Returns the lines of the result."""
    return done.stdout.partition("== result\n")[2].splitlines()


def unsteady(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line.split()[1] for line in last_lines(done) if line.startswith("unsteady: ") and "::" in line]


def failed(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line.split()[1] for line in last_lines(done) if line.startswith("failed: ")]


def test_test_that_passes_at_second_is_listed_and_kept(checkout: Checkout) -> None:
    checkout.module("tests/test_one.py", PASSES_AT_SECOND.format("one"), "def test_other():\n    pass\n")
    done = checkout.run("tests/test_one.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert unsteady(done) == ["tests/test_one.py::test_one"]
    assert "first time of one" in "\n".join(last_lines(done)) and "first time of one" in checkout.kept()
    assert last_lines(done)[-1] == "2 passed, 0 failed, 0 skipped, 1 unsteady"


def test_test_that_fails_again_fails_the_run(checkout: Checkout) -> None:
    checkout.module("tests/test_one.py", FAILS.format("one"), PASSES_AT_SECOND.format("two"))
    done = checkout.run("tests/test_one.py")
    assert done.returncode == 1
    assert (failed(done), unsteady(done)) == (["tests/test_one.py::test_one"], ["tests/test_one.py::test_two"])
    assert last_lines(done)[-1] == "1 passed, 1 failed, 0 skipped, 1 unsteady"
    assert len((checkout.folder / "one.turns").read_text()) == 2


@pytest.mark.parametrize(("count", "status"), [(5, 0), (6, 1)])
def test_more_than_five_unsteady_tests_fail_the_run(checkout: Checkout, count: int, status: int) -> None:
    checkout.module("tests/test_one.py", *[PASSES_AT_SECOND.format(f"number{one}") for one in range(count)])
    done = checkout.run("tests/test_one.py")
    assert done.returncode == status
    assert len(unsteady(done)) == count
    assert last_lines(done)[-1] == f"{count} passed, 0 failed, 0 skipped, {count} unsteady"


def test_errors_of_one_module_fixture_count_once(checkout: Checkout) -> None:
    checkout.module("tests/test_one.py", FIXTURE_FAILS_FIRST)
    done = checkout.run("tests/test_one.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(unsteady(done)) == 1 and "no broker" in checkout.kept()
    assert last_lines(done)[-1] == "7 passed, 0 failed, 0 skipped, 1 unsteady"


def test_errors_of_fixtures_in_processes_of_xdist_count_once(checkout: Checkout) -> None:
    checkout.module("tests/test_one.py", FIXTURE_FAILS_FIRST)
    done = checkout.run("--numprocesses", "1", "--dist", "loadfile", "tests/test_one.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert last_lines(done)[-1] == "7 passed, 0 failed, 0 skipped, 1 unsteady"


def test_error_at_the_end_of_a_test_runs_it_again(checkout: Checkout) -> None:
    checkout.module("tests/test_one.py", TEARDOWN_FAILS_FIRST)
    done = checkout.run("tests/test_one.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "unsteady: tests/test_one.py::test_ends (teardown)" in last_lines(done)
    assert last_lines(done)[-1] == "1 passed, 0 failed, 0 skipped, 1 unsteady"


@pytest.mark.parametrize("options", [(), ("--numprocesses", "1", "--dist", "loadfile")])
def test_crash_runs_the_test_and_those_after_it(checkout: Checkout, options: tuple[str, ...]) -> None:
    checkout.module("tests/test_one.py", DIES_FIRST)
    done = checkout.run(*options, "tests/test_one.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert unsteady(done) == ["tests/test_one.py::test_dies"]
    assert last_lines(done)[-1] == "3 passed, 0 failed, 0 skipped, 1 unsteady"


def test_test_that_is_skipped_at_second_fails_the_run(checkout: Checkout) -> None:
    checkout.module("tests/test_one.py", SKIPPED_AT_SECOND)
    done = checkout.run("tests/test_one.py")
    assert done.returncode == 1
    assert failed(done) == ["tests/test_one.py::test_skips"]


def test_module_that_cannot_be_collected_fails_the_run(checkout: Checkout) -> None:
    checkout.module("tests/test_one.py", "import absent_module\n")
    done = checkout.run("tests/test_one.py")
    assert done.returncode == 2


def test_test_of_other_results_has_those_of_the_first_run(checkout: Checkout) -> None:
    checkout.module("tests/test_one.py", NEEDS_OTHERS)
    done = checkout.run("tests/test_one.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert last_lines(done)[-1] == "2 passed, 0 failed, 0 skipped, 2 unsteady"


def test_each_process_of_a_run_has_its_failures_run_again(checkout: Checkout) -> None:
    checkout.module("tests/test_one.py", PASSES_AT_SECOND.format("tests"))
    checkout.module("compat_tests/java/test_one.py", PASSES_AT_SECOND.format("clients"))
    checkout.module("spark_examples/test_one.py", PASSES_AT_SECOND.format("spark"))
    checkout.module("compat_tests/cli/test_one.py", PASSES_AT_SECOND.format("cli"))
    checkout.module("pythons/test_one.py", PASSES_AT_SECOND.format("pythons"))
    done = checkout.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(unsteady(done)) == 5 and last_lines(done)[-1] == "5 passed, 0 failed, 0 skipped, 5 unsteady"
    assert "ended with status" not in done.stdout


def test_only_the_process_that_fails_again_has_failed(checkout: Checkout) -> None:
    checkout.module("tests/test_one.py", PASSES_AT_SECOND.format("tests"))
    checkout.module("compat_tests/cli/test_one.py", FAILS.format("cli"))
    checkout.module("compat_tests/java/test_one.py", "def test_passes():\n    pass\n")
    done = checkout.run()
    assert done.returncode == 1
    assert [line for line in done.stdout.splitlines() if "ended with" in line] == [
        "== compat_tests/cli ended with status 1"
    ]
    assert last_lines(done)[-1] == "2 passed, 1 failed, 0 skipped, 1 unsteady"
