"""The worker process, a JVM that runs one turn after the other: OpenMessagingWorker.java beside this file."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from hdrh.histogram import HdrHistogram

from compat_tests.java.program import java_command

from .driver import Driver
from .workload import Workload, upstream_name

_PROGRAM = Path(__file__).with_name("OpenMessagingWorker.java")
#: Upstream's collector. It needs no more memory here: rates and backlogs are divided.
_JVM = ("-Xms1G", "-Xmx3G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=5", "-Djava.awt.headless=true")
_TAIL_BYTES = 4000


class TurnFailed(RuntimeError):
    """The worker could not finish a turn; the text has its error."""


@dataclass(frozen=True)
class Outcome:
    """The figures of a turn. Records were acknowledged and received during `seconds`; the histograms, in microseconds, have
    each record that was due then. `cpu_s` is the brokers' CPU time.
    """

    seconds: float
    sent: int
    received: int
    cpu_s: float
    publish: HdrHistogram
    end_to_end: HdrHistogram
    backlog_bytes: int = 0


class Worker:
    """A context. The process reads turns from its input and prints events."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._process: subprocess.Popen[str] | None = None
        self._errors: IO[bytes] | None = None

    def __enter__(self) -> Worker:
        # The JVM and the client warn there; it is read when a turn fails.
        self._errors = self._stack.enter_context(tempfile.TemporaryFile())
        command = java_command(_PROGRAM, jvm=_JVM)
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )
        self._process = self._stack.enter_context(process)
        self._stack.callback(process.kill)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def run(self, turn: dict[str, Any], cpu_s: Callable[[], float]) -> Outcome:
        """Runs a turn of `turn_of`. `cpu_s` returns the brokers' CPU time until now. Raises TurnFailed."""
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(json.dumps(turn) + "\n")
        self._process.stdin.flush()
        self._event("measuring")
        before = cpu_s()
        self._event("measured")
        used = cpu_s() - before
        done = self._event("done")
        return Outcome(
            done["seconds"],
            done["sent"],
            done["received"],
            used,
            HdrHistogram.decode(done["publish"]),
            HdrHistogram.decode(done["end_to_end"]),
            done.get("backlog_bytes", 0),
        )

    def _event(self, wanted: str) -> dict[str, Any]:
        assert self._process is not None and self._process.stdout is not None
        line = self._process.stdout.readline()
        event: dict[str, Any] = json.loads(line) if line else {"event": "the worker has ended"}
        if event["event"] != wanted:
            raise TurnFailed(f"{event}\n{self._printed_errors()}")
        return event

    def _printed_errors(self) -> str:
        assert self._errors is not None
        size = self._errors.seek(0, 2)
        self._errors.seek(max(0, size - _TAIL_BYTES))
        return self._errors.read().decode(errors="replace")


def turn_of(workload: Workload, driver: Driver, bootstrap: str, warm_up_s: float, seconds: float) -> dict[str, Any]:
    """Returns what the worker reads."""
    passed = {upstream_name(field.name): getattr(workload, field.name) for field in fields(workload)}
    for name in ("name", "useRandomizedPayloads", "randomizedPayloadPoolSize", "consumerBacklogSizeGB"):
        del passed[name]
    return passed | {
        "producerRate": workload.producer_rate if workload.is_rated or not workload.producer_rate else "Infinity",
        "randomBytesRatio": workload.random_bytes_ratio if workload.use_randomized_payloads else 1.0,
        "payloads": workload.randomized_payload_pool_size if workload.use_randomized_payloads else 1,
        "backlogBytes": workload.backlog_bytes,
        "bootstrap": bootstrap,
        "replicationFactor": driver.replication_factor,
        "topicConfig": driver.topic,
        "producerConfig": driver.producer,
        "consumerConfig": driver.consumer,
        "warmUpSeconds": warm_up_s,
        "seconds": seconds,
    }
