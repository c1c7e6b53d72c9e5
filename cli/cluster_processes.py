"""The processes of a cluster on one machine: one per node, begun together, watched and stopped by who began them."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

from .cluster_plan import Node, Plan, node_directory, properties_file

#: The process that watches the others, while it runs.
PID_FILE = "cluster.pid"
#: A node that has not said that it serves by then will not.
START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 60
_POLL_S = 0.05


class ClusterFailed(Exception):
    """A node ended before it served, or none could be made to; the text says what it logged last."""


class ClusterProcesses:
    def __init__(self, plan: Plan, directory: Path) -> None:
        self.plan = plan
        self.directory = directory
        self.processes: dict[Node, subprocess.Popen[bytes]] = {}

    def begin(self) -> None:
        """Starts every node; none waits for another, since a quorum serves when most of it is there."""
        for node in self.plan.nodes:
            command = [sys.executable, "-m", __package__.partition(".")[0]]
            command += ["start", str(properties_file(self.directory, node))]
            with (node_directory(self.directory, node) / "node.log").open("ab") as log:
                self.processes[node] = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True
                )
            pid = self.processes[node].pid
            _pid_file(self.directory, node).write_text(f"{pid}\n", encoding="utf-8")

    def await_serving(self, is_stopped: Callable[[], bool]) -> bool:
        """True when every node has printed its line; False when this is to stop before. Raises ClusterFailed."""
        deadline = time.monotonic() + START_TIMEOUT_S
        with selectors.DefaultSelector() as selector:
            for node, process in self.processes.items():
                assert process.stdout is not None
                selector.register(process.stdout, selectors.EVENT_READ, node)
            while selector.get_map() and not is_stopped():
                if time.monotonic() > deadline:
                    raise ClusterFailed(f"the nodes did not serve in {START_TIMEOUT_S} s")
                for key, _ in selector.select(_POLL_S):
                    self._read_line(key.data, key.fileobj)  # type: ignore[arg-type]
                    selector.unregister(key.fileobj)
        return not is_stopped()

    def _read_line(self, node: Node, output: IO[bytes]) -> None:
        if not output.readline():
            self.processes[node].wait()
            log = node_directory(self.directory, node) / "node.log"
            words = log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:]
            raise ClusterFailed("\n".join([f"node {node.id} ended before it served:", *words]))

    def wait(self, is_stopped: Callable[[], bool]) -> None:
        """Says on standard error which node ends by itself; returns when this is to stop, or none is left."""
        running = dict(self.processes)
        while running and not is_stopped():
            for node, process in list(running.items()):
                if process.poll() is not None:
                    del running[node]
                    print(f"odradek: node {node.id} has ended with {process.returncode}", file=sys.stderr, flush=True)
            time.sleep(_POLL_S)

    def stop(self) -> bool:
        """SIGTERM to all; whether each ended by itself. Those that do not in time are killed."""
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        deadline, in_order = time.monotonic() + STOP_TIMEOUT_S, True
        for node, process in self.processes.items():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                in_order = False
            _pid_file(self.directory, node).unlink(missing_ok=True)
        return in_order


def _pid_file(directory: Path, node: Node) -> Path:
    return node_directory(directory, node) / "node.pid"


# ---- found again by another process


def node_pid(directory: Path, node: Node) -> int | None:
    """The process of this node, when it runs."""
    pid = _read_pid(_pid_file(directory, node))
    return pid if pid is not None and _is(pid, str(properties_file(directory, node))) else None


def watcher_pid(directory: Path) -> int | None:
    """The process that began the cluster and waits for it, when it runs."""
    pid = _read_pid(directory / PID_FILE)
    return pid if pid is not None and _is(pid, "cluster") else None


def _read_pid(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _is(pid: int, argument: str) -> bool:
    """Whether the process lives and is what the file says: numbers of processes are used again."""
    try:
        os.kill(pid, 0)
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except ProcessLookupError:
        return False
    except OSError:  # another system, or another user's process
        return True
    return argument.encode() in words


def end(pids: Iterable[int]) -> bool:
    """SIGTERM to processes that are not our children; whether all ended in time."""
    left = set(pids)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while left and time.monotonic() < deadline:
        left = {pid for pid in left if _runs(pid)}
        time.sleep(_POLL_S)
    return not left


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except OSError:
        return True
