"""Runs a module with a watch on its event loop: `python -m benchmarks.timed_turns FILE -m MODULE ...`.

At SIGUSR1 the process writes the longest callback since the signal before to FILE, in seconds of the thread's CPU time:
other processes on the machine do not change it. The loop is asyncio's own, since those of uvloop have no place for a watch.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import time
from asyncio import events
from pathlib import Path
from types import FrameType

from compat_tests.recipes import eventually

_run = events.Handle._run
_longest_s = 0.0


def longest_turn_ms(pid: int, file: Path) -> float:
    """Returns the longest callback of a watched process since the last call, in milliseconds."""
    file.unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR1)
    return 1000 * float(eventually(lambda: file.exists() and file.read_text(), what="the process has written its time"))


def _timed(handle: events.Handle) -> None:
    global _longest_s
    began_s = time.thread_time()
    try:
        _run(handle)
    finally:
        _longest_s = max(_longest_s, time.thread_time() - began_s)


def main() -> None:
    file, dash_m, module, *arguments = sys.argv[1:]
    assert dash_m == "-m", sys.argv

    def write(number: int, frame: FrameType | None) -> None:
        global _longest_s
        written = Path(f"{file}.new")
        written.write_text(str(_longest_s))
        written.replace(file)
        _longest_s = 0.0

    signal.signal(signal.SIGUSR1, write)
    sys.modules["uvloop"] = None  # type: ignore[assignment]  # its import fails
    events.Handle._run = _timed  # type: ignore[method-assign]
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
