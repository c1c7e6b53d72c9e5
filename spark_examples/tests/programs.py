"""The programs as a person runs them: processes with a command line, watched by what they leave on disk."""

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
#: How many events the topic has that most tests share: about an hour and a half of orders.
ORDERS = 60_000
#: What ends soon is better compiled quickly than well: half of the processor time of a small job.
QUICK_JVM = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
_DEADLINE_S = 360
_LOOK_EVERY_S = 0.1


def command(program: str, *arguments: str) -> list[str]:
    return [sys.executable, str(EXAMPLES / program), *arguments]


def run_program(program: str, *arguments: str) -> str:
    """Runs it to its end, which must be a good one. Returns what it printed."""
    quick = {**os.environ, **QUICK_JVM}
    done = subprocess.run(command(program, *arguments), capture_output=True, text=True, timeout=_DEADLINE_S, env=quick)
    assert done.returncode == 0, f"{program} ended with {done.returncode}\n{done.stdout}\n{done.stderr[-8000:]}"
    return done.stdout


class Program:
    """A program that runs until it is stopped or killed, with all the processes that it started."""

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
        """kill -9 of the driver and its JVM at once."""
        if self.is_running:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> int:
        """SIGTERM to the program, and its exit status."""
        self._process.terminate()
        return self.wait()

    def wait(self) -> int:
        return self._process.wait(_DEADLINE_S)

    def wait_until(self, holds: Callable[[], bool], what: str, deadline_s: float = _DEADLINE_S) -> None:
        """Looks until it holds. Fails when the program ends first, or the time is over."""
        give_up = time.monotonic() + deadline_s
        while not holds():
            assert self._process.poll() is None, f"{self.name} ended before {what}\n{self.last_words()}"
            assert time.monotonic() < give_up, f"not in {deadline_s} s: {what}\n{self.last_words()}"
            time.sleep(_LOOK_EVERY_S)

    def last_words(self) -> str:
        return self.log.read_text()[-8000:]


def committed_batch(checkpoint: Path) -> tuple[int, int]:
    """Returns the number of records that a query had read by the end of its last finished batch, of topics that begin at
    offset 0, and the watermark at the start of that batch, in milliseconds since 1970."""
    finished = [int(file.name) for file in (checkpoint / "commits").glob("*") if file.name.isdigit()]
    if not finished:
        return 0, 0
    _, state, *sources = (checkpoint / "offsets" / str(max(finished))).read_text().splitlines()
    ends = [end for source in sources for partitions in json.loads(source).values() for end in partitions.values()]
    return sum(ends), json.loads(state)["batchWatermarkMs"]
