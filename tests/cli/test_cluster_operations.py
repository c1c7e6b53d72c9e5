"""A cluster of three that `odradek` alone restarts, kills, moves and stops, while clients continue."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from odradek.storage.files.lock_holder import lock_holder

from compat_tests.broker_process import free_ports
from compat_tests.recipes import eventually
from tests.cli.test_cluster import DEADLINE_S, asked, cluster, started
from tests.server.http_answers import answered

TOPIC = "orders"


class Clients:
    """A producer with acks=all and a consumer group, both from the beginning to the end of a test."""

    def __init__(self, bootstrap: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._producer = Producer({**settings, "enable.idempotence": True, "message.timeout.ms": DEADLINE_S * 1000})
        self._consumer = Consumer({**settings, "group.id": "billing", "auto.offset.reset": "earliest"})
        self._consumer.subscribe([TOPIC])
        self.acknowledged: set[int] = set()
        self.failed: list[str] = []
        self.read: list[int] = []
        self._is_over = threading.Event()
        self._is_written = threading.Event()
        self._writing, self._reading = threading.Thread(target=self._write), threading.Thread(target=self._consume)
        self._writing.start()
        self._reading.start()

    def _write(self) -> None:
        number = 0
        while not self._is_over.is_set():
            self._producer.produce(TOPIC, str(number).encode(), on_delivery=self._delivered)
            self._producer.poll(0.01)
            number += 1
        self._producer.flush(DEADLINE_S)

    def _delivered(self, error: object, message: object) -> None:
        if error is None:
            self.acknowledged.add(int(message.value()))  # type: ignore[attr-defined]
        else:
            self.failed.append(str(error))

    def _consume(self) -> None:
        while not self._is_written.is_set() or self._lacks_records():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.read.append(int(message.value()))
        self._consumer.close()

    def _lacks_records(self) -> bool:
        return len(set(self.read)) < self._last and time.monotonic() < self._deadline

    def go_on(self) -> None:
        """Waits until the group has read records that were acknowledged after the call."""
        last = max(self.acknowledged, default=-1)
        eventually(lambda: max(self.read, default=-1) > last + 5, what="clients go on", deadline_s=DEADLINE_S)

    def end(self) -> None:
        self._is_over.set()
        self._writing.join(DEADLINE_S)
        self._last = len(self.acknowledged)
        self._deadline = time.monotonic() + DEADLINE_S
        self._is_written.set()
        self._reading.join(2 * DEADLINE_S)


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


def row(directory: Path, node: int) -> list[str]:
    """Returns the line of a node in `odradek cluster status`."""
    lines = asked("status", directory).stdout.splitlines()
    return next(re.split(r"\s{2,}", line) for line in lines if line.startswith(f"{node} "))


def restarted(directory: Path, *more: str) -> str:
    done = subprocess.run(cluster("restart", directory, *more), capture_output=True, text=True, timeout=3 * DEADLINE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


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
