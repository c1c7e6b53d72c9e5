"""Measures the latency of a client while 2,000 TLS handshakes stall: `python -m benchmarks.secured.half_open`.

Each attack sends nothing, half of a ClientHello or a whole one, and stops. Of two brokers of a kind one is attacked. The
requests of a client of each alternate, so that other load affects both alike. The best window counts, both of those while
the connections arrive and of those while they are held. `--apache`: Apache Kafka too.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from compat_tests.wire import WireClient
from tests.hostile.half_open import HALF_OPEN, PARTS, attack, p99s_s, sent_by

from ..idle_connections import allow
from .nodes import Certificates, Node, secured

#: Windows while the connections arrive, windows while they are held, and requests of a window.
COMING, HELD, WINDOW_REQUESTS = 2, 5, 200
#: Warm-up before the windows: a JVM compiles hot code.
WARM_REQUESTS = 1000

Windows = list[list[float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apache", action="store_true", help="Apache Kafka too")
    options = parser.parse_args()
    allow(HALF_OPEN)
    for is_apache in (False, True) if options.apache else (False,):
        for part in PARTS:
            with tempfile.TemporaryDirectory(prefix="half-open-") as folder:
                certificates = Certificates(Path(folder) / "certificates")
                with pair(Path(folder), certificates, is_apache=is_apache) as nodes:
                    show(f"{nodes[0].broker.name}: {part}", *windows(nodes, certificates, part))


@contextmanager
def pair(folder: Path, certificates: Certificates, *, is_apache: bool) -> Iterator[list[Node]]:
    with ExitStack() as running:
        nodes = []
        for number in range(2):
            nodes.append(secured(folder / f"broker-{number}", certificates, is_apache=is_apache))
            running.callback(nodes[-1].broker.kill)
        yield nodes


def windows(nodes: list[Node], certificates: Certificates, part: str) -> tuple[Windows, Windows]:
    """Returns p99 of both brokers, the attacked one first, while the connections arrive and while they are held."""
    context = certificates.client_context()
    addresses = [":".join(map(str, node.address("SSL"))) for node in nodes]
    with WireClient(addresses[0], tls=context) as attacked, WireClient(addresses[1], tls=context) as left_alone:
        clients = (attacked, left_alone)
        p99s_s(clients, WARM_REQUESTS)
        with attack(*nodes[0].address("SSL"), sent_by(part, context)) as attacker:
            coming = [p99s_s(clients, WINDOW_REQUESTS) for _ in range(COMING)]
            assert attacker.opened() == HALF_OPEN
            return coming, [p99s_s(clients, WINDOW_REQUESTS) for _ in range(HELD)]


def show(name: str, *phases: Windows) -> None:
    for phase, found in zip(("while they come", "while they are held"), phases, strict=True):
        with_s, without_s = min(found, key=lambda one: one[0] / one[1])
        ratio = with_s / without_s
        word = "met" if ratio <= 2 else "missed"
        print(
            f"{name:32} {phase:20} p99 {with_s * 1000:7.2f} ms beside {without_s * 1000:7.2f}: {ratio:5.2f} <= 2: {word}",
            flush=True,
        )


if __name__ == "__main__":
    main()
