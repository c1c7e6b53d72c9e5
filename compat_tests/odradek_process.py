"""Odradek as a user starts it: a process, ready when it has printed its one line."""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

from .broker_process import POLL_S, BrokerProcess, free_port

_SERVING = re.compile(r"^odradek: serving on (?P<host>[^\s,]+):(?P<port>\d+)", re.MULTILINE)

_LISTENER = re.compile(r"\w+://(?P<host>[^,]+):(?P<port>\d+)")


class OdradekProcess(BrokerProcess):
    """`python -m odradek start --port N --data-dir D --override k=v ...`; the first start picks a free port.

    With `listeners` among the properties, the first listener sets the address, whatever is advertised. With `log.dirs` among
    the properties, `--data-dir` is left out: Odradek rejects two different directories on one command line.
    """

    name = "Odradek"

    def __init__(
        self,
        directory: Path,
        properties: dict[str, str] | None = None,
        *,
        python: tuple[str, ...] = (sys.executable,),
        start_deadline_s: float = 60,
    ) -> None:
        super().__init__(directory, properties, start_deadline_s=start_deadline_s)
        self.python = python

    def command(self) -> list[str]:
        command = [*self.python, "-m", "odradek", "start"]
        if "log.dirs" not in self.properties:
            command += ["--data-dir", str(self.data_dir)]
        if "listeners" not in self.properties:
            # A port that the system gives is also one of its clients' ports: one may have it when the broker starts again.
            self.port = self.port or free_port()
            command += ["--port", str(self.port)]
        for key, value in self.properties.items():
            command += ["--override", f"{key}={value}"]
        return command

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONUNBUFFERED": "1"}

    def _wait(self, deadline: float) -> None:
        while (found := _SERVING.search(self.output_file.read_text())) is None:
            self._check_alive(deadline)
            time.sleep(POLL_S)
        listening = _LISTENER.match(self.properties.get("listeners", "")) or found
        self.host, self.port = listening["host"], int(listening["port"])
