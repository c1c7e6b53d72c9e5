"""Rounds of `odradek archive --spark`: kill -9 of the driver at a place, of executor and broker at random moments.

The rest is as in rounds.py: a producer, deletion of covered records, merges and expiry beside the job; then an independent
comparison of the table with the producer's records. The executor is a process of its own (local-cluster).
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from spark_examples.tests.quick_jvm import QUICK_JVM

from .dying import SPARK
from .rounds import _DEADLINE_S, _POLL_S, _ROOT, Round

MASTER = "local-cluster[1,2,1024]"
EXECUTOR = "CoarseGrainedExecutorBackend"
VICTIMS = ("executor", "broker", "driver")
#: Time in which the driver comes to its place; it is killed at another one otherwise.
_PLACE_S = 180


class SparkRound(Round):
    """One round: each victim dies once, in a random order."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        place: str,
        *,
        records: int,
        victims: Sequence[str] = VICTIMS,
        master: str = MASTER,
    ) -> None:
        super().__init__(folder, seed, "spark", place, records=records, kills=len(victims))
        self._victims = list(victims)
        self._master = master
        self._log = folder / "driver.log"
        self._driver: subprocess.Popen[bytes] | None = None

    def _command(self, place: str, number: int, *options: str) -> list[str]:
        spark = () if "--once" in options else ("--spark", self._master)
        return super()._command(place, number, *spark, *options)

    def _kill_archivers(self) -> None:
        victims = self._victims
        self._rng.shuffle(victims)
        try:
            for victim in victims:
                if victim == "driver":
                    self._kill_driver()
                else:
                    self._kill_beside(victim)
                self.outcome.kills += 1
        finally:
            self._end()

    def _start(self, place: str) -> None:
        with self._log.open("ab") as log:
            self._driver = subprocess.Popen(
                self._command(place, self._rng.randrange(1, 4)), cwd=self._folder, stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, start_new_session=True, env=self._environment(),
            )  # fmt: skip

    def _environment(self) -> dict[str, str]:
        work = {"SPARK_WORKER_DIR": str(self._folder / "work"), "PYTHONPATH": str(_ROOT)}
        return os.environ | QUICK_JVM | work

    def _end(self) -> None:
        """Kills the driver with its JVM and the executor."""
        if self._driver is not None:
            family = psutil.Process(self._driver.pid).children(recursive=True) if self._driver.poll() is None else []
            for process in family:
                try:
                    process.kill()
                except psutil.NoSuchProcess:
                    continue
            with suppress(ProcessLookupError):
                os.killpg(self._driver.pid, signal.SIGKILL)
            self._driver.wait()
            self._driver = None

    def _kill_driver(self) -> None:
        self._end()
        self._start(self.outcome.place)
        assert self._driver is not None
        deadline = time.monotonic() + _PLACE_S
        while self._driver.poll() is None and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        self.outcome.missed_place = self._driver.poll() is None
        if self._driver.poll() not in (None, -signal.SIGKILL):
            self.outcome.anomalies.append(f"the driver ended with {self._driver.returncode}: {self._last_words()}")
        self._end()

    def _kill_beside(self, victim: str) -> None:
        """Kills the executor or the broker of a driver that has committed and goes on, and waits for its next commit."""
        if self._driver is None:
            self._start("none")
        self._wait_for_commit()
        time.sleep(self._rng.uniform(0, 1.5))
        if victim == "broker":
            self._broker.kill()
            self._broker.start()
        else:
            self._executor().kill()
        self._wait_for_commit()

    def _executor(self) -> psutil.Process:
        assert self._driver is not None
        deadline = time.monotonic() + _DEADLINE_S
        while time.monotonic() < deadline:
            for one in psutil.Process(self._driver.pid).children(recursive=True):
                try:
                    if any(EXECUTOR in word for word in one.cmdline()):
                        return one
                except psutil.NoSuchProcess:
                    continue
            time.sleep(_POLL_S)
        raise AssertionError(f"no executor: {self._last_words()}")

    def _wait_for_commit(self) -> None:
        assert self._driver is not None
        before, deadline = self._covered(), time.monotonic() + _DEADLINE_S
        while (found := self._covered()) is None or found == before:
            assert self._driver.poll() is None, f"the driver ended: {self._last_words()}"
            assert time.monotonic() < deadline, f"no commit: {self._last_words()}"
            time.sleep(0.2)

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-1500:]


def spark_place(seed: int) -> str:
    """The driver's place of a seed: each one once before the first comes again."""
    return list(SPARK)[seed % len(SPARK)]
