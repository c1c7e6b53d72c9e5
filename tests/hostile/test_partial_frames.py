"""Memory of incomplete requests: little for an announced size, bounded for all together, and given back."""

from __future__ import annotations

import socket
import struct
import time
from pathlib import Path

import pytest

from compat_tests.odradek_process import OdradekProcess
from compat_tests.wire import WireClient, request_frame
from tests.hostile.attack_target import AttackTarget, rss_bytes
from tests.hostile.floods import Flood, awaiting, lines_with
from tests.hostile.requests import create, produce, produce_request

pytestmark = pytest.mark.usefixtures("processes")

MB = 1 << 20
_STOPPED = "its request is incomplete and stalled"
#: 4 MB of an announced 100 MB, so that the buffers of the broker add up.
_PART = struct.pack(">ihh", 100_000_000, 0, 9) + bytes(4 * MB)


def test_announced_frames_cost_little_memory(tmp_path: Path) -> None:
    with OdradekProcess(tmp_path / "node") as node:
        before = rss_bytes(node.pid)
        with Flood([node.bootstrap], 2000, struct.pack(">i", 100_000_000) + b"x" * 200):
            assert rss_bytes(node.pid) - before < 40 * MB


def test_partly_sent_requests_take_no_more_than_the_budget_and_large_ones_go_on(tmp_path: Path) -> None:
    """40 connections send 4 MB each of a request, against a budget of 100 MiB; a client sends requests of a megabyte."""
    room = AttackTarget(tmp_path, queued_max_request_bytes=str(100 * MB), message_max_bytes="2000000")
    with room:
        (node,) = room.nodes
        before = rss_bytes(node.pid)

        def attack(room: AttackTarget) -> None:
            sockets = [socket.create_connection(("127.0.0.1", node.port), timeout=0.2) for _ in range(40)]
            for made in sockets:
                sent = 0
                try:
                    while sent < len(_PART):
                        sent += made.send(_PART[sent : sent + 65536])
                except (TimeoutError, ConnectionError):
                    continue  # the broker reads no more of it
            with WireClient(room.bootstrap) as client:
                create(client, "large")
                waits = []
                for _ in range(20):
                    began = time.monotonic()
                    produce(client, "large", bytes(1_500_000))
                    waits.append(time.monotonic() - began)
            assert rss_bytes(node.pid) - before < 250 * MB
            print(f"large requests waited {max(waits) * 1000:.0f} ms at most")
            assert max(waits) < 5
            for _ in awaiting():
                if lines_with(node.log_file, _STOPPED):
                    break
            for made in sockets:
                made.close()

        room.run(attack, rss_deadline_s=2).check(rss_factor=2)


def test_two_large_requests_over_the_budget_are_both_served_in_turn(tmp_path: Path) -> None:
    """Each request has half of the budget and waits for more: one of them may go on."""
    properties = {
        "queued.max.request.bytes": "2097152",
        "socket.request.max.bytes": "2097152",
        "message.max.bytes": "2000000",
    }
    with (
        OdradekProcess(tmp_path / "node", properties) as node,
        WireClient(node.bootstrap) as first,
        WireClient(node.bootstrap) as second,
    ):
        create(first, "large")
        request = produce_request("large", bytes(1_900_000))
        frames = {client: request_frame(request, 9, 99, "c") for client in (first, second)}
        for part in (slice(None, 1_000_000), slice(1_000_000, None)):
            for client, frame in frames.items():
                client.send_bytes(frame[part])
        for client in frames:
            (response,) = client.receive(request, 9, 99).responses
            assert response.partition_responses[0].error_code == 0
