"""What goes wrong while copiers copy: a seeded sequence of faults, and the processes that they befall."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from compat_tests.broker_process import BrokerProcess

from .cluster import ThreeBrokers

_COPIER = Path(__file__).with_name("copier.py")
#: Between two faults.
LONGEST_PEACE_S = 1.2
#: A copier that stands still for longer than its session has been replaced when it goes on: a zombie.
LONGEST_FREEZE_S = 5.0


class Route(NamedTuple):
    """From where to where a group of copiers copies, and by which protocol of groups."""

    source: str
    target: str
    group: str
    protocol: str = "classic"


class CopierProcess:
    """One copier, started again whenever it has ended."""

    def __init__(self, bootstrap: str, route: Route, name: str, seed: int, log: Path) -> None:
        self.name = name
        self._arguments = [bootstrap, *route, name]
        self._seed = seed
        self._log = log
        self.starts = 0
        self._frozen_until = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    def look(self) -> None:
        """Starts it if it does not run; lets it go on when its time of standing still is over."""
        if self._process is None or self._process.poll() is not None:
            self.starts += 1
            command = [sys.executable, str(_COPIER), *self._arguments, str(self._seed + self.starts)]
            with self._log.open("a") as log:
                self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        elif self._frozen_until and time.monotonic() > self._frozen_until:
            self._frozen_until = 0
            os.kill(self._process.pid, signal.SIGCONT)

    def freeze(self, seconds: float) -> None:
        if self._process is not None and self._process.poll() is None:
            self._frozen_until = time.monotonic() + seconds
            os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        if self._frozen_until:
            self._frozen_until = 0.1

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class Faults:
    """Chooses and does: kill -9 of the broker or of a copier, or a copier that stands still for a while."""

    def __init__(self, seed: int, broker: BrokerProcess | ThreeBrokers, copiers: list[CopierProcess]) -> None:
        self._chance = random.Random(seed)
        self._broker = broker
        self.copiers = copiers
        self.done: Counter[str] = Counter()

    def go_on_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.peace(self._chance.random() * LONGEST_PEACE_S)
            self._one()

    def peace(self, seconds: float) -> None:
        """Nothing goes wrong, and whoever had ended comes back."""
        end = time.monotonic() + seconds
        while True:
            for copier in self.copiers:
                copier.look()
            if time.monotonic() >= end:
                return
            time.sleep(0.02)

    def _one(self) -> None:
        copier = self._chance.choice(self.copiers)
        kind = self._chance.choices(("broker killed", "copier killed", "copier frozen"), (3, 3, 2))[0]
        freeze_s = self._chance.random() * LONGEST_FREEZE_S
        if kind == "broker killed":
            self._broker.kill()
            self._broker.start()
        elif kind == "copier killed":
            copier.kill()
        else:
            copier.freeze(freeze_s)
        self.done[kind] += 1
