"""Processes of a cluster's nodes, which this command or another has started: found by their locks, and ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from ...storage.files.directory_lock import LOCK_FILE
from ...storage.files.lock_holder import lock_holder
from .node_files import log_dirs, node_directory, properties_file
from .plan import Plan, PlannedNode

#: Locked by a broker in each of its data directories (storage/files/directory_lock.py).

STOP_TIMEOUT_S = 60
POLL_S = 0.05


class ClusterFailed(Exception):
    """A node ended before it served, or did not serve in time; the text has the reason and the path of the node's log."""


def pid_file(directory: Path, node: PlannedNode) -> Path:
    return node_directory(directory, node) / "node.pid"


def node_pids(plan: Plan, directory: Path) -> dict[int, int]:
    """The processes of the running nodes, by node id, including nodes started by another command."""
    found = {node.id: _node_pid(directory, node) for node in plan.nodes}
    return {node_id: pid for node_id, pid in found.items() if pid is not None}


def _node_pid(directory: Path, node: PlannedNode) -> int | None:
    """The process that has the node's data in use, or that is about to: it was begun here a moment ago."""
    data = log_dirs(directory, node).split(",")[0]
    return (
        lock_holder(Path(data) / LOCK_FILE) or _begun(directory, node) or _with_file(properties_file(directory, node))
    )


def _begun(directory: Path, node: PlannedNode) -> int | None:
    """Numbers of processes are used again, so it must be one that was given this node's file."""
    try:
        pid = int(pid_file(directory, node).read_text(encoding="ascii"))
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
        time.sleep(POLL_S)
    return not left


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except OSError:
        return True
