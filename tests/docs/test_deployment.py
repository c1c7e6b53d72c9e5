"""The parts of the pages for other programs: the systemd unit, the container file, and the recipes for CI.

A linter checks each (`systemd-analyze verify`, hadolint, a YAML parser). Then the test runs its commands, with the test's
folders, port and packages in place of its own.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from compat_tests.needed_tools import needed
from tests.docs.harness.deployment import serves_until_sigterm
from tests.docs.pages import DOCS, Block, blocks
from tests.docs.shells import DEADLINE_S, free_port
from tests.wheels import built_wheel

pytestmark = pytest.mark.usefixtures("processes")

OPERATIONS, TESTING = DOCS / "operations.md", DOCS / "testing.md"
INSTALL_DEADLINE_S = 240
#: The environment of a system service (systemd.exec(5)), without variables of the tests' shell.
SERVICE_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
#: A program that needs only the container's package.
EMBEDDED = """
import odradek, socket
with odradek.Broker() as broker:
    host, port = broker.bootstrap_servers.rsplit(":", 1)
    socket.create_connection((host, int(port))).close()
"""
#: A service with tests, as the CI recipes expect it.
SERVICE = """
[build-system]
requires = ["flit_core>=3.11,<4"]
build-backend = "flit_core.buildapi"
[project]
name = "service"
version = "1"
description = "A service."
[project.optional-dependencies]
test = ["pytest", "pytest-xdist", "kafka-python"]
"""


def block_of(page: Path, language: str, title: str = "") -> Block:
    (found,) = [block for block in blocks(page) if block.language == language and block.title.startswith(title)]
    return found


# ---- the systemd unit


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """Writes the page's unit with the command and the files of this test. Returns its path."""
    port, data = free_port(), tmp_path / "var-lib-odradek"
    data.mkdir()
    properties = tmp_path / "server.properties"
    text = block_of(OPERATIONS, "properties").text.replace("9092", str(port)).replace("/var/lib/odradek", str(data))
    properties.write_text(text, encoding="utf-8")
    text = block_of(OPERATIONS, "ini").text.replace("/etc/odradek/server.properties", str(properties))
    file = tmp_path / "odradek.service"
    file.write_text(text.replace("/opt/odradek/bin/", f"{Path(sys.executable).parent}/"), encoding="utf-8")
    return file


def test_systemd_accepts_the_unit(unit: Path) -> None:
    verify = [needed("systemd-analyze"), "verify", "--man=no", "--recursive-errors=no", str(unit)]
    done = subprocess.run(verify, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_command_of_the_unit_serves_and_ends_with_0_on_sigterm(unit: Path, tmp_path: Path) -> None:
    sections = configparser.ConfigParser(interpolation=None)
    sections.optionxform = str  # type: ignore[assignment,method-assign]
    sections.read(unit, encoding="utf-8")
    service = sections["Service"]
    assert (service["Type"], service["StateDirectory"]) == ("exec", "odradek")
    found = re.search(r"listeners=PLAINTEXT://:(\d+)", (tmp_path / "server.properties").read_text(encoding="utf-8"))
    assert found is not None
    command = shlex.split(service["ExecStart"])
    assert serves_until_sigterm(command, int(found[1]), cwd="/", env=SERVICE_ENVIRONMENT) == 0
    assert (tmp_path / "var-lib-odradek" / "t-0").is_dir()


# ---- the container file, and the recipes for CI


def instructions(text: str) -> dict[str, str]:
    """Returns the instructions of a container file; each occurs once."""
    lines = text.replace("\\\n", " ").splitlines()
    return {name: value for name, _, value in (line.partition(" ") for line in lines)}


@pytest.fixture
def wheels() -> Path:
    """Returns a folder with the wheel of this checkout, for pip."""
    return built_wheel().parent


def clean_environment(folder: Path, wheels: Path) -> dict[str, str]:
    """Makes a virtual environment. Returns the variables of a shell in which it is active."""
    venv.create(folder, with_pip=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return {**kept, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "PIP_FIND_LINKS": str(wheels)}


@pytest.fixture
def root() -> Iterator[Path]:
    """Yields a folder in place of a container's root, which another user can read."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_linter_accepts_the_container_file() -> None:
    lint = [str(Path(sys.executable).with_name("hadolint")), "--no-color", "--failure-threshold", "warning", "-"]
    text = block_of(OPERATIONS, "dockerfile").text
    done = subprocess.run(lint, input=text, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stdout


def test_container_file_installs_the_package_and_serves(root: Path, wheels: Path) -> None:
    """With root rights the broker runs as the file's user, otherwise as the tests' user in its place."""
    has = instructions(block_of(OPERATIONS, "dockerfile").text)
    assert list(has) == ["FROM", "COPY", "RUN", "USER", "VOLUME", "EXPOSE", "ENTRYPOINT", "CMD"]
    environment = clean_environment(root / "python", wheels)
    del environment["PIP_FIND_LINKS"]  # the container file names the folder itself
    user, data, port = int(has["USER"]), root / "data", free_port()
    if os.geteuid() != 0:
        has["RUN"], user = has["RUN"].replace(f"-o {user}", f"-o {os.geteuid()}"), os.geteuid()
    assert has["COPY"] == "dist /dist"
    run = ["sh", "-c", has["RUN"].replace("/data", str(data)).replace("/dist", str(wheels))]
    done = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=INSTALL_DEADLINE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert data.stat().st_uid == user and has["VOLUME"] == "/data" and has["EXPOSE"] == "9092"

    words = [word.replace("/data", str(data)) for word in (*json.loads(has["ENTRYPOINT"]), *json.loads(has["CMD"]))]
    command = [str(root / "python" / "bin" / words[0]), *(word.replace("9092", str(port)) for word in words[1:])]
    as_user: dict[str, Any] = {"user": user, "extra_groups": []} if os.geteuid() == 0 else {}
    assert serves_until_sigterm(command, port, cwd=root, env=environment, **as_user) == 0
    assert (data / "t-0").is_dir()
    subprocess.run(["python", "-c", EMBEDDED], cwd=root, env=environment, check=True, timeout=DEADLINE_S)


def test_recipes_for_ci_install_the_package_and_run_the_tests(tmp_path: Path, wheels: Path) -> None:
    github = yaml.safe_load(block_of(TESTING, "yaml", "GitHub").text)["jobs"]["test"]
    gitlab = yaml.safe_load(block_of(TESTING, "yaml", "GitLab").text)["test"]
    script = [step["run"] for step in github["steps"] if "run" in step]
    assert script == gitlab["script"] and github["runs-on"] == "ubuntu-latest" and "python" in gitlab["image"]

    project = tmp_path / "service"
    project.mkdir()
    (project / "pyproject.toml").write_text(SERVICE, encoding="utf-8")
    (project / "service.py").touch()
    (project / "test_orders.py").write_text(block_of(TESTING, "python", "test_orders.py").text, encoding="utf-8")
    run = ["bash", "-euo", "pipefail", "-c", "\n".join(script)]
    environment = clean_environment(tmp_path / "python", wheels)
    done = subprocess.run(
        run, cwd=project, env=environment, capture_output=True, text=True, timeout=INSTALL_DEADLINE_S, check=False
    )
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
