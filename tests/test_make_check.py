"""`make check` installs no package of the system and none of the heavy ones; its tests that need these are skipped."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.plugins.without_heavy import missing_module
from tests.pythons.environments import _of_extra

ROOT = Path(__file__).resolve().parents[1]
#: Packages with most of the space of `.venv` after `make test`.
HEAVY = {
    "boto3", "django", "duckdb", "grpcio-tools", "kubernetes-validate", "matplotlib", "mkdocs-material", "moto", "numba",
    "numpy", "pandas", "polars", "ptars", "pyarrow", "pyiceberg", "pyspark", "selenium", "uv",
}  # fmt: skip


def test_extra_of_make_check_has_no_heavy_package() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    names = {re.split(r"[\[<>=;]", one)[0] for one in _of_extra(extras, "check", frozenset())}
    assert names & HEAVY == set()
    assert {"pytest", "hypothesis", "mypy", "ruff", "import-linter", "starlette", "cryptography"} <= names


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(("tier", "has_system_packages"), [("check", False), ("check-broker", False), ("test", True)])
def test_tier_installs_packages_of_the_system_only_if_it_needs_them(
    tier: str, has_system_packages: bool, tmp_path: Path
) -> None:
    command = ["make", "--dry-run", "--always-make", f"VENV={tmp_path / 'venv'}", tier]
    planned = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert ("tests/system_packages" in planned) is has_system_packages


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("E   ModuleNotFoundError: No module named 'pyarrow.parquet'", "pyarrow"),
        ("E   ModuleNotFoundError: No module named 'odradek.absent'", None),
        ("E   RegistryError: PROTOBUF schemas need grpc_tools: pip install 'odradek[registry]'", "grpc_tools"),
        ("E   AssertionError: pyarrow", None),
    ],
)
def test_only_a_module_above_the_tier_may_be_missing(error: str, expected: str | None) -> None:
    assert missing_module(error) == expected


@pytest.mark.usefixtures("processes")
def test_check_skips_tests_of_heavy_packages_also_where_they_are_installed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "without_heavy", "--tier", "pure", "-p", "no:cacheprovider"]
    command += ["tests/columns/test_scan.py", "tests/test_facts.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests" / "plugins")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert re.search(r"SKIPPED \[1\] .*test_scan.py.*needs \w+, which `make check` does not install", done.stdout)
    assert re.search(r"\d+ passed, 1 skipped", done.stdout)
