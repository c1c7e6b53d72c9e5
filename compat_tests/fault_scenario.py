"""A seeded sequence of faults, and processes that recover from them: the common part of the fault checkers."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Sequence

#: Interval of the checks for ended processes.
_LOOK_S = 0.02


class WatchedProcess:
    """A process that is restarted whenever it has ended. A subclass starts it in `begin`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._frozen_until = 0.0

    def begin(self) -> subprocess.Popen[bytes]:
        raise NotImplementedError

    def look(self) -> None:
        """Starts the process if it is not running; resumes it when its freeze is over."""
        if self._process is None or self._process.poll() is not None:
            self._process, self._frozen_until = self.begin(), 0.0
        elif self._frozen_until and time.monotonic() > self._frozen_until:
            self.thaw()

    def freeze(self, seconds: float) -> None:
        if self._process is not None and self._process.poll() is None and not self._frozen_until:
            self._frozen_until = time.monotonic() + seconds
            os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        if self._process is not None and self._frozen_until:
            os.kill(self._process.pid, signal.SIGCONT)
        self._frozen_until = 0.0

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        self._frozen_until = 0.0


class FaultScenario:
    """Faults in a seeded sequence, with pauses between. A subclass injects one fault in `one`."""

    #: Between two faults.
    LONGEST_PEACE_S = 1.0

    def __init__(self, seed: int, watched: Sequence[WatchedProcess]) -> None:
        self.rng = random.Random(seed)
        self.watched = watched
        self.done: Counter[str] = Counter()

    def one(self) -> None:
        raise NotImplementedError

    def go_on_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.peace(self.rng.random() * self.LONGEST_PEACE_S)
            self.one()

    def peace(self, seconds: float) -> None:
        """Injects no fault for `seconds`, and restarts processes that have ended."""
        end = time.monotonic() + seconds
        while True:
            for process in self.watched:
                process.look()
            if time.monotonic() >= end:
                return
            time.sleep(_LOOK_S)

    def thaw(self) -> None:
        for process in self.watched:
            process.thaw()
