"""Measures the console of a large cluster: `python -m benchmarks.console`, for 10,000 topics and 200 brokers.

One node holds the topics. The other brokers are only registered with the controller, under an address of that node, so that
they are in the metadata. Prints the time and the size of pages, and the memory of the console before and after.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from odradek.cli.client.connection import Connection
from odradek.cli.topics import create_topics
from odradek.protocol.messages.nodes import BrokerHeartbeatRequest, BrokerRegistrationRequest, Feature, Listener

from compat_tests.broker_process import free_port
from compat_tests.console.process import ConsoleProcess, Visitor
from compat_tests.odradek_process import OdradekProcess
from compat_tests.wire import WireClient

PAGES = ("/", "/topics", "/topics?page=100", "/topics?q=0999", "/brokers", "/groups", "/topics/topic-00007", "/quorum")
ROUNDS = 7
_DEADLINE_S = 900
_FIRST_BROKER = 1000
_SESSION_MS = 3_600_000


def register(controller: str, cluster_id: str, brokers: int, port: int, features: dict[str, tuple[int, int]]) -> None:
    """Registers and unfences brokers that exist only in the metadata."""
    supported = [
        Feature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in features.items()
    ]
    wire = WireClient(controller)
    for number in range(_FIRST_BROKER, _FIRST_BROKER + brokers):
        listener = Listener(name="PLAINTEXT", host="127.0.0.1", port=port, security_protocol=0)
        request = BrokerRegistrationRequest(
            broker_id=number,
            cluster_id=cluster_id,
            incarnation_id=number.to_bytes(16, "big"),
            listeners=[listener],
            features=supported,
            log_dirs=[(number << 64).to_bytes(16, "big")],
        )
        response = wire.call(request, 4)
        assert not response.error_code, response
        beat = BrokerHeartbeatRequest(
            broker_id=number, broker_epoch=response.broker_epoch, current_metadata_offset=1 << 40, want_fence=False
        )
        assert not (found := wire.call(beat, 1)).error_code, found


def started(directory: Path) -> tuple[OdradekProcess, str]:
    port, controller = free_port(), free_port()
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "broker.session.timeout.ms": str(_SESSION_MS),
        "auto.leader.rebalance.enable": "false",
    }
    node = OdradekProcess(directory, properties, start_deadline_s=120)
    node.start()
    return node, f"127.0.0.1:{controller}"


def measured(console: ConsoleProcess, topics: int, brokers: int) -> None:
    visitor = Visitor(console.address)
    deadline = time.monotonic() + _DEADLINE_S
    while f"{brokers + 1} running" not in (page := visitor.get("/")):
        assert time.monotonic() < deadline, page
        time.sleep(0.5)
    print(f"{'page':30} {'median ms':>10} {'worst ms':>10} {'bytes':>8}")
    for path in PAGES:
        times = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            text = visitor.get(path)
            times.append((time.perf_counter() - began) * 1000)
            assert visitor.status == 200, text
        print(f"{path:30} {statistics.median(times):10.0f} {max(times):10.0f} {len(text):8}")
    print(f"memory with {topics} topics, {brokers + 1} brokers: {console.resident_bytes() / 1e6:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--brokers", type=int, default=199, help="besides the one that runs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        node, controller = started(Path(folder) / "node")
        try:
            connection = Connection({"bootstrap.servers": node.bootstrap}, 300)
            with connection.admin() as admin:
                names = [f"topic-{number:05}" for number in range(options.topics)]
                create_topics(
                    admin, names, {"num_partitions": 1, "replication_factor": 1}, if_not_exists=True, dry_run=False
                )
                cluster_id = admin.describe_cluster()["cluster_id"]
                features = {
                    name: tuple(one["supported"])
                    for name, one in admin.describe_features().items()
                    if one.get("supported")
                }
            register(controller, cluster_id, options.brokers, node.port, features)
            console = ConsoleProcess(node.bootstrap, Path(folder))
            try:
                measured(console, options.topics, options.brokers)
            finally:
                console.stop()
        finally:
            node.kill()


if __name__ == "__main__":
    main()
