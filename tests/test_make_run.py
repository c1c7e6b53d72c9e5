"""`make run` on a clean clone installs the broker's packages, and serves on the given port."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.docs.shells import free_port
from tests.release import copy_tracked

pytestmark = pytest.mark.usefixtures("processes")

DEADLINE_S = 240
#: Packages that only tests, Spark, benchmarks and documentation need.
NOT_OF_A_BROKER = {"pyspark", "pytest", "mypy", "matplotlib", "confluent_kafka", "kafka", "mkdocs", "hypothesis"}


def run(clone: Path, port: int) -> list[str]:
    """Runs `make run` until the broker serves. Returns the lines printed until then."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    }
    make = ["make", "run", f"PORT={port}"]
    with subprocess.Popen(
        make, cwd=clone, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as making:
        try:
            assert making.stdout is not None
            printed = []
            for line in making.stdout:
                printed.append(line)
                if "serving on" in line:
                    socket.create_connection(("127.0.0.1", port), timeout=10).close()
                    break
            os.killpg(making.pid, signal.SIGINT)  # as Ctrl-C does
            making.wait(DEADLINE_S)
            return printed
        finally:
            making.kill()


def test_make_run_installs_a_broker_with_progress_and_serves_on_the_port(tmp_path: Path) -> None:
    copy_tracked(tmp_path)
    port = free_port()
    first = run(tmp_path, port)
    assert f"serving on 127.0.0.1:{port}" in first[-1], first
    assert any(line.startswith("installing the broker") for line in first)
    assert any(line.startswith("Collecting construct") for line in first)
    (packages,) = (tmp_path / ".venv" / "lib").glob("python3*/site-packages")
    installed = {entry.name for entry in packages.iterdir()}
    assert "construct" in installed and installed & NOT_OF_A_BROKER == set()
    assert (tmp_path / "odradek-data" / "meta.properties").is_file()

    again = run(tmp_path, port)
    assert "serving on" in again[-1] and not any("installing" in line for line in again)
