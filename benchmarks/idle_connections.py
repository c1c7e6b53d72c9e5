"""Measures the cost of idle connections: `python -m benchmarks.idle_connections [--connections 5000]`.

Opens connections to its own broker, sends ApiVersions once on each so that it is in use, and reads the broker's resident
memory. The comparison has this as a row.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from contextlib import ExitStack
from pathlib import Path

from odradek.protocol.messages.api_versions import ApiVersionsRequest

from compat_tests.broker_process import BrokerProcess
from compat_tests.odradek_process import OdradekProcess
from compat_tests.wire import WireClient

from .brokers import memory_mb

CONNECTIONS = 5000
MOST_MB = 100
#: Descriptors beside the connections: logs, libraries, pipes.
SPARE_DESCRIPTORS = 500


def memory_with(broker: BrokerProcess, count: int) -> float:
    """Returns the broker's resident memory in MB with `count` connections. Brokers inherit our limit of descriptors: call
    `allow` before they start."""
    with ExitStack() as held:
        for _ in range(count):
            client = held.enter_context(WireClient(broker.bootstrap))
            assert client.call(ApiVersionsRequest(), 0).error_code == 0
        return memory_mb(broker.pid)


def allow(count: int) -> None:
    """Raises the limit of descriptors for this process and its children."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + SPARE_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, wanted), hard))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    count = parser.parse_args().connections
    allow(count)
    with tempfile.TemporaryDirectory(prefix="idle-") as folder, OdradekProcess(Path(folder)) as broker:
        before = memory_mb(broker.pid)
        after = memory_with(broker, count)
    each_kb = (after - before) * 1000 / count
    print(f"{before:.1f} MB idle, {after:.1f} MB with {count} connections: {each_kb:.1f} kB each")
    return 0 if after <= MOST_MB else 1


if __name__ == "__main__":
    raise SystemExit(main())
