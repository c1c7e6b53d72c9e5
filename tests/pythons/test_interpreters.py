"""The finder of interpreters: programs that describe themselves stand for builds that this machine may lack."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.pythons import __main__ as program
from tests.pythons.environments import Environment, requirements
from tests.pythons.interpreters import Interpreter, found_in, other_interpreters, search_folders, this_interpreter

pytestmark = pytest.mark.usefixtures("processes")


def stand_in(
    folder: Path, name: str, version: tuple[int, int, int], free: bool = False, implementation: str = "cpython"
) -> Path:
    """Makes a command that describes itself as an interpreter of the version."""
    folder.mkdir(parents=True, exist_ok=True)
    command = folder / name
    command.write_text(f"#!/bin/sh\necho '{json.dumps([implementation, version, free])}'\n", encoding="utf-8")
    command.chmod(0o755)
    return command


def test_each_minor_version_is_found_once_with_its_newest_micro_version(tmp_path: Path) -> None:
    stand_in(tmp_path / "one", "python3.12", (3, 12, 1))
    newest = stand_in(tmp_path / "two", "python3.12", (3, 12, 7))
    coming = stand_in(tmp_path / "two", "python3.14", (3, 14, 0))
    found = found_in([tmp_path / "one", tmp_path / "two", tmp_path / "absent"])
    assert {name: one.executable for name, one in found.items()} == {"3.12": newest, "3.14": coming}


def test_free_threaded_build_is_a_version_of_its_own(tmp_path: Path) -> None:
    stand_in(tmp_path, "python3.14", (3, 14, 0))
    stand_in(tmp_path, "python3.14t", (3, 14, 0), free=True)
    found = found_in([tmp_path])
    assert list(found) == ["3.14", "3.14t"]
    assert found["3.14t"].full_name == "3.14.0t"
    assert found["3.14t"].is_free_threaded


def test_old_other_and_broken_interpreters_are_left_out(tmp_path: Path) -> None:
    stand_in(tmp_path, "python3.10", (3, 10, 13))
    stand_in(tmp_path, "python3.11", (3, 11, 13), implementation="pypy")
    stand_in(tmp_path, "python3.13-config", (3, 13, 0))
    shim = tmp_path / "python3.12"
    shim.write_text("#!/bin/sh\necho 'python3.12: command not found' >&2\nexit 127\n", encoding="utf-8")
    shim.chmod(0o755)
    (tmp_path / "python3.14").write_text("not executable", encoding="utf-8")
    assert found_in([tmp_path]) == {}


def test_folders_of_path_come_before_versions_of_pyenv(tmp_path: Path) -> None:
    for root in (tmp_path / "root", tmp_path / "home" / ".pyenv"):
        (root / "versions" / "3.13.0" / "bin").mkdir(parents=True)
    environment = {"PATH": "/usr/bin", "HOME": str(tmp_path / "home")}
    of_home = tmp_path / "home" / ".pyenv" / "versions" / "3.13.0" / "bin"
    assert search_folders(environment) == [Path("/usr/bin"), of_home]
    of_root = tmp_path / "root" / "versions" / "3.13.0" / "bin"
    assert search_folders({**environment, "PYENV_ROOT": str(tmp_path / "root")}) == [Path("/usr/bin"), of_root]


def test_the_interpreter_of_this_run_is_not_among_the_others() -> None:
    assert this_interpreter().version == sys.version_info[:3]
    assert this_interpreter().name not in other_interpreters()


def test_requirements_resolve_own_extras_and_leave_out_tools_of_style() -> None:
    names = {re.split(r"[\[<>=;]", one)[0] for one in requirements()}
    assert {"construct", "aiokafka", "kafka-python", "pytest", "starlette", "numba", "cryptography"} <= names
    assert not {"odradek", "ruff", "pyspark", "selenium"} & names
    assert "numba" not in {re.split(r"[\[<>=;]", one)[0] for one in requirements(frozenset({"columns"}))}


def test_environment_has_the_same_installation_of_odradek(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreter = this_interpreter()
    # Without packages: only the copied installation is tried.
    monkeypatch.setattr("tests.pythons.environments.requirements", lambda without=frozenset(): ["pip"])
    environment = Environment(interpreter, tmp_path)
    environment.prepare()
    ask = "import odradek.version, sys; print(odradek.version.__file__, sys.prefix)"
    done = subprocess.run([environment.python, "-c", ask], capture_output=True, text=True, cwd=tmp_path, check=True)
    import odradek.version

    assert done.stdout.split() == [odradek.version.__file__, str(environment.folder)]
    made = environment.python.lstat().st_ctime_ns
    Environment(interpreter, tmp_path).prepare()
    assert environment.python.lstat().st_ctime_ns == made


def test_absent_versions_are_named_and_fail_only_when_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "other_interpreters", dict)
    monkeypatch.setattr(sys, "argv", ["pythons"])
    assert program.main() == 0
    said = capsys.readouterr().out
    absent = set(program.classified_versions()) - {this_interpreter().name}
    assert absent and [name for name in absent if f"Python {name} is not on this machine" not in said] == []
    monkeypatch.setattr(sys, "argv", ["pythons", "--versions", "3.99t"])
    assert program.main() == program.NOT_RUN
    assert "failed on: 3.99t" in capsys.readouterr().out


@pytest.mark.parametrize("status", [0, 1])
def test_status_is_that_of_the_tests_on_a_found_version(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Interpreter((3, 99, 0), False, Path(sys.executable))
    asked: list[tuple[str, str, list[str]]] = []

    def run(environment: Environment, extent: str, tests: list[str]) -> int:
        asked.append((environment.interpreter.name, extent, tests))
        return status

    monkeypatch.setattr(program, "other_interpreters", lambda: {"3.99": other})
    monkeypatch.setattr(program, "run", run)
    monkeypatch.setattr(sys, "argv", ["pythons", "--all", "tests/client"])
    assert program.main() == status
    assert asked == [("3.99", "all", ["tests/client"])]


def test_folder_of_an_extra_without_wheels_is_left_out() -> None:
    environment = Environment(Interpreter((3, 14, 0), True, Path("python3.14t")))
    pure, part = program.commands(environment, "part", [])
    assert pure[-3:] == ["--tier", "pure", "tests"]
    assert any(word.startswith("tests/columns") for word in part)
    environment.without = frozenset({"columns"})
    pure, part = program.commands(environment, "part", [])
    (whole,) = program.commands(environment, "all", [])
    assert not any(word.startswith("tests/columns") for word in part)
    for words in (pure, part, whole):
        assert f"--ignore-glob={program.ROOT / 'tests/columns'}" in words


@pytest.mark.parametrize(("statuses", "found"), [((0, 0), 0), ((1, 0), 1), ((0, 2), 2), ((0, -9), -9)])
def test_run_of_a_version_fails_if_one_of_its_commands_does(
    monkeypatch: pytest.MonkeyPatch, statuses: tuple[int, ...], found: int
) -> None:
    left = list(statuses)
    monkeypatch.setattr(Environment, "prepare", lambda self: None)
    monkeypatch.setattr(program.subprocess, "run", lambda *words, **options: SimpleNamespace(returncode=left.pop(0)))
    assert program.run(Environment(Interpreter((3, 99, 0), False, Path(sys.executable))), "part", []) == found
    assert left == []


def test_newest_python_alone_runs_the_part_with_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    versions = {f"3.{minor}": Interpreter((3, minor, 0), False, Path(sys.executable)) for minor in (98, 99)}
    monkeypatch.setattr(program, "other_interpreters", lambda: versions)
    monkeypatch.setattr(program, "run", lambda one, extent, tests: ran.append(one.interpreter.name + extent) or 0)
    monkeypatch.setattr(sys, "argv", ["pythons", "--newest"])
    assert program.main() == 0 and ran == ["3.99newest"]
    (words,) = program.commands(Environment(versions["3.99"]), "newest", [])
    assert set(program.PART) < set(words) and "tests" not in words


def test_parts_of_make_test_exist() -> None:
    assert [path for path in program.PART if not (program.ROOT / path).exists()] == []


def test_classifiers_name_the_versions_of_the_results_page_and_no_other() -> None:
    page = (program.ROOT / "docs" / "development" / "pythons.md").read_text(encoding="utf-8")
    table = page.partition("## Results")[2].partition("##")[0]
    versions = [f"3.{found}" for found in re.findall(r"^\| 3\.(\d+)\.\d+ \|", table, re.MULTILINE)]
    assert program.classified_versions() == versions
    assert versions == [f"3.{11 + number}" for number in range(len(versions))] and len(versions) >= 3


def test_passed_version_without_a_classifier_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Interpreter((3, 99, 0), False, Path(sys.executable))
    monkeypatch.setattr(program, "other_interpreters", lambda: {"3.99": other})
    monkeypatch.setattr(program, "run", lambda environment, extent, tests: 0)
    monkeypatch.setattr(sys, "argv", ["pythons"])
    assert program.main() == 0
    assert "no classifier names 3.99" in capsys.readouterr().out
