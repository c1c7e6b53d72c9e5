"""Clusters with running, dead and manually started nodes: status, stop and start find them all."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from odradek.cli.local_cluster.node_files import node_directory, properties_file
from odradek.cli.local_cluster.plan import Plan, PlannedNode, write_plan
from odradek.cli.main import main
from odradek.storage.files.lock_holder import lock_holder

from tests.cli.harness.clusters import DEADLINE_S, asked, cluster, started
from tests.cli.harness.started import SERVING

pytestmark = pytest.mark.usefixtures("processes")

NODES = [PlannedNode(number, 0) for number in (1, 2, 3)]


def holder(directory: Path, node: PlannedNode) -> int | None:
    return lock_holder(node_directory(directory, node) / "data" / ".lock")


def pid_of(directory: Path, node: PlannedNode) -> int:
    pid = holder(directory, node)
    assert pid is not None
    return pid


def killed(directory: Path, *nodes: PlannedNode) -> None:
    for node in nodes:
        os.kill(pid_of(directory, node), signal.SIGKILL)
    deadline = time.monotonic() + DEADLINE_S
    while any(holder(directory, node) for node in nodes):
        assert time.monotonic() < deadline


def by_hand(directory: Path, node: PlannedNode) -> subprocess.Popen[str]:
    """Starts a dead node again, as docs/failover.md describes."""
    command = [sys.executable, "-m", "odradek", "start", str(properties_file(directory, node))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def is_serving(process: subprocess.Popen[str]) -> bool:
    assert process.stdout is not None
    return SERVING.match(process.stdout.readline().rstrip("\n")) is not None


def states(directory: Path) -> tuple[dict[str, tuple[str, str]], str]:
    """Returns the process id and the state of each node, and the output. Runs in this process, as tests call it often."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(["cluster", "status", "--data-dir", str(directory)])
    assert (status, err.getvalue()) == (0, ""), out.getvalue()
    rows = [re.split(r"\s{2,}", line) for line in out.getvalue().splitlines()[1:4]]
    return {row[0]: (row[3], row[4]) for row in rows if len(row) > 4}, out.getvalue()


def test_manually_started_node_is_shown_and_stopped_and_does_not_block_a_start(directory: Path) -> None:
    watcher, _ = started(directory, "--brokers", "3", "--port", "0")
    killed(directory, NODES[1], NODES[2])
    found, shown = states(directory)
    assert {state for _, state in (found["2"], found["3"])} == {"down"}
    assert "no quorum: 1 of 3 controllers run, and 2 are needed" in shown
    hand = by_hand(directory, NODES[1])
    assert is_serving(hand)
    deadline = time.monotonic() + DEADLINE_S
    while (found := states(directory)[0])["2"] != (str(hand.pid), "serving"):
        assert time.monotonic() < deadline, found
    assert found["3"] == ("-", "down")
    # The process that started the cluster is gone too: only the locks show which nodes run.
    watcher.kill()
    watcher.wait()
    again = subprocess.run(cluster("start", directory), capture_output=True, text=True, timeout=DEADLINE_S)
    assert again.returncode == 1 and "runs already: node" in again.stderr and f"2 (process {hand.pid})" in again.stderr
    assert again.stderr.count("\n") == 1
    assert asked("stop", directory).returncode == 0
    assert hand.wait(DEADLINE_S) == 0
    assert not any(holder(directory, node) for node in NODES)
    watcher, _ = started(directory)
    assert {state for _, state in states(directory)[0].values()} <= {"serving", "fenced"}
    assert asked("stop", directory).returncode == 0
    assert watcher.wait(DEADLINE_S) == 0


def test_ctrl_c_stops_a_manually_started_node(directory: Path) -> None:
    watcher, _ = started(directory, "--brokers", "2", "--port", "0")
    killed(directory, NODES[1])
    hand = by_hand(directory, NODES[1])
    assert is_serving(hand)
    watcher.send_signal(signal.SIGINT)
    watcher.send_signal(signal.SIGINT)
    assert hand.wait(DEADLINE_S) == 0
    assert watcher.wait(DEADLINE_S) == 0


def test_ctrl_c_during_the_start_leaves_nothing_behind(directory: Path) -> None:
    for _ in range(2):
        command = cluster("start", directory, "--brokers", "1", "--port", "0")
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + DEADLINE_S
        while not (directory / "node-1" / "node.pid").exists():
            assert time.monotonic() < deadline
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=DEADLINE_S)
        assert (process.returncode, err) == (0, "")
        assert states(directory)[0]["1"] == ("-", "down")
    assert not (directory / "cluster.pid").exists()


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """Yields a process with the process id of an ended node."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def test_number_of_a_former_process_that_another_has_now_is_not_taken_for_a_node(
    tmp_path: Path, stranger: subprocess.Popen[bytes]
) -> None:
    write_plan(tmp_path, Plan("MkU3OEVBNTcwNTJENDM2Qg", tuple(NODES)))
    (tmp_path / "cluster.pid").write_text(f"{stranger.pid}\n")
    for node, text in zip(NODES, (f"{stranger.pid}\n", "rubbish", f"{2**70}")):
        (node_directory(tmp_path, node) / "data").mkdir(parents=True)
        (node_directory(tmp_path, node) / "data" / ".lock").write_text(text)
        (node_directory(tmp_path, node) / "node.pid").write_text(text)
    found, shown = states(tmp_path)
    assert set(found.values()) == {("-", "down")} and "no node runs" in shown
    stopped = asked("stop", tmp_path)
    assert stopped.returncode == 1 and "does not run" in stopped.stderr
    assert stranger.poll() is None
