"""`python -m odradek.testing`: brokers for a test suite in another language, with a control port.

Prints one line of JSON when they serve, and ends when its standard input ends, so it does not outlive the suite that started
it, or on SIGTERM and SIGINT.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading

from ..metadata.configs import InvalidConfig
from ..server.access.provisioning import NAMES
from .broker import Broker
from .cluster import MOST_BROKERS, Cluster
from .control_port import ControlPort
from .embedded import Embedded


def main() -> int:
    options = _options()
    config = dict(text.partition("=")[::2] for text in options.override)
    embedded: Embedded = (
        Broker(port=options.port, config=config, security=options.security)
        if options.brokers == 1
        else Cluster(options.brokers, config=config, security=options.security)
    )
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda got, frame: ended.set())
    try:
        embedded.start()
        control = ControlPort(embedded, options.control_port, options.snapshots)
    except (InvalidConfig, OSError) as error:
        embedded.stop()
        print(f"odradek.testing: {error}", file=sys.stderr)
        return 2
    printed: dict[str, object] = {"bootstrap_servers": embedded.bootstrap_servers, "control": control.url}
    if options.security is not None:
        printed |= {"client_properties": embedded.client_properties, "users": embedded.users}
    print(json.dumps(printed), flush=True)
    threading.Thread(target=_wait_for_the_end_of_input, args=(ended,), daemon=True).start()
    ended.wait()
    control.close()
    embedded.stop()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # at its exit Python gives handled signals their default action back
    return 0


def _wait_for_the_end_of_input(ended: threading.Event) -> None:
    while sys.stdin.buffer.read(4096):
        pass
    ended.set()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m odradek.testing", description="Brokers for a test suite, with a control port."
    )
    parser.add_argument(
        "--brokers",
        type=int,
        default=1,
        choices=range(1, MOST_BROKERS + 1),
        metavar="N",
        help="number of brokers (default: 1)",
    )
    parser.add_argument(
        "--port", type=int, default=0, metavar="P", help="port of a single broker (default: a free port)"
    )
    parser.add_argument(
        "--control-port", type=int, default=0, metavar="P", help="port for control requests (default: a free port)"
    )
    parser.add_argument(
        "--snapshots", metavar="FOLDER", help="folder below which snapshots are saved and restored (default: none are)"
    )
    parser.add_argument(
        "--override", action="append", default=[], metavar="KEY=VALUE", help="a property of every broker"
    )
    parser.add_argument(
        "--security",
        choices=tuple(NAMES),
        help="security of client connections; the printed line has the client properties",
    )
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
