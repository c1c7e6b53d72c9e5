"""Measures tails of latency beside Apache Kafka: `python -m benchmarks.tails [--beside NAME ...] [--rates N ...]
[--seconds N] [--only-odradek] [--waits]`.

A producer and a consumer are paced, acks=all, while the same broker has other work (`neighbours.py`): a producer of
20 MB/s, 20 consumers that read 1 GB, compaction, 500 idle and 200 busy connections, a list of 2,000 topics each second, a
group of 100 members of which one leaves and joins 20 times a second, retention, or 20 TLS handshakes a second. Both
brokers take each row in turn. Latencies are in milliseconds, from the time at which a record was due.

The neighbour and the clients share the machine with the broker, so a part of a tail is the time in which a process waits for
a core. `--waits` adds the floor that this puts under Odradek's p99.9: for the slowest thousandth of the produced records,
the mean latency, the broker's wait for a core in it, and the client's. The two may overlap.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compat_tests.wire import WireClient

from ..brokers import APACHE_NAME, ODRADEK_NAME, Cost
from ..idle_connections import allow
from ..secured.nodes import Certificates, secured
from .neighbours import BUSY, IDLE, NEIGHBOURS, create
from .paced import TOPIC

RATES = (500, 5000)
ROOT = Path(__file__).parents[2]
#: A JVM compiles hot code meanwhile.
WARM_UP_S = 10.0
SHARES = (0.5, 0.99, 0.999, 1.0)
#: Properties of both brokers, so that retention and compaction happen often enough for a run of some seconds.
PROPERTIES = {"log.retention.check.interval.ms": "1000", "log.cleaner.backoff.ms": "500", "ssl.client.auth": "required"}


def main() -> None:
    options = arguments()
    allow(2 * (IDLE + BUSY))
    print(
        "| beside | records/s | broker | produced: p50, p99, p99.9, max ms | received: p50, p99, p99.9, max ms | CPU |"
    )
    print("|---|---|---|---|---|---|", flush=True)
    for name in options.beside:
        for rate in options.rates:
            for broker in (ODRADEK_NAME,) if options.only_odradek else (ODRADEK_NAME, APACHE_NAME):
                found, cpu = measure(name, rate, options.seconds, is_apache=broker == APACHE_NAME, waits=options.waits)
                figures = f"{shown(found['produced'])} | {shown(found['consumed'])} | {cpu:.2f}"
                print(f"| {name} | {rate} | {broker} | {figures} |", flush=True)
                if "waits" in found:
                    print(f"| {name} | {rate} | {waits_row(*found['waits'])} | | |", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beside", nargs="+", choices=tuple(NEIGHBOURS), default=list(NEIGHBOURS))
    parser.add_argument(
        "--rates", nargs="+", type=int, default=list(RATES), help="records a second (default: 500 5000)"
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="of a row, without its warm-up (default: 20)")
    parser.add_argument("--only-odradek", action="store_true")
    parser.add_argument("--waits", action="store_true", help="show the waits for a core in the slowest records")
    return parser.parse_args()


def measure(
    name: str, rate: int, seconds: float, *, is_apache: bool, waits: bool = False
) -> tuple[dict[str, list[int]], float]:
    """Returns what `paced.py` prints, and the broker's CPU as a share of a core."""
    with tempfile.TemporaryDirectory(prefix="tails-") as folder:
        certificates = Certificates(Path(folder) / "certificates")
        node = secured(Path(folder) / "broker", certificates, is_apache=is_apache, **PROPERTIES)
        try:
            with WireClient(node.broker.bootstrap) as client:
                create(client, TOPIC)
            with beside(name, node.broker.bootstrap, f"{node.ports['SSL']}:{certificates.directory}"):
                before = Cost.of(node.pid).cpu_s
                words = [node.broker.bootstrap, str(rate), str(seconds), str(WARM_UP_S)]
                if waits and not is_apache:
                    words.append(str(node.pid))
                command = [sys.executable, "-m", "benchmarks.tails.paced", *words]
                found: dict[str, list[int]] = json.loads(
                    subprocess.run(command, check=True, capture_output=True).stdout
                )
                cpu = (Cost.of(node.pid).cpu_s - before) / (seconds + WARM_UP_S)
        finally:
            node.broker.kill()
    return found, cpu


@contextmanager
def beside(name: str, *words: str) -> Iterator[None]:
    """A neighbour at work. `words`: the broker's address, and its listener with TLS and the directory of certificates."""
    command = [sys.executable, "-m", "benchmarks.tails.neighbours", name, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as neighbour:
        try:
            assert neighbour.stdout is not None and neighbour.stdout.readline() == "running\n", name
            yield
            assert neighbour.poll() is None, f"{name} ended meanwhile"
        finally:
            neighbour.kill()


def waits_row(latency_us: int, broker_us: int, client_us: int) -> str:
    waited = f"{broker_us / 1000:.2f} by the broker, {client_us / 1000:.2f} by the client"
    return f"waits for a core in its slowest thousandth | {latency_us / 1000:.2f}, of it {waited}"


def shown(latencies_us: list[int]) -> str:
    last = len(latencies_us) - 1
    return ", ".join(f"{latencies_us[min(last, int(len(latencies_us) * share))] / 1000:.2f}" for share in SHARES)


if __name__ == "__main__":
    main()
