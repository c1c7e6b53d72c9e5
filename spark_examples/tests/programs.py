"""The programs as a user runs them: processes with a command line, observed by the files that they write.

A JVM takes ten seconds of CPU to start, so tests of what a program computes run it in the session that they share.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_examples.tests.quick_jvm import QUICK_JVM, QUICK_SPARK

EXAMPLES = Path(__file__).resolve().parents[1]
#: Number of events in the topic that most tests share: about an hour of orders.
ORDERS = 40_000
#: Title of the block of docs/spark.md that test_submit.py pastes.
SUBMIT = "spark-submit"
_DEADLINE_S = 600
_LOOK_EVERY_S = 0.1


def command(program: str, *arguments: str) -> list[str]:
    return [sys.executable, str(EXAMPLES / program), *arguments]


def run_program(program: str, *arguments: str, environment: dict[str, str] | None = None) -> str:
    """Runs a program that must succeed, with more variables of the environment. Returns its output."""
    quick = {**os.environ, **QUICK_SPARK, **(environment or {})}
    done = subprocess.run(command(program, *arguments), capture_output=True, text=True, timeout=_DEADLINE_S, env=quick)
    assert done.returncode == 0, f"{program} ended with {done.returncode}\n{done.stdout}\n{done.stderr[-8000:]}"
    return done.stdout


def run_here(program: str, *arguments: str) -> str:
    """Runs a program that must succeed in this process and in the session that it has. Returns its output."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setattr(sys, "argv", [program, *arguments])
        patch.setattr(sys, "excepthook", sys.excepthook)  # typer replaces it
        patch.setattr(SparkSession, "stop", lambda session: None)
        try:
            runpy.run_path(str(EXAMPLES / program), run_name="__main__")
        except SystemExit as ended:
            assert not ended.code, f"{program} ended with {ended.code}\n{printed.getvalue()}"
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
    return printed.getvalue()


class Program:
    """A program that runs until it is stopped or killed, with all its child processes. `launcher`: in place of Python."""

    def __init__(self, log: Path, program: str, *arguments: str, launcher: Sequence[str] = (sys.executable,)) -> None:
        self.log = log
        self.name = program
        with log.open("a") as out:
            self._process = subprocess.Popen(
                [*launcher, str(EXAMPLES / program), *arguments], stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                start_new_session=True, env=os.environ | QUICK_JVM,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """Kills the driver together with its JVM."""
        if self.is_running:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def pause(self) -> None:
        """Stops the driver together with its JVM, until `resume` or `kill`."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.killpg(self._process.pid, signal.SIGCONT)

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


def _batches(folder: Path) -> list[int]:
    return [int(file.name) for file in folder.glob("*") if file.name.isdigit()]


def has_open_batch(checkpoint: Path) -> bool:
    """Returns whether a query has planned a batch that it has not committed."""
    begun, finished = _batches(checkpoint / "offsets"), _batches(checkpoint / "commits")
    return max(begun, default=-1) > max(finished, default=-1)


def committed_batch(checkpoint: Path) -> tuple[int, int]:
    """Returns the number of records that a query had read by the end of its last finished batch, and the watermark at the
    start of that batch in milliseconds since 1970. Its topics must begin at offset 0."""
    finished = _batches(checkpoint / "commits")
    if not finished:
        return 0, 0
    _, state, *sources = (checkpoint / "offsets" / str(max(finished))).read_text().splitlines()
    ends = [end for source in sources for partitions in json.loads(source).values() for end in partitions.values()]
    return sum(ends), json.loads(state)["batchWatermarkMs"]
