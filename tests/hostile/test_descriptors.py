"""Floods of connections under small limits of descriptors: the broker serves on, rejects the excess, and recovers."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from odradek.protocol.messages.api_versions import ApiVersionsRequest

from compat_tests.broker_process import free_port
from compat_tests.wire import ConnectionClosed, WireClient
from tests.hostile.attack_target import AttackTarget
from tests.hostile.floods import (
    HALF_FRAME,
    REQUEST,
    Flood,
    awaiting,
    limited,
    limited_node,
    lines_with,
    open_descriptors,
)
from tests.hostile.requests import create, produce
from tests.server.harness.cluster_process import scraped

pytestmark = pytest.mark.usefixtures("processes")

_REJECTED = "refusing connections on PLAINTEXT"
_ROLLING_BYTES = 600_000


def is_served(address: str) -> bool:
    try:
        with WireClient(address, timeout=60) as client:
            return client.call(ApiVersionsRequest(), 0).error_code == 0
    except (ConnectionClosed, ConnectionError):
        return False


def works_on(client: WireClient, node: Any, topic: str) -> None:
    """Creates a topic and rolls segments of its log."""
    create(client, topic)
    for _ in range(4):
        produce(client, topic, bytes(_ROLLING_BYTES))
    assert len(list((node.data_dir / f"{topic}-0").glob("*.log"))) > 1


@pytest.mark.parametrize(
    ("limit", "count", "sent"),
    [(64, 200, b""), (256, 400, REQUEST), (1024, 1500, HALF_FRAME)],
    ids=["64-silent", "256-with-requests", "1024-half-frames"],
)
def test_flood_of_connections_leaves_a_good_client_logs_and_topics_at_work(
    tmp_path: Path, limit: int, count: int, sent: bytes
) -> None:
    room = limited(AttackTarget(tmp_path, log_segment_bytes="1048576"), limit)
    with room:
        (node,) = room.nodes
        with WireClient(room.bootstrap) as early:
            # The broker may close a connection that has sent nothing to make room for others.
            early.call(ApiVersionsRequest(), 0)

            def flood(room: AttackTarget) -> None:
                with Flood(room.targets, count, sent) as flood:
                    for _ in awaiting():
                        if flood.open_ones() < limit and lines_with(node.log_file, _REJECTED):
                            break
                    assert 0 < flood.open_ones() < limit
                    assert open_descriptors(node.pid) < limit
                    works_on(early, node, "made-in-a-flood")
                for _ in awaiting():
                    if is_served(room.bootstrap):
                        break

            outcome = room.run(flood)
            print(outcome)
            outcome.check()
        assert len(lines_with(node.log_file, _REJECTED)) == 1
        lines = node.log_file.read_text().splitlines()
        assert len([line for line in lines if "blocked the event loop" not in line]) < 10
        assert node.stop() == 0  # type: ignore[attr-defined]


def test_flood_on_every_port_of_a_cluster_costs_no_leader_and_no_replica(tmp_path: Path) -> None:
    room = limited(AttackTarget(tmp_path, nodes=3, controller_quorum_fetch_timeout_ms="15000"), 64)
    with room:
        cluster = room._cluster
        assert cluster is not None
        cluster.create_topic("replicated", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])

        def isr() -> dict[int, tuple[int, list[int]]]:
            return {
                index: (partition.leader_epoch, sorted(partition.isr_nodes))
                for index, partition in cluster.partitions("replicated").items()
            }

        before, controller = isr(), cluster.controller()

        def flood(room: AttackTarget) -> None:
            with WireClient(room.addresses[0]) as early, Flood(room.targets, 200, HALF_FRAME):
                create(early, "made-in-a-flood", partitions=6, replicas=3)
                produced = [WireClient.call(early, ApiVersionsRequest(), 0) for _ in range(100)]
                assert all(response.error_code == 0 for response in produced)
            for address in room.addresses:
                for _ in awaiting():
                    if is_served(address):
                        break

        outcome = room.run(flood)
        print(outcome)
        outcome.check()
        assert (isr(), cluster.controller()) == (before, controller)
        made = cluster.partitions("made-in-a-flood")
        cluster.until(
            lambda: all(len(cluster.partitions("made-in-a-flood")[index].isr_nodes) == 3 for index in made),
            "ISR is whole",
        )
        for node in room.nodes:
            assert not lines_with(node.log_file, r"\bfenced|sent no heartbeat")


def test_silent_connections_make_room_for_new_ones_while_the_flood_stays(tmp_path: Path) -> None:
    with limited_node(tmp_path, 64) as node, Flood([node.bootstrap], 200) as flood:
        with socket.create_connection((node.host, node.port), timeout=60) as rejected:
            assert rejected.recv(1) == b"", "a connection that is refused ends at once"
        for _ in awaiting():
            if is_served(node.bootstrap):
                break
        assert flood.open_ones() > 0


@pytest.mark.parametrize("limit", [24, 40])
def test_start_under_too_small_a_limit_fails_with_one_line(tmp_path: Path, limit: int) -> None:
    command = ["prlimit", f"--nofile={limit}", sys.executable, "-m", "odradek", "start", "--port", "0"]
    ended = subprocess.run(
        [*command, "--data-dir", str(tmp_path / "data")], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert f"may have {limit} open files" in line
    assert "ulimit" in line


def test_metrics_show_remaining_descriptors_and_a_flood_of_scrapers_takes_few(tmp_path: Path) -> None:
    port = free_port()
    with limited_node(tmp_path, 256, odradek_metrics_port=str(port)) as node:
        quiet = scraped(port)
        assert quiet["odradek_process_descriptors_limit"] == 256
        remaining = 'odradek_network_connections_remaining{listener="PLAINTEXT"}'
        rejected = 'odradek_network_connections_refused_total{listener="PLAINTEXT",reason="descriptors"}'
        assert quiet[remaining] > 50
        before = open_descriptors(node.pid)
        with Flood([f"127.0.0.1:{port}"], 300, b"GET /metrics HTTP/1.1\r\n"):
            for _ in awaiting():
                with contextlib.suppress(OSError):
                    assert scraped(port)["odradek_process_descriptors_limit"] == 256
                    break
            assert open_descriptors(node.pid) < before + 32
            assert is_served(node.bootstrap)
        with Flood([node.bootstrap], 400):
            for _ in awaiting():
                found = scraped(port)
                if found[remaining] == 0 and found.get(rejected, 0) > 50:
                    break
        for _ in awaiting():
            if scraped(port)[remaining] == quiet[remaining]:
                break


def test_burst_in_one_turn_is_refused_before_descriptors_run_out(tmp_path: Path) -> None:
    """The process is stopped while the connections arrive, so that all of them wait when it continues."""
    with limited_node(tmp_path, 48, 64) as node:
        limits = Path(f"/proc/{node.pid}/limits").read_text()
        assert re.search(r"Max open files\s+64\s+64", limits), "the soft limit is raised to the hard one"
        os.kill(node.pid, signal.SIGSTOP)
        with Flood([node.bootstrap], 300) as flood:
            os.kill(node.pid, signal.SIGCONT)
            for _ in awaiting():
                if flood.open_ones() < 64:
                    break
        assert not lines_with(node.log_file, "Too many open files")
        for _ in awaiting():
            if is_served(node.bootstrap):
                break
