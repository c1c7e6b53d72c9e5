"""`make run` and `make docs` on a clean clone install what they need and no more; `make tools` fails only in CI."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.docs.shells import free_port
from tests.release import copy_tracked

pytestmark = pytest.mark.usefixtures("processes")

ROOT = Path(__file__).resolve().parents[1]
DEADLINE_S = 240
SKIPPED = "the tests that need this are skipped\n"
#: Packages that only tests, Spark, benchmarks and documentation need.
NOT_OF_A_BROKER = {"pyspark", "pytest", "mypy", "matplotlib", "confluent_kafka", "kafka", "mkdocs", "hypothesis"}
#: Packages that only tests, Spark and benchmarks need.
NOT_OF_THE_SITE = {"pyspark", "pytest", "mypy", "matplotlib", "selenium", "hypothesis", "pyarrow", "duckdb", "numba"}


def environment(**variables: str) -> dict[str, str]:
    """Returns the environment of a `make` that is not a part of the `make` of this run.

    pip compiles no modules there: few are imported, and compiling took a third of the time of the largest installation.
    """
    left = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "CI")
    inherited = {name: value for name, value in os.environ.items() if name not in left}
    return {**inherited, "PIP_COMPILE": "0", **variables}


def installed(clone: Path) -> set[str]:
    (packages,) = (clone / ".venv" / "lib").glob("python3*/site-packages")
    return {entry.name for entry in packages.iterdir()}


def run(clone: Path, port: int) -> list[str]:
    """Runs `make run` until the broker serves. Returns the lines printed until then."""
    make = ["make", "run", f"PORT={port}"]
    with subprocess.Popen(
        make, cwd=clone, env=environment(), stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as making:
        try:
            assert making.stdout is not None
            printed = []
            for line in making.stdout:
                printed.append(line)
                if "serving on" in line:
                    socket.create_connection(("127.0.0.1", port), timeout=60).close()
                    break
            os.killpg(making.pid, signal.SIGINT)  # as Ctrl-C does
            making.wait(DEADLINE_S)
            return printed
        finally:
            making.kill()


def test_make_run_and_make_docs_install_what_they_need_and_no_more(tmp_path: Path) -> None:
    copy_tracked(tmp_path)
    port = free_port()
    first = run(tmp_path, port)
    assert f"serving on 127.0.0.1:{port}" in first[-1], first
    steps = ("making .venv", "installing the broker", "installing faster compression")
    timed = [found[1] for line in first if (found := re.fullmatch(r"(.+): \d+ s", line.strip()))]
    assert timed == list(steps) and [step for step in steps if f"{step} ...\n" not in first] == []
    assert any(line.startswith("Collecting construct") for line in first)
    assert "construct" in installed(tmp_path) and installed(tmp_path) & NOT_OF_A_BROKER == set()
    assert (tmp_path / "odradek-data" / "meta.properties").is_file()

    again = run(tmp_path, port)
    assert "serving on" in again[-1] and not any("installing" in line for line in again)

    subprocess.run(
        ["make", "docs"], cwd=tmp_path, env=environment(), capture_output=True, check=True, timeout=DEADLINE_S
    )
    assert (tmp_path / "site" / "index.html").is_file()
    assert "mkdocs" in installed(tmp_path) and installed(tmp_path) & NOT_OF_THE_SITE == set()


@pytest.mark.parametrize(
    ("status", "variables", "expected"),
    [
        (0, {}, (0, "")),
        (1, {}, (0, 5 * SKIPPED)),
        (0, {"CI": "true"}, (0, "")),
        (1, {"CI": "true"}, (2, "")),
    ],
    ids=["succeeds", "fails", "succeeds in CI", "fails in CI"],
)
def test_make_tools_names_skipped_tests_only_after_a_failure(
    status: int, variables: dict[str, str], expected: tuple[int, str], tmp_path: Path
) -> None:
    """The commands of the recipe are five runs of a Python that exits with `status`."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f"#!/bin/sh\nexit {status}\n")
    python.chmod(0o755)
    (tmp_path / ".installed").touch()
    make = ["make", "-s", "-f", ROOT / "Makefile", f"VENV={tmp_path}", "-o", tmp_path / ".installed", "tools"]
    done = subprocess.run(
        make, cwd=tmp_path, env=environment(**variables), capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert (done.returncode, done.stdout) == expected, done.stderr
