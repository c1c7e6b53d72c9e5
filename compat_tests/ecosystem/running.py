"""Programs of the tools as processes: run to their end, or started, watched by what they print, and ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import pytest

from compat_tests.needed_tools import missing

from .install import environment, is_installed
from .tools import BY_FOLDER

#: The deadline of any wait; other tests may load the machine.
DEADLINE_S = 180.0
_POLL_S = 0.1
_TAIL_CHARACTERS = 6000
_JVM = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
T = TypeVar("T")


def home(folder: str) -> Path:
    """Returns the environment of a tool. Skips the test if the tool is not installed; in CI a skip is a failure."""
    tool = BY_FOLDER[folder]
    if not is_installed(tool):
        missing(f"{tool.name}: run `python -m compat_tests.ecosystem.install {folder}`")
    return environment(tool)


def python(folder: str) -> str:
    """Returns the interpreter of a tool's own virtual environment."""
    return str(home(folder) / "bin" / "python")


def java(folder: str, *words: str, first: str = "", jvm: tuple[str, ...] = ()) -> list[str]:
    """Returns the command that runs a class with a tool's compiled programs and jars; `first` precedes them."""
    at = home(folder)
    path = os.pathsep.join(filter(None, (first, str(at / "classes"), f"{at / 'jars'}/*")))
    return ["java", *_JVM, *jvm, "-cp", path, *words]


def unpacked(folder: str, place: str) -> Path:
    """Returns a file or folder of a Debian package, from the tool's environment or else from the system."""
    for root in (home(folder) / "root", Path("/")):
        if found := sorted(root.glob(place)):
            return found[0]
    pytest.fail(f"{place} is in no package of {folder}")


def libraries(folder: str) -> dict[str, str]:
    """Returns the variable with the path of the unpacked libraries, for unpacked programs."""
    root = home(folder) / "root"
    places = [
        path
        for pattern in ("usr/lib/*-linux-gnu", "lib/*-linux-gnu", "usr/lib/syslog-ng")
        for path in sorted(root.glob(pattern))
    ]
    return {"LD_LIBRARY_PATH": os.pathsep.join(str(path) for path in places)} if places else {}


def run(
    command: list[str], *, stdin: str = "", timeout: float = DEADLINE_S, env: Mapping[str, str] | None = None
) -> str:
    """Runs a command that must succeed, and returns its standard output."""
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=timeout, env={**os.environ, **(env or {})}
    )
    tail = f"{done.stdout[-_TAIL_CHARACTERS:]}\n{done.stderr[-_TAIL_CHARACTERS:]}"
    assert done.returncode == 0, f"{' '.join(command)[:300]} ended with {done.returncode}:\n{tail}"
    return done.stdout


class Running:
    """A process of a tool; `log` has its output. Killed at the end of the block if it still runs."""

    def __init__(
        self, command: list[str], log: Path, *, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        self.log = log
        self._begins_at = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
                cwd=cwd or log.parent,
                start_new_session=True,
            )

    @property
    def printed(self) -> str:
        """The output of this process so far."""
        return self.log.read_bytes()[self._begins_at :].decode(errors="replace")

    def wait_for(self, condition: Callable[[], T], what: str, deadline_s: float = DEADLINE_S) -> T:
        """Waits until the condition is true; the process must run meanwhile."""
        until = time.monotonic() + deadline_s
        while not (found := condition()):
            tail = self.printed[-_TAIL_CHARACTERS:]
            assert self.process.poll() is None, f"ended with {self.process.returncode} before {what}:\n{tail}"
            assert time.monotonic() < until, f"no {what} in {deadline_s} s:\n{tail}"
            time.sleep(_POLL_S)
        return found

    def wait_for_text(self, text: str, deadline_s: float = DEADLINE_S) -> None:
        self.wait_for(lambda: text in self.printed, repr(text), deadline_s)

    def finish(self, deadline_s: float = DEADLINE_S) -> str:
        """Waits for an end with status 0, and returns the output."""
        status = self.process.wait(deadline_s)
        assert status == 0, f"ended with {status}:\n{self.printed[-_TAIL_CHARACTERS:]}"
        return self.printed

    def stop(self, by: signal.Signals = signal.SIGTERM, deadline_s: float = DEADLINE_S) -> None:
        """Sends a signal, and waits for the end."""
        self.process.send_signal(by)
        self.process.wait(deadline_s)

    def kill(self) -> None:
        """Kills the process and its children with -9."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
