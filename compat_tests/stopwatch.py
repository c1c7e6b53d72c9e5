"""The time that this process and its descendants take, without the time that other programs take from them."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import psutil


class Stopwatch:
    """Measures from its creation on.

    The time that threads waited for a processor does not count (man 5 proc: schedstat): a busy machine causes it. Several
    threads may have waited at once, so the result may be too small there. On an idle machine it is the time that has passed.
    """

    def __init__(self) -> None:
        self._waited = _waited_s()
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        passed = time.monotonic() - self._began
        return passed - sum(waited - self._waited.get(thread, 0.0) for thread, waited in _waited_s().items())


def _waited_s() -> dict[tuple[int, str], float]:
    """Returns the seconds for which each thread has waited for a processor, by process and thread."""
    this = psutil.Process()
    found = {}
    for process in (this, *this.children(recursive=True)):
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{process.pid}/task").iterdir():
                with contextlib.suppress(OSError):
                    _, waited_ns, _ = (thread / "schedstat").read_text(encoding="ascii").split()
                    found[process.pid, thread.name] = int(waited_ns) / 1e9
    return found
