"""`tests/run`: its order, its status, and its end at a signal. Programs that note their arguments stand for its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests.recipes import eventually
from tests.plugins.run_report import lasted_lines

pytestmark = pytest.mark.usefixtures("processes")

ROOT = Path(__file__).resolve().parents[1]
DEADLINE_S = 240
#: Notes a run; fails, dies with the shell that started it, or waits for a signal, where the variable names its arguments.
PYTEST = r"""#!/bin/bash
trap 'echo "$*" >>interrupted; exit 2' INT
[[ "$*" != *--collect-only* ]] || { echo "collecting $1"; exit "${COLLECTION_STATUS:-0}"; }
echo "$*" >>begun
echo "output of $*"
[ -z "$KILLED" ] || [[ "$*" != *" $KILLED"* ]] || kill -KILL $PPID
[ -z "$FAILS" ] || [[ "$*" != *" $FAILS" ]] || exit 3
[ -n "$WAITS" ] || exit 0
sleep 600 &
wait
"""
PYTHON = f'#!/bin/bash\nif [ "$2" = tests.run_again ]; then exec {sys.executable} "$@"; fi\necho "python $*"\n'
MAKEFILE = "tools:\n\t@echo making tools; exit $(TOOLS_STATUS)\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    bin_folder, tests = tmp_path / ".venv" / "bin", tmp_path / "tests"
    bin_folder.mkdir(parents=True)
    (tests / "plugins").mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "run", tests / "run")
    for name in ("run_again.py", "plugins/run_report.py", "plugins/run_journal.py"):
        shutil.copy(ROOT / "tests" / name, tests / name)
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "begun").touch()
    (tmp_path / "interrupted").touch()
    programs = {
        bin_folder / "pytest": PYTEST,
        bin_folder / "python": PYTHON,
        tests / "types": "#!/bin/sh\necho types\n",
    }
    programs |= {bin_folder / name: f"#!/bin/sh\necho {name}\n" for name in ("ruff", "lint-imports")}
    for path, text in programs.items():
        path.write_text(text)
        path.chmod(0o755)
    return tmp_path


def variables(**more: str) -> dict[str, str]:
    """Returns the environment of a run that is not a part of this one."""
    left = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "ODRADEK_TEST_TIMES")
    return {**{name: value for name, value in os.environ.items() if name not in left}, **more}


def run(root: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [root / "tests" / "run", *arguments]
    return subprocess.run(
        command, env=variables(**more), capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )


def begun(root: Path) -> list[str]:
    return (root / "begun").read_text().splitlines()


def test_each_folder_runs_once_and_its_output_is_shown_once(root: Path) -> None:
    done = run(root)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    folders = {line.split()[-1] for line in begun(root) if "--ignore" not in line}
    (clients,) = [line for line in begun(root) if "--ignore" in line]
    ignored = {word.removeprefix("--ignore=") for word in clients.split() if word.startswith("--ignore")}
    assert folders == {"tests", "spark_examples", *ignored}
    assert len(begun(root)) == len(folders) + 1
    assert [path for path in ignored if not (ROOT / path).is_dir()] == []
    assert [line for line in begun(root) if done.stdout.count(f"output of {line}\n") != 1] == []
    heads = [line.partition(";")[0] for line in done.stdout.splitlines() if line.startswith("== ")]
    assert heads[:5] == ["== style", "== types", "== layers", "== tools", "== tests"]
    assert {"== pythons", "== clients"} < set(heads) and heads[-2:] == ["== times", "== result"]


@pytest.mark.parametrize(
    ("variable", "named", "status", "message"),
    [
        ("FAILS", "tests", 3, "== tests ended with status 3"),
        ("FAILS", "compat_tests/cli", 3, "== cli ended with status 3"),
        ("KILLED", "compat_tests/rolling", 137, "== rolling ended with status 137"),
    ],
)
def test_status_is_that_of_a_failed_process(root: Path, variable: str, named: str, status: int, message: str) -> None:
    done = run(root, **{variable: named})
    assert done.returncode == status
    assert [line for line in done.stdout.splitlines() if "ended with" in line] == [message]


def test_no_test_runs_after_a_failed_installation_of_tools(root: Path) -> None:
    done = run(root, TOOLS_STATUS="1")
    assert done.returncode == 2 and "making tools" in done.stdout
    assert begun(root) == []


def test_no_test_runs_if_a_module_cannot_be_collected(root: Path) -> None:
    done = run(root, COLLECTION_STATUS="2")
    assert done.returncode == 2 and "== collection\ncollecting tests\n" in done.stdout
    assert begun(root) == []


def test_nightly_leaves_out_nothing_and_each_run_notes_the_pages_that_ran(root: Path) -> None:
    done = run(root)
    assert all("-p without_nightly" in line for line in begun(root))
    assert [line.endswith("--few-examples tests") for line in begun(root)].count(True) == 1
    assert "python -m tests.ranges --quick --end lowest\n" in done.stdout
    assert "python -m tests.pythons --newest\n" in done.stdout
    assert done.stdout.count("python -m tests.docs.programs --ran ") == 1
    (root / "begun").write_text("")
    done = run(root, "--nightly")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line for line in begun(root) if "without_nightly" in line or "--few-examples" in line] == []
    assert "python -m tests.ranges\n" in done.stdout
    assert "python -m tests.pythons --all\n" in done.stdout
    assert done.stdout.count("python -m tests.docs.programs --ran ") == 1


def test_arguments_select_tests(root: Path) -> None:
    assert run(root, "tests/storage", "--quiet").returncode == 0
    (line,) = begun(root)
    assert line.endswith("tests/storage --quiet")


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_interrupts_each_pytest(root: Path, sent: signal.Signals, status: int) -> None:
    command = [root / "tests" / "run"]
    with subprocess.Popen(
        command, env=variables(WAITS="yes"), stdout=subprocess.DEVNULL, start_new_session=True
    ) as running:
        # The processes of `tests` count as two, and the other Pythons have ended.
        eventually(lambda: len(begun(root)) == 3, what="three processes of pytest run")
        running.send_signal(sent)
        assert running.wait(DEADLINE_S) == status
    assert sorted((root / "interrupted").read_text().splitlines()) == sorted(begun(root))


def test_times_of_processes_are_listed_longest_first(tmp_path: Path) -> None:
    (tmp_path / "short").write_text("7\n0m0.002s 0m0.001s\n0m4.000s 0m0.500s\n")
    (tmp_path / "long").write_text("101\n0m0.002s 0m0.001s\n1m40.250s 0m20.000s\n")
    assert [line.split() for line in lasted_lines(tmp_path)] == [["101", "120", "long"], ["7", "4", "short"]]
