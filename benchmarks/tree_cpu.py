"""CPU of processes and all that they start."""

from __future__ import annotations

import contextlib
import threading

import psutil

_SAMPLE_S = 0.5


class TreeCpu:
    """Seconds of CPU of processes and all their children, by samples: Spark ends idle workers, whose times are lost."""

    def __init__(self, *roots: psutil.Process) -> None:
        self._roots = roots
        self._seconds: dict[psutil.Process, float] = {}
        self._lock = threading.Lock()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __call__(self) -> float:
        with self._lock:
            for root in self._roots:
                for one in (root, *root.children(recursive=True)):
                    with contextlib.suppress(psutil.Error):
                        times = one.cpu_times()
                        self._seconds[one] = times.user + times.system
            return sum(self._seconds.values())

    def _run(self) -> None:
        while not self._ends.wait(_SAMPLE_S):
            self()

    def close(self) -> None:
        self._ends.set()
        self._thread.join()
