"""Spark among the clients of the scenario: spark_orders.py as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from spark_examples.tests.quick_jvm import QUICK_JVM

from .orders import TOPIC

_PROGRAM = Path(__file__).resolve().parent / "spark_orders.py"
_END_S = 240


class SparkQuery:
    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._directory = directory
        directory.mkdir()
        command = [sys.executable, str(_PROGRAM), bootstrap, TOPIC, str(directory)]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=os.environ | QUICK_JVM,
                start_new_session=True,
            )

    @property
    def batches(self) -> int:
        """Returns the number of committed batches."""
        assert self._process.poll() is None, f"the query has ended\n{self.last_words()}"
        return sum(file.name.isdigit() for file in (self._directory / "checkpoint" / "commits").glob("*"))

    def end(self) -> dict[int, list[tuple[int, str, str]]]:
        """Ends the query. Returns its rows after it has read all: partition to (offset, customer, order), by offset."""
        self._process.communicate(b"enough\n", timeout=_END_S)
        assert self._process.returncode == 0, f"the query has failed\n{self.last_words()}"
        kept: dict[int, list[tuple[int, str, str]]] = defaultdict(list)
        with (self._directory / "rows.jsonl").open() as rows:
            for partition, offset, customer, order in map(json.loads, rows):
                kept[partition].append((offset, customer, order))
        return {partition: sorted(orders) for partition, orders in kept.items()}

    def kill(self) -> None:
        """Kills the driver together with its JVM."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def last_words(self) -> str:
        return self._log.read_text()[-8000:]

    @property
    def _log(self) -> Path:
        return self._directory / "spark.log"
