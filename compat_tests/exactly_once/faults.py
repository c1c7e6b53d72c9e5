"""Faults during copying: a seeded sequence, and the processes that it hits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from compat_tests.broker_process import BrokerProcess
from compat_tests.fault_scenario import FaultScenario, WatchedProcess

from .cluster import ThreeBrokers

_COPIER = Path(__file__).with_name("copier.py")
#: A copier that is frozen for longer than its session is a zombie when it resumes: the group has replaced it.
LONGEST_FREEZE_S = 5.0


class Route(NamedTuple):
    """The source and the target of a group of copiers, and its group protocol."""

    source: str
    target: str
    group: str
    protocol: str = "classic"


class CopierProcess(WatchedProcess):
    """A copier that starts again whenever it ends."""

    def __init__(self, bootstrap: str, route: Route, name: str, seed: int, log: Path) -> None:
        super().__init__()
        self.name = name
        self._arguments = [bootstrap, *route, name]
        self._seed = seed
        self._log = log
        self.starts = 0

    def begin(self) -> subprocess.Popen[bytes]:
        self.starts += 1
        command = [sys.executable, str(_COPIER), *self._arguments, str(self._seed + self.starts)]
        with self._log.open("a") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


class Faults(FaultScenario):
    """Draws faults and applies them: kill -9 of the broker or of a copier, or a copier frozen for a while."""

    LONGEST_PEACE_S = 1.2

    def __init__(self, seed: int, broker: BrokerProcess | ThreeBrokers, copiers: list[CopierProcess]) -> None:
        super().__init__(seed, copiers)
        self._broker = broker
        self.copiers = copiers

    def one(self) -> None:
        copier = self.rng.choice(self.copiers)
        kind = self.rng.choices(("broker killed", "copier killed", "copier frozen"), (3, 3, 2))[0]
        freeze_s = self.rng.random() * LONGEST_FREEZE_S
        if kind == "broker killed":
            self._broker.kill()
            self._broker.start()
        elif kind == "copier killed":
            copier.kill()
        else:
            copier.freeze(freeze_s)
        self.done[kind] += 1
