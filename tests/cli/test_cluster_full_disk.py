"""A cluster of three with a full disk on one node: `odradek` shows it and restarts the node; clients continue."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.recipes import eventually
from tests.cli.test_cluster import DEADLINE_S, asked, started
from tests.cli.test_cluster_operations import TOPIC, Clients, restarted, row
from tests.hostile.full_disk import fill, make_room, small_disk

if os.geteuid() != 0:  # pragma: no cover - a file system is mounted
    pytest.skip("mounting takes root", allow_module_level=True)

_DISK_BYTES = 32 << 20
_NEARLY_FULL_BYTES = 1 << 20


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Yields the cluster's directory, in which node 2 has its data on a small disk of its own."""
    made = tmp_path / "cluster"
    (made / "node-2").mkdir(parents=True)
    with small_disk(made / "node-2" / "data", _DISK_BYTES):
        yield made
        asked("stop", made)


def findings(bootstrap: str) -> list[dict[str, str]]:
    command = [sys.executable, "-m", "odradek", "doctor", "--output", "jsonl", "-b", bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    assert "Traceback" not in done.stderr, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def out_of_sync(bootstrap: str) -> set[str]:
    """Returns the findings about the topic's partitions."""
    return {one["finding"] for one in findings(bootstrap) if one["subject"].startswith(f"{TOPIC}-")}


def test_node_with_a_full_disk_halts_and_returns_when_there_is_room(directory: Path) -> None:
    _, addresses = started(directory, "--port", "0", "--override", "offsets.topic.num.partitions=3")
    bootstrap, disk = ",".join(addresses), directory / "node-2" / "data"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 3)])[TOPIC].result(DEADLINE_S)
    clients = Clients(bootstrap)
    try:
        clients.go_on()
        fill(disk, leave=_NEARLY_FULL_BYTES)
        full = [one for one in findings(bootstrap) if one["check"] == "disk" and "broker 2:" in one["subject"]]
        assert full and full[0]["severity"] == "error" and "retention.ms" in full[0]["advice"], full
        with contextlib.suppress(OSError):  # the node writes too, so the disk may be full earlier
            fill(disk, leave=0)
        eventually(lambda: row(directory, 2)[4] == "down", what="the node has halted", deadline_s=DEADLINE_S)
        assert "make room" in (directory / "node-2" / "node.log").read_text(encoding="utf-8")
        clients.go_on()
        eventually(
            lambda: out_of_sync(bootstrap) == {"brokers 2 are out of sync"},
            what="the doctor names the node",
            deadline_s=DEADLINE_S,
        )
        make_room(disk)
        assert "node 2 serves" in restarted(directory, "--node", "2")
        assert row(directory, 2)[4] == "serving" and row(directory, 2)[6] == row(directory, 2)[7]
        clients.go_on()
    finally:
        clients.end()
    assert clients.failed == []
    assert clients.acknowledged and clients.acknowledged <= set(clients.read)
