"""Runs Apache Kafka's command line tools and returns their output.

`run_tool` starts a JVM for one tool. `ToolHost` runs tools one after the other in one JVM: a test of forty tools pays for
one start.
"""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from .fetch import ORACLE
from .program import JVM_FLAGS, java_command

_HOST_SOURCE = Path(__file__).resolve().parent / "ToolHost.java"


@dataclass(frozen=True)
class ToolResult:
    """The result of a tool: its exit status and its output."""

    status: int
    out: str
    err: str

    def checked(self) -> ToolResult:
        assert self.status == 0, f"the tool ended with {self.status}\n--- out\n{self.out}\n--- err\n{self.err}"
        return self


def run_tool(
    tool: str, *arguments: str, stdin: str = "", timeout: float = 120, version: str = ORACLE, jvm: tuple[str, ...] = ()
) -> ToolResult:
    """Runs `tool`, a class with a `main`, in a JVM of its own. Raises subprocess.TimeoutExpired."""
    command = java_command(tool, *arguments, jvm=(*JVM_FLAGS, *jvm), version=version)
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout)
    return ToolResult(done.returncode, done.stdout, done.stderr)


class ToolHost:
    """A JVM that runs tools one after the other; each call sends a line of JSON and receives one."""

    def __init__(self, version: str = ORACLE, *jvm: str) -> None:
        command = java_command(_HOST_SOURCE, jvm=(*JVM_FLAGS, *jvm), version=version)
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._responses: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True).start()

    def run(self, tool: str, *arguments: str, stdin: str = "", timeout: float = 120) -> ToolResult:
        """Runs a tool inside the JVM. A timeout ends the JVM, so that no later response is mixed up."""
        assert self._process.stdin is not None
        request = json.dumps({"tool": tool, "arguments": arguments, "stdin": stdin})
        self._process.stdin.write(request + "\n")
        self._process.stdin.flush()
        try:
            response = json.loads(self._responses.get(timeout=timeout))
        except queue.Empty:
            self.close()
            raise TimeoutError(f"{tool} {' '.join(arguments)} did not end within {timeout} s") from None
        return ToolResult(response["status"], response["out"], response["err"])

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def _read(self, lines: IO[str]) -> None:
        with contextlib.suppress(ValueError):
            for line in lines:
                self._responses.put(line)

    def __enter__(self) -> ToolHost:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
