"""Compares the Pythons of this machine: `python -m benchmarks.pythons [--rounds 5] [--seconds 2]`.

Prints a table: CPU time of a broker's start, its memory when idle, and CPU time per produce and fetch of one record of 100
bytes, five requests in flight. Each round starts one broker with each Python in turn; figures are medians of the rounds.
CPU times are valid on a busy machine, but only the ratios of one run mean something.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

from benchmarks.data_path import FETCH_VERSION, Bench, Peer, cpu_s, frame
from compat_tests.odradek_process import OdradekProcess
from tests.pythons.environments import Environment
from tests.pythons.interpreters import other_interpreters, this_interpreter

IN_FLIGHT = 5
RECORD_BYTES = 100
#: Requests before a measurement, which import, compile and specialize code.
WARM_UP_S = 0.5
#: A broker is idle when its CPU time has stayed below this share of one core for a second.
IDLE_SHARE = 0.02
IDLE_DEADLINE_S = 30


@dataclass
class Figures:
    """Measurements of one Python, one per round."""

    start_s: list[float] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)
    produce_us: list[float] = field(default_factory=list)
    fetch_us: list[float] = field(default_factory=list)

    def medians(self) -> tuple[float, ...]:
        rows = (self.start_s, self.memory_mb, self.produce_us, self.fetch_us)
        return tuple(statistics.median(row) for row in rows)


def await_idle(pid: int) -> None:
    deadline = time.monotonic() + IDLE_DEADLINE_S
    while time.monotonic() < deadline:
        before = cpu_s(pid)
        time.sleep(1)
        if cpu_s(pid) - before < IDLE_SHARE:
            return
    raise TimeoutError("the broker does not become idle")


def cpu_us_per_request(pid: int, peer: Peer, data: bytes, seconds: float) -> float:
    peer.pipeline(data, IN_FLIGHT, WARM_UP_S)
    before = cpu_s(pid)
    count = peer.pipeline(data, IN_FLIGHT, seconds)
    return (cpu_s(pid) - before) / count * 1e6


def measure(python: Path, figures: Figures, seconds: float) -> None:
    """Adds the figures of one broker."""
    with tempfile.TemporaryDirectory() as folder, OdradekProcess(Path(folder), python=(str(python),)) as broker:
        pid = broker.pid
        figures.start_s.append(cpu_s(pid))
        await_idle(pid)
        figures.memory_mb.append(psutil.Process(pid).memory_info().rss / 1e6)
        bench = Bench((broker.host, broker.port), pid, seconds)
        peer = Peer(bench.address)
        figures.produce_us.append(cpu_us_per_request(pid, peer, bench.produce_frame(RECORD_BYTES, 1), seconds))
        asked = FetchPartition(0, -1, 0, -1, -1, RECORD_BYTES)  # less than one batch: the response has the first
        request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(bench.topic, partitions=[asked])])
        figures.fetch_us.append(cpu_us_per_request(pid, peer, frame(request, FETCH_VERSION), seconds))


def table(figures: dict[str, Figures]) -> str:
    """Returns the table in Markdown; the least of each column is bold."""
    medians = {name: each.medians() for name, each in figures.items()}
    least = [min(column) for column in zip(*medians.values(), strict=True)]
    formats: list[Callable[[float], str]] = [lambda s: f"{s:.2f} s", lambda mb: f"{mb:.0f} MB"]
    formats += [lambda us: f"{us:.1f} us"] * 2
    lines = ["| Python | start, CPU | memory, idle | produce, CPU | fetch, CPU |", "|---|---|---|---|---|"]
    for name, row in medians.items():
        cells = [shown(value) for shown, value in zip(formats, row, strict=True)]
        cells = [f"**{cell}**" if value == best else cell for cell, value, best in zip(cells, row, least, strict=True)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def pythons() -> dict[str, Path]:
    """Returns the commands of Python by full version, with environments in which Odradek is installed."""
    here = this_interpreter()
    found = {here.full_name: here.executable}
    for interpreter in other_interpreters().values():
        environment = Environment(interpreter)
        environment.prepare()
        found[interpreter.full_name] = environment.python
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2, help="of each load")
    options = parser.parse_args()
    found = pythons()
    figures = {name: Figures() for name in found}
    for number in range(options.rounds):
        names = list(found) if number % 2 == 0 else list(reversed(found))  # a growing load of the machine affects all
        for name in names:
            measure(found[name], figures[name], options.seconds)
    print(table(figures))


if __name__ == "__main__":
    sys.exit(main())
