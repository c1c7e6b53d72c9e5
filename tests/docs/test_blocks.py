"""The blocks of the user guides run as a reader would paste them.

A page's blocks share one folder. A `sh` block whose title names the first shell starts a broker in the background, in place
of the one before; other `sh` blocks run to their end; `python` blocks are programs. A block whose title is a file of pytest
is written there, and pytest runs at the end. Ports 9092 and 9404 are replaced by free ones.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, Block, blocks

PAGES = ("command-line.md", "configuration.md", "failover.md", "index.md", "operations.md", "testing.md")
DEADLINE_S = 60


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Shells:
    """The reader's shells: a first one with a broker in the foreground, and another for everything else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = {"9092": str(free_port()), "9404": str(free_port())}
        scripts = Path(sys.executable).parent
        self.environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
        self.first: subprocess.Popen[str] | None = None

    def placed(self, text: str) -> str:
        text = re.sub(r"\b(9092|9404)\b", lambda found: self.ports[found[1]], text)
        text = text.replace("cluster start --brokers 3", "cluster start --brokers 3 --port 0")
        return re.sub(r"(odradek start (?!.*--port))(?!odradek-cluster)", r"\1--port 0 ", text)

    def run(self, block: Block) -> None:
        text = self.placed(block.text)
        if block.title.endswith(".py"):
            with (self.folder / block.title).open("a", encoding="utf-8") as file:
                file.write(text)
            return
        if block.title.startswith("first shell"):
            self.start(text)
            return
        command = (
            [sys.executable, "-c", text] if block.language == "python" else ["bash", "-euo", "pipefail", "-c", text]
        )
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"

    def start(self, text: str) -> None:
        self.stop()
        self.first = subprocess.Popen(
            ["bash", "-c", f"exec {text.strip()}"],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.first.stdout is not None
        assert "serving" in self.first.stdout.readline(), text

    def stop(self) -> None:
        if self.first is not None:
            self.first.send_signal(signal.SIGINT)
            assert self.first.wait(DEADLINE_S) == 0
            self.first = None


@pytest.mark.parametrize("name", PAGES)
def test_the_blocks_of_a_page_run_in_order(name: str, tmp_path: Path) -> None:
    shells = Shells(tmp_path)
    ran = [block for block in blocks(DOCS / name) if block.language in ("sh", "python")]
    assert ran
    began = time.monotonic()
    try:
        for block in ran:
            shells.run(block)
        if any(tmp_path.glob("test_*.py")):
            tests = Block("sh", "", "pytest -q -p no:cacheprovider --rootdir .")
            shells.run(tests)
    finally:
        shells.stop()
    print(f"{name}: {len(ran)} blocks in {time.monotonic() - began:.1f} s")
