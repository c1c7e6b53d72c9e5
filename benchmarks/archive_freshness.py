"""Freshness of `odradek archive`: the time from a record's acknowledgement until its offset is in the table.

    python -m benchmarks.archive_freshness --seconds 120 --rate 2000 --freshness 10
    python -m benchmarks.archive_freshness --spark local[2]

A broker, an archiver and a producer at a rate run as on one machine. A reader looks at the table's offsets every tenth of a
second, so the figures have up to that much on top. The first commit of the archiver is not measured: its start is before it.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Producer
from odradek.archive import open_catalog
from odradek.archive.iceberg import covered_of
from pyiceberg.exceptions import NoSuchTableError

from compat_tests.odradek_process import OdradekProcess

TOPIC, PARTITIONS = "measured", 3
_LOOK_S = 0.1
#: Records whose times are noted.
_EVERY = 10
_VALUE = b'{"id": %010d, "customer": "c-000123", "amount": 12.5, "note": "as long as an order of a hundred bytes"}'


class Load:
    """Produces at a rate, and notes the times of acknowledgements by partition and offset."""

    def __init__(self, bootstrap: str, rate: int) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self._rate = rate
        self.acknowledged: list[tuple[int, int, float]] = []
        self.sent = 0
        self.is_ended = threading.Event()

    def run(self, seconds: float) -> None:
        began = time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            while self.sent < passed * self._rate:
                note = self._note if self.sent % _EVERY == 0 else None
                self._producer.produce(TOPIC, _VALUE % self.sent, b"k%d" % (self.sent % 999), on_delivery=note)
                self.sent += 1
            self._producer.poll(0.01)
        self._producer.flush(60)
        self.is_ended.set()

    def _note(self, error: Any, message: Any) -> None:
        assert error is None, error
        self.acknowledged.append((message.partition(), message.offset(), time.monotonic()))


def watch(folder: Path, load: Load) -> list[tuple[float, dict[int, int]]]:
    """The times at which the table's offsets changed, until it has all that is acknowledged."""
    seen: list[tuple[float, dict[int, int]]] = []
    catalog = open_catalog(folder, {})
    give_up = None
    while True:
        try:
            covered = covered_of(catalog.load_table(f"kafka.{TOPIC}"))
        except (NoSuchTableError, FileNotFoundError):
            covered = None
        if covered is not None and (not seen or covered.offsets != seen[-1][1]):
            seen.append((time.monotonic(), dict(covered.offsets)))
        if load.is_ended.is_set():
            give_up = give_up or time.monotonic() + 600
            if seen and all(seen[-1][1].get(one, 0) > offset for one, offset, _ in load.acknowledged):
                return seen
            assert time.monotonic() < give_up, "the table does not get the last records"
        time.sleep(_LOOK_S)


def delays(load: Load, seen: list[tuple[float, dict[int, int]]]) -> list[float]:
    """Seconds from acknowledgement to table, of the records after the first commit."""
    first = seen[0][1]
    found = []
    for partition, offset, moment in load.acknowledged:
        if offset >= first.get(partition, 0):
            found.append(next(at for at, offsets in seen if offsets.get(partition, 0) > offset) - moment)
    return sorted(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--rate", type=int, default=2000, help="records a second")
    parser.add_argument("--freshness", type=float, default=10.0)
    parser.add_argument("--spark", default=None, help="a master: the archiver is a job of Spark")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, OdradekProcess(Path(folder) / "broker") as broker:
        load = Load(broker.bootstrap, options.rate)
        command = [sys.executable, "-m", "odradek", "topic", "create", TOPIC, "--partitions", str(PARTITIONS)]
        subprocess.run([*command, "-b", broker.bootstrap], check=True, capture_output=True)
        tables = Path(folder) / "tables"
        command = [
            sys.executable,
            "-m",
            "odradek",
            "archive",
            TOPIC,
            "--warehouse",
            str(tables),
            "-b",
            broker.bootstrap,
        ]
        command += ["--value-format", "json", "--freshness", str(options.freshness)]
        command += [] if options.spark is None else ["--spark", options.spark]
        archiver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            threading.Thread(target=load.run, args=(options.seconds,), daemon=True).start()
            seen = watch(tables, load)
            family = [psutil.Process(archiver.pid), *psutil.Process(archiver.pid).children(recursive=True)]
            cpu = sum(sum(one.cpu_times()[:2]) for one in family)
        finally:
            archiver.terminate()
            archiver.wait(60)
    found = delays(load, seen)
    hundredths = statistics.quantiles(found, n=100)
    print(
        f"{options.rate} records/s for {options.seconds:g} s, --freshness {options.freshness:g}: {len(seen)} commits; "
        f"p50 {hundredths[49]:.1f} s, p99 {hundredths[98]:.1f} s, max {found[-1]:.1f} s; CPU of the archiver "
        f"{cpu:.1f} s for {load.sent:,} records; load of the machine {psutil.getloadavg()[0]:.0f}"
    )


if __name__ == "__main__":
    main()
