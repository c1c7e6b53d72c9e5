"""The processes of a cluster on one machine: one per node, started together, watched, restarted one by one, and stopped.

- `ClusterProcesses`: starts and watches the nodes for `odradek cluster start`.
- `restart`: `odradek cluster restart`. The next node is stopped when every node serves, the quorum has a leader, and no
  partition lacks a replica in sync. Clients that write with acks=all and read lose nothing, and a new version is in place
  when the last node is back. Nodes that are down are started. A node without data (a new disk) is formatted when the others
  are whole: they have all records, and a majority of the quorum.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

from ..storage.files.directory_lock import lock_holder
from .cluster_plan import Node, Plan, format_node, log_dirs, name_log_dirs, node_directory, properties_file
from .data_locations import META_PROPERTIES
from .options import warn

#: Locked by a broker in each of its data directories (storage/directory.py).
LOCK_FILE = ".lock"
#: Locked by the process that watches the others, for as long as it runs.
PID_FILE = "cluster.pid"
#: A node that has not said that it serves by then will not.
START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 60
_POLL_S = 0.05
#: How often nodes that were started by hand are looked for.
_SEARCH_S = 0.5
#: Limit of the end of a log: the last lines that a node wrote.
_LOG_TAIL_BYTES = 16 << 10


class ClusterFailed(Exception):
    """A node ended before it served, or did not serve in time; the text has the reason and the path of the node's log."""


class ClusterProcesses:
    def __init__(self, plan: Plan, directory: Path) -> None:
        self.plan = plan
        self.directory = directory
        self.processes: dict[Node, subprocess.Popen[bytes]] = {}
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
                for key, _ in selector.select(_POLL_S):
                    self._read_line(key.data, key.fileobj)  # type: ignore[arg-type]
                    selector.unregister(key.fileobj)
        if not is_stopped():
            self._await_mutual_metadata(is_stopped)
        return not is_stopped()

    def _await_mutual_metadata(self, is_stopped: Callable[[], bool]) -> None:
        """A client that connects to any node finds all: the last node to register is unknown to some for a moment."""
        from .cluster_queries import await_mutual_metadata

        def running() -> set[int]:
            if is_stopped():
                return set()
            return {node.id for node, process in self.processes.items() if process.poll() is None}

        left = max(0.0, self._deadline - time.monotonic())
        if lacking := await_mutual_metadata(self.plan, self.directory, running, left):
            names = ", ".join(map(str, sorted(lacking)))
            raise ClusterFailed(f"the metadata of node {names} did not list every broker in {START_TIMEOUT_S} s")

    def _read_line(self, node: Node, output: IO[bytes]) -> None:
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
            time.sleep(_POLL_S)
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
            _pid_file(self.directory, node).unlink(missing_ok=True)
        return in_order


def started_node(directory: Path, node: Node) -> subprocess.Popen[bytes]:
    """Starts a node in a session of its own; its log is appended to `node.log`."""
    command = [sys.executable, "-m", __package__.partition(".")[0], "start", str(properties_file(directory, node))]
    with (node_directory(directory, node) / "node.log").open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True
        )
    _pid_file(directory, node).write_text(f"{process.pid}\n", encoding="utf-8")
    return process


def first_line(process: subprocess.Popen[bytes], timeout_s: float) -> bytes | None:
    """The first line that a node prints, empty when it has ended; None when that takes too long."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        return process.stdout.readline() if selector.select(timeout_s) else None


def last_words(directory: Path, node: Node) -> str:
    """The last line of a node's log that explains an end; its last line when none does."""
    log = node_directory(directory, node) / "node.log"
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LOG_TAIL_BYTES))
        lines = file.read().decode("utf-8", errors="replace").split("\n")
    written = [line for line in lines if line.strip()] or ["it logged nothing"]
    explained = [line.removeprefix("odradek: ") for line in written if line.startswith("odradek: ")]
    return f"{(explained or written)[-1]} (more in {log})"


def _pid_file(directory: Path, node: Node) -> Path:
    return node_directory(directory, node) / "node.pid"


# ---- found again by another process


@contextlib.contextmanager
def watching(directory: Path) -> Iterator[None]:
    """Makes this process the one that watches the cluster, until the context ends. Raises ClusterFailed when another is."""
    path = directory / PID_FILE
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            os.close(fd)
            raise ClusterFailed(
                f"the cluster in {directory} runs already; stop it with `odradek cluster stop`"
            ) from None
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(fd)):
                break
        os.close(fd)  # the one before has just ended, and removed its file
    try:
        os.truncate(fd, 0)
        os.write(fd, f"{os.getpid()}\n".encode())
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(fd)


def watcher_pid(directory: Path) -> int | None:
    """The process that began the cluster and waits for it, when it runs."""
    return lock_holder(directory / PID_FILE)


def node_pids(plan: Plan, directory: Path) -> dict[int, int]:
    """The processes of the running nodes, by node id, including nodes started by another command."""
    found = {node.id: _node_pid(directory, node) for node in plan.nodes}
    return {node_id: pid for node_id, pid in found.items() if pid is not None}


