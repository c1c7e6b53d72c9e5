"""The processes of a cluster on one machine, one per node: `odradek cluster start` starts and watches them."""

from __future__ import annotations

import contextlib
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from ..messages import warn
from .node_files import node_directory, properties_file
from .node_processes import POLL_S, STOP_TIMEOUT_S, ClusterFailed, end, node_pids, pid_file
from .plan import Plan, PlannedNode

#: A node that has not said that it serves by then will not.
START_TIMEOUT_S = 120

#: How often nodes that were started by hand are looked for.
_SEARCH_S = 0.5
#: Limit of the end of a log: the last lines that a node wrote.
_LOG_TAIL_BYTES = 16 << 10


class ClusterProcesses:
    def __init__(self, plan: Plan, directory: Path) -> None:
        self.plan = plan
        self.directory = directory
        self.processes: dict[PlannedNode, subprocess.Popen[bytes]] = {}
        self._deadline = 0.0

    def begin(self) -> None:
        """Starts every node; none waits for another, since a quorum serves when most of it is there."""
        self._deadline = time.monotonic() + START_TIMEOUT_S
        for node in self.plan.nodes:
            self.processes[node] = started_node(self.directory, node)

    def await_serving(self, is_stopped: Callable[[], bool]) -> bool:
        """True when every node has printed its line and its metadata lists all others; False when this is to stop before.
        Raises ClusterFailed, InvalidConfig, OSError.
        """
        with selectors.DefaultSelector() as selector:
            for node, process in self.processes.items():
                assert process.stdout is not None
                selector.register(process.stdout, selectors.EVENT_READ, node)
            while selector.get_map() and not is_stopped():
                if time.monotonic() > self._deadline:
                    raise ClusterFailed(f"the nodes did not serve in {START_TIMEOUT_S} s")
                for key, _ in selector.select(POLL_S):
                    self._read_line(key.data, key.fileobj)  # type: ignore[arg-type]
                    selector.unregister(key.fileobj)
        if not is_stopped():
            self._await_mutual_metadata(is_stopped)
        return not is_stopped()

    def _await_mutual_metadata(self, is_stopped: Callable[[], bool]) -> None:
        """A client that connects to any node finds all: the last node to register is unknown to some for a moment."""
        from ..cluster_queries import await_mutual_metadata

        def running() -> set[int]:
            if is_stopped():
                return set()
            return {node.id for node, process in self.processes.items() if process.poll() is None}

        left = max(0.0, self._deadline - time.monotonic())
        if lacking := await_mutual_metadata(self.plan, self.directory, running, left):
            names = ", ".join(map(str, sorted(lacking)))
            raise ClusterFailed(f"the metadata of node {names} did not list every broker in {START_TIMEOUT_S} s")

    def _read_line(self, node: PlannedNode, output: IO[bytes]) -> None:
        if not output.readline():
            self.processes[node].wait()
            raise ClusterFailed(f"node {node.id} ended before it served: {last_words(self.directory, node)}")

    def wait(self, is_stopped: Callable[[], bool]) -> None:
        """Reports on standard error each node that ends by itself. Returns when `is_stopped`, or when no node is left,
        including nodes started by another command.
        """
        running = dict(self.processes)
        while running and not is_stopped():
            for node, process in list(running.items()):
                if process.poll() is not None:
                    del running[node]
                    warn(f"node {node.id} has ended with {process.returncode}")
            time.sleep(POLL_S)
        while not is_stopped() and node_pids(self.plan, self.directory):
            time.sleep(_SEARCH_S)

    def stop(self) -> bool:
        """SIGTERM to all, also to nodes that were started by hand since; whether each ended by itself. Children that do
        not in time are killed.
        """
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        own = {process.pid for process in self.processes.values()}
        deadline = time.monotonic() + STOP_TIMEOUT_S
        in_order = end(pid for pid in node_pids(self.plan, self.directory).values() if pid not in own)
        for node, process in self.processes.items():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                in_order = False
            pid_file(self.directory, node).unlink(missing_ok=True)
        return in_order


def started_node(directory: Path, node: PlannedNode) -> subprocess.Popen[bytes]:
    """Starts a node in a session of its own; its log is appended to `node.log`."""
    command = [sys.executable, "-m", __package__.partition(".")[0], "start", str(properties_file(directory, node))]
    with (node_directory(directory, node) / "node.log").open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True
        )
    pid_file(directory, node).write_text(f"{process.pid}\n", encoding="utf-8")
    return process


def first_line(process: subprocess.Popen[bytes], timeout_s: float) -> bytes | None:
    """The first line that a node prints, empty when it has ended; None when that takes too long."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        return process.stdout.readline() if selector.select(timeout_s) else None


def last_words(directory: Path, node: PlannedNode) -> str:
    """The last line of a node's log that explains an end; its last line when none does."""
    log = node_directory(directory, node) / "node.log"
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LOG_TAIL_BYTES))
        lines = file.read().decode("utf-8", errors="replace").split("\n")
    written = [line for line in lines if line.strip()] or ["it logged nothing"]
    explained = [line.removeprefix("odradek: ") for line in written if line.startswith("odradek: ")]
    return f"{(explained or written)[-1]} (more in {log})"
