"""A cluster of three that `odradek` alone restarts, kills, moves and stops, while clients continue."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from odradek.storage.files.lock_holder import lock_holder

from compat_tests.broker_process import free_ports
from compat_tests.recipes import eventually
from tests.cli.harness.clusters import DEADLINE_S, asked, cluster, started
from tests.cli.harness.restarts import TOPIC, Clients, restarted, row
from tests.server.harness.http_responses import answered

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Yields the cluster's directory, and stops what runs in it at the end."""
    yield tmp_path / "cluster"
    asked("stop", tmp_path / "cluster")


def pid_of(directory: Path, node: int) -> int:
    return int(row(directory, node)[3])


def end(directory: Path, node: int, how: signal.Signals) -> None:
    """Ends a node, and waits until `odradek cluster status` shows it as down."""
    os.kill(pid_of(directory, node), how)
    eventually(lambda: row(directory, node)[4] == "down", what="status shows the node as down", deadline_s=DEADLINE_S)


def replace_data(directory: Path, clients: Clients) -> None:
    """Replaces the data of node 2 by an older copy of it, and then by an empty disk."""
    data, copy = directory / "node-2" / "data", directory.parent / "copy"
    end(directory, 2, signal.SIGTERM)
    shutil.copytree(data, copy)
    restarted(directory, "--node", "2")
    clients.go_on()
    end(directory, 2, signal.SIGKILL)
    shutil.rmtree(data)
    copy.rename(data)
    assert "has no data" not in restarted(directory, "--node", "2")
    clients.go_on()
    end(directory, 2, signal.SIGKILL)
    shutil.rmtree(data)
    assert "node 2 has no data: it fetches everything from the others" in restarted(directory, "--node", "2")
    assert row(directory, 2)[4] == "serving" and row(directory, 2)[6] == row(directory, 2)[7]
    clients.go_on()


def move_data(directory: Path, clients: Clients) -> None:
    """Moves the data of node 3 and starts it manually with a relative path. `odradek cluster` starts it there again."""
    end(directory, 3, signal.SIGTERM)
    moved = directory.parent / "moved"
    (directory / "node-3" / "data").rename(moved)
    command = [sys.executable, "-m", "odradek", "start", "server.properties", "--data-dir", str(moved)]
    by_hand = subprocess.Popen(command, cwd=directory / "node-3", stdout=subprocess.PIPE, text=True)
    assert by_hand.stdout is not None and "serving" in by_hand.stdout.readline()
    shown = [str(by_hand.pid), "serving"]
    eventually(lambda: row(directory, 3)[3:5] == shown, what="status shows the node", deadline_s=DEADLINE_S)
    clients.go_on()

    by_hand.kill()
    by_hand.communicate()
    assert "stopping" not in restarted(directory, "--node", "3")
    assert lock_holder(moved / ".lock") == pid_of(directory, 3)
    assert not (directory / "node-3" / "data").exists()
    clients.go_on()


@pytest.mark.timeout(900)
def test_cluster_is_restarted_killed_moved_and_stopped_and_clients_lose_nothing(directory: Path) -> None:
    first = free_ports(3)
    _, addresses = started(directory, "--port", "0", "--override", f"odradek.metrics.port={first}")
    ready = [answered(first + index, "/health/ready")[0] for index in range(3)]
    assert ready == [200, 200, 200]
    admin = AdminClient({"bootstrap.servers": addresses[0]})
    admin.create_topics([NewTopic(TOPIC, 3)])[TOPIC].result(DEADLINE_S)
    clients = Clients(",".join(addresses))
    try:
        clients.go_on()
        # A rolling upgrade: the same commands with a newer package.
        said = restarted(directory).splitlines()
        words = [line.partition(" (process ")[0] for line in said]
        stopped_and_started = [(f"odradek: stopping node {n}", f"odradek: node {n} serves") for n in (1, 2, 3)]
        assert words == [line for pair in stopped_and_started for line in pair]
        clients.go_on()

        end(directory, 2, signal.SIGKILL)
        clients.go_on()
        assert "stopping" not in restarted(directory, "--node", "2")
        eventually(lambda: row(directory, 2)[4] == "serving", what="status shows it", deadline_s=DEADLINE_S)
        clients.go_on()

        replace_data(directory, clients)
        move_data(directory, clients)
    finally:
        clients.end()
    assert clients.failed == []
    assert clients.acknowledged and clients.acknowledged <= set(clients.read)

    stopping = subprocess.Popen(cluster("stop", directory), stdout=subprocess.PIPE, text=True)
    assert stopping.stdout is not None
    line = stopping.stdout.readline()
    assert re.match(r"odradek: stopping node 1 \(process \d+\), 2 \(process \d+\), 3 \(process \d+\)$", line), line
    stopping.kill()
    stopping.communicate()
    again = asked("stop", directory)
    assert again.returncode == 0 or "does not run" in again.stderr, again.stderr
    assert {row(directory, node)[4] for node in (1, 2, 3)} == {"down"}


def test_start_that_is_killed_anywhere_is_completed_by_the_next(directory: Path) -> None:
    for sign in ("cluster.json", "node-1/data/meta.properties", "node-1/node.pid"):
        process = subprocess.Popen(cluster("start", directory, "--brokers", "1", "--port", "0"), stdout=subprocess.PIPE)
        eventually((directory / sign).exists, what=f"{sign} is there", deadline_s=DEADLINE_S)
        process.kill()
        process.communicate()
        assert asked("stop", directory).stderr in ("", f"odradek: the cluster in {directory} does not run\n")
    process, addresses = started(directory)
    assert AdminClient({"bootstrap.servers": addresses[0]}).list_topics(timeout=DEADLINE_S).brokers
    process.terminate()
    assert process.wait(DEADLINE_S) == 0


def test_stop_and_start_find_a_node_where_it_ran_last(directory: Path) -> None:
    started(directory, "--brokers", "1", "--port", "0")
    assert asked("stop", directory).returncode == 0
    moved = directory.parent / "moved"
    shutil.copytree(directory / "node-1" / "data", moved)
    command = [sys.executable, "-m", "odradek", "start", "node-1/server.properties", "--data-dir", str(moved)]
    by_hand = subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, text=True)
    assert by_hand.stdout is not None
    found = re.search(r"serving on (\S+) ", by_hand.stdout.readline())
    assert found is not None
    admin = AdminClient({"bootstrap.servers": found[1]})
    admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(DEADLINE_S)
    assert asked("stop", directory).returncode == 0
    assert by_hand.wait(DEADLINE_S) == 0
    _, addresses = started(directory)
    assert TOPIC in AdminClient({"bootstrap.servers": addresses[0]}).list_topics(timeout=DEADLINE_S).topics
    assert (moved / f"{TOPIC}-0").exists() and not (directory / "node-1" / "data" / f"{TOPIC}-0").exists()
    assert f"log.dirs={moved}\n" in (directory / "node-1" / "server.properties").read_text(encoding="utf-8")