def _node_pid(directory: Path, node: Node) -> int | None:
    """The process that has the node's data in use, or that is about to: it was begun here a moment ago."""
    data = log_dirs(directory, node).split(",")[0]
    return (
        lock_holder(Path(data) / LOCK_FILE) or _begun(directory, node) or _with_file(properties_file(directory, node))
    )


def _begun(directory: Path, node: Node) -> int | None:
    """Numbers of processes are used again, so it must be one that was given this node's file."""
    try:
        pid = int(_pid_file(directory, node).read_text(encoding="ascii"))
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError, OverflowError):
        return None
    return pid if os.fsencode(properties_file(directory, node)) in words and _runs(pid) else None


def _with_file(file: Path) -> int | None:
    """The process of `odradek start` with this file, wherever its data is: `--data-dir` may name another directory."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"start" in words and any(
                _is_same(entry, word, file) for word in words if word.endswith(b".properties")
            ):
                return int(entry.name) if _runs(int(entry.name)) else None
        except OSError:
            continue
    return None


def _is_same(process: Path, word: bytes, file: Path) -> bool:
    """Whether a word of a command line names the file, seen from the folder of that process."""
    return ((process / "cwd").readlink() / os.fsdecode(word)).resolve() == file.resolve()


def end(pids: Iterable[int]) -> bool:
    """SIGTERM to processes that are not our children; whether all ended in time. Raises ClusterFailed for one of another
    user, after it signalled the others.
    """
    left = set(pids)
    foreign = []
    for pid in left:
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            continue
        except PermissionError:
            foreign.append(str(pid))
    if foreign:
        raise ClusterFailed(f"process {', '.join(foreign)} belongs to another user, who can stop it")
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while (left := {pid for pid in left if _runs(pid)}) and time.monotonic() < deadline:
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


# ---- restart

#: A node that was down for long has much to fetch.
WHOLE_TIMEOUT_S = 600
_WHOLE_POLL_S = 0.2

Say = Callable[[str], None]


def restart(plan: Plan, directory: Path, nodes: list[Node], say: Say) -> None:
    """Restarts the nodes in this order. Raises ClusterFailed; the remaining nodes keep running."""
    for node in nodes:
        pid = node_pids(plan, directory).get(node.id)
        if pid is not None:
            _await_whole(plan, directory, f"node {node.id} is not stopped")
            say(f"stopping node {node.id} (process {pid})")
            if not end({pid}):
                raise ClusterFailed(f"node {node.id} (process {pid}) has not stopped in time")
        name_log_dirs(directory, node)
        if pid is None and not _is_formatted(directory, node):
            # Without its log and its vote, a node may not be one of those that form a majority.
            _await_whole(plan, directory, f"node {node.id} has no data and is not started")
            say(f"node {node.id} has no data: it fetches everything from the others")
            format_node(plan, directory, node)
        process = started_node(directory, node)
        _await_line(process, directory, node)
        say(f"node {node.id} serves (process {process.pid})")
    _await_whole(plan, directory, "all nodes are started")


def _is_formatted(directory: Path, node: Node) -> bool:
    return any((Path(one) / META_PROPERTIES).exists() for one in log_dirs(directory, node).split(","))


def _await_line(process: subprocess.Popen[bytes], directory: Path, node: Node) -> None:
    line = first_line(process, START_TIMEOUT_S)
    if line is None:
        raise ClusterFailed(f"node {node.id} did not serve in {START_TIMEOUT_S} s")
    if not line:
        raise ClusterFailed(f"node {node.id} ended before it served: {last_words(directory, node)}")


def _await_whole(plan: Plan, directory: Path, words: str) -> None:
    deadline = time.monotonic() + WHOLE_TIMEOUT_S
    while lacks := _lacks(plan, directory):
        if time.monotonic() > deadline:
            raise ClusterFailed(f"{words}, and after {WHOLE_TIMEOUT_S} s {lacks}; see `odradek cluster status`")
        time.sleep(_WHOLE_POLL_S)


def _lacks(plan: Plan, directory: Path) -> str:
    """Returns why no further node may stop; "" when one may."""
    from .cluster_queries import responses_of

    pids = node_pids(plan, directory)
    responses = responses_of(plan, directory, pids)
    if responses is None or responses.quorum is None:
        return "the quorum has no leader"
    fenced = pids.keys() - {broker.node_id for broker in responses.metadata.brokers}
    if fenced:
        return f"node {', '.join(map(str, sorted(fenced)))} does not serve"
    partitions = [partition for topic in responses.metadata.topics for partition in topic.partitions]
    under = sum(len(partition.isr_nodes) < len(partition.replica_nodes) for partition in partitions)
    down = {node.id for node in plan.nodes} - pids.keys()
    if under and not down:
        return f"{under} partitions are under-replicated"
    missing = [one for one in partitions if set(one.replica_nodes) - set(one.isr_nodes) - down]
    return f"{len(missing)} partitions are under-replicated" if missing else ""
