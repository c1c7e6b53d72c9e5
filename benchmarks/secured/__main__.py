"""Measures security in both brokers in a run: `python -m benchmarks.secured [--only fetch] [--windows 10] [--seconds 0.5]`.

Both brokers are up; each load drives one and then the other in short windows. A row's figures are the broker's CPU time for
one unit: the minimum of the windows, and the median.
"""

from __future__ import annotations

import argparse
import ssl
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from . import loads
from .nodes import Certificates, Node, add_user, secured
from .windows import Figures, Side, Work, in_turn

ODRADEK, KAFKA = "Odradek", "Apache Kafka"
#: Targets for the CPU, as a share of Apache Kafka's.
TARGET, HANDSHAKE_TARGET = 0.8, 0.5
#: Warm-up before the windows: a JVM compiles hot code.
WARM_S = 20.0

Rows = dict[str, tuple[Callable[[Node], Work], float]]


def rows_of(tls: ssl.SSLContext) -> Rows:
    """Returns by name a function that makes the work for a node, and the target."""
    made: dict[tuple[str, int], loads.DataLoads] = {}

    def data(listener: str, make: Callable[[loads.DataLoads], Work], node: Node) -> Work:
        context = tls if listener == "SSL" else None
        found = made.get((listener, node.pid))
        if found is None:
            found = made[listener, node.pid] = loads.DataLoads(node, listener, context)
        return make(found)

    rows: Rows = {}
    for listener, words in (("SSL", "TLS"), ("PLAINTEXT", "plain")):
        for name, make in loads.data_loads().items():
            rows[f"{words}: {name}"] = partial(data, listener, make), TARGET
    rows["full handshake"] = partial(loads.Handshakes, tls=tls, with_ticket=False), HANDSHAKE_TARGET
    rows["resumed handshake"] = partial(loads.Handshakes, tls=tls, with_ticket=True), HANDSHAKE_TARGET
    rows["SCRAM-SHA-256 login"] = loads.logins, TARGET
    return rows


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="secured-") as folder, ExitStack() as running:
        certificates = Certificates(Path(folder) / "certificates")
        nodes: dict[str, Node] = {}
        for name in (ODRADEK, KAFKA) if not options.alone else (ODRADEK,):
            node = secured(Path(folder) / name.split()[0], certificates, is_apache=name == KAFKA)
            running.callback(node.broker.kill)
            add_user(node)
            nodes[name] = node
        print("CPU of the broker in us: least and median of the windows; units per second: median")
        for name, (make, target) in rows_of(certificates.client_context()).items():
            if options.only in name:
                sides = {broker: Side(node.pid, make(node)) for broker, node in nodes.items()}
                for side in sides.values():
                    side.work(WARM_S)
                show(name, in_turn(sides, options.windows, options.seconds), target)
                for broker, side in sides.items():
                    if isinstance(side.work, loads.Handshakes):
                        print(f"  {broker} has resumed {side.work.share_resumed:.0%}")


def show(name: str, figures: dict[str, Figures], target: float) -> None:
    print(name)
    for broker, found in figures.items():
        print(f"  {broker:14} {found.least_us:9.1f} {found.median_us:9.1f} us {found.median_rate:10.0f} /s")
    if len(figures) == 2:
        ours, theirs = figures[ODRADEK], figures[KAFKA]
        least, median = ours.least_us / theirs.least_us, ours.median_us / theirs.median_us
        word = "met" if max(least, median) <= target else "missed"
        rate = ours.median_rate / theirs.median_rate
        print(f"  ratio          {least:9.2f} {median:9.2f}    {rate:10.2f}      CPU <= {target}: {word}", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rows whose name holds this text")
    parser.add_argument("--windows", type=int, default=10, help="counted windows of each broker (default: 10)")
    parser.add_argument("--seconds", type=float, default=0.4, help="length of a window (default: 0.4)")
    parser.add_argument("--alone", action="store_true", help="Odradek alone")
    return parser.parse_args()


if __name__ == "__main__":
    main()
