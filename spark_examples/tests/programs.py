"""The programs as a user runs them: processes with a command line, observed by the files that they write."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1]
#: Number of events in the topic that most tests share: about an hour and a half of orders.
ORDERS = 60_000
#: Quick compilation suits a short process: it halves the CPU time of a small job.
QUICK_JVM = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
#: Title of the block of docs/spark.md that test_submit.py pastes.
SUBMIT = "spark-submit"
_DEADLINE_S = 360
_LOOK_EVERY_S = 0.1


def command(program: str, *arguments: str) -> list[str]:
    return [sys.executable, str(EXAMPLES / program), *arguments]


def run_program(program: str, *arguments: str, environment: dict[str, str] | None = None) -> str:
    """Runs a program that must succeed, with more variables of the environment. Returns its output."""
    quick = {**os.environ, **QUICK_JVM, **(environment or {})}
    done = subprocess.run(command(program, *arguments), capture_output=True, text=True, timeout=_DEADLINE_S, env=quick)
    assert done.returncode == 0, f"{program} ended with {done.returncode}\n{done.stdout}\n{done.stderr[-8000:]}"
    return done.stdout


class Program:
    """A program that runs until it is stopped or killed, with all its child processes."""

    def __init__(self, log: Path, program: str, *arguments: str) -> None:
        self.log = log
        self.name = program
        with log.open("a") as out:
            self._process = subprocess.Popen(
                command(program, *arguments), stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True
            )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """Kills the driver together with its JVM."""
        if self.is_running:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> int:
        """Sends SIGTERM to the program and returns its exit status."""
        self._process.terminate()
        return self.wait()

    def wait(self) -> int:
        return self._process.wait(_DEADLINE_S)

    def wait_until(self, holds: Callable[[], bool], what: str, deadline_s: float = _DEADLINE_S) -> None:
        """Waits until `holds` is true. Fails when the program ends first, or at the deadline."""
        give_up = time.monotonic() + deadline_s
        while not holds():
            assert self._process.poll() is None, f"{self.name} ended before {what}\n{self.last_words()}"
            assert time.monotonic() < give_up, f"not in {deadline_s} s: {what}\n{self.last_words()}"
            time.sleep(_LOOK_EVERY_S)

    def last_words(self) -> str:
        return self.log.read_text()[-8000:]


def committed_batch(checkpoint: Path) -> tuple[int, int]:
    """Returns the number of records that a query had read by the end of its last finished batch, and the watermark at the
    start of that batch in milliseconds since 1970. Its topics must begin at offset 0."""
    finished = [int(file.name) for file in (checkpoint / "commits").glob("*") if file.name.isdigit()]
    if not finished:
        return 0, 0
    _, state, *sources = (checkpoint / "offsets" / str(max(finished))).read_text().splitlines()
    ends = [end for source in sources for partitions in json.loads(source).values() for end in partitions.values()]
    return sum(ends), json.loads(state)["batchWatermarkMs"]
