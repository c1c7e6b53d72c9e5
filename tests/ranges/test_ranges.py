"""The program that tests both ends of the ranges of packages: what it installs, and which ranges it calls wrong."""

from __future__ import annotations

import argparse
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.pythons.environments import ROOT, distributed_extras
from tests.ranges import __main__ as program
from tests.ranges.environments import Environment, Unresolved, requirement_of


def environment(end: str = "lowest", *instead: str) -> Environment:
    return Environment("client", program.GROUPS["client"].extras, end, instead, Path("never"))


def test_each_extra_for_users_is_in_a_group_or_left_out() -> None:
    grouped = {extra for group in program.GROUPS.values() for extra in group.extras}
    assert grouped | set(program.LEFT_OUT) == {*distributed_extras()}


def test_tests_of_groups_exist() -> None:
    for group in program.GROUPS.values():
        for path in (*group.quick, *group.more):
            assert (ROOT / path).exists(), path


@pytest.mark.parametrize(
    ("text", "name", "bound"),
    [
        ("duckdb>=1.4,<3", "duckdb", "1.4"),
        ("pyiceberg[pyarrow,sql-sqlite]>=0.12,<0.13", "pyiceberg", "0.12"),
        ("uvloop>=0.21,<0.24; sys_platform != 'win32'", "uvloop", "0.21"),
        ("PyJWT>=2.10,<3", "pyjwt", "2.10"),
        ("pandas<3", "pandas", None),
    ],
)
def test_requirement_has_a_name_and_a_lower_bound(text: str, name: str, bound: str | None) -> None:
    assert (requirement_of(text).name, requirement_of(text).lower_bound) == (name, bound)


def test_bound_that_is_not_installed_is_wrong() -> None:
    installed = {requirement_of(one).name: requirement_of(one).lower_bound or "" for one in environment().requirements}
    assert environment().untried_bounds(installed) == []
    assert environment().untried_bounds(installed | {"duckdb": "1.4.0"}) == []
    assert environment().untried_bounds(installed | {"duckdb": "1.4.1"}) == [
        f"duckdb{requirement_of(_of('duckdb')).range}: 1.4.1 is the lowest that its extra installs"
    ]
    assert environment("newest").untried_bounds(installed | {"duckdb": "2.9"}) == []


def _of(name: str) -> str:
    return next(one for one in environment().requirements if requirement_of(one).name == name)


def test_other_range_takes_the_place_of_that_of_the_project() -> None:
    made = environment("lowest", "duckdb>=1.2,<3")
    assert "duckdb>=1.2,<3" in made.requirements and len(made.requirements) == len(environment().requirements)


def test_status_of_a_wrong_range_differs_from_that_of_failed_tests(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    options = argparse.Namespace(instead=[], folder=tmp_path, quick=True, tests=[])
    status = 0

    def ran(words: list[str], **more: object) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(words, status)

    monkeypatch.setattr(program.subprocess, "run", ran)
    lowest = {requirement_of(one).name: requirement_of(one).lower_bound or "" for one in environment().requirements}
    monkeypatch.setattr(Environment, "prepare", lambda self: lowest)
    assert program.run("client", "lowest", options) == (0, [])
    status = 1
    assert program.run("client", "lowest", options) == (1, ["tests of client fail with the lowest versions"])
    monkeypatch.setattr(Environment, "prepare", lambda self: lowest | {"duckdb": "99"})
    assert program.run("client", "lowest", options)[0] == program.WRONG_RANGE

    def unresolved(self: Environment) -> dict[str, str]:
        raise Unresolved("no such version")

    monkeypatch.setattr(Environment, "prepare", unresolved)
    assert program.run("client", "lowest", options)[0] == program.WRONG_RANGE


def test_lower_bounds_of_one_package_agree() -> None:
    """An extra alone installs what the tests of another have run with."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: dict[str, set[str | None]] = {}
    for requirements in (project["dependencies"], *project["optional-dependencies"].values()):
        for text in requirements:
            one = requirement_of(text)
            if one.name in ("fastavro", "grpcio-tools", "protobuf", "polars", "pyarrow", "confluent-kafka"):
                found.setdefault(one.name, set()).add(one.lower_bound)
    assert found and all(len(bounds) == 1 for bounds in found.values()), found
