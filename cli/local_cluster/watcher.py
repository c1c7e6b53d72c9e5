"""The process that watches the nodes of a cluster: one at a time, which holds a lock in the cluster's directory."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from ...storage.files.lock_holder import lock_holder
from .node_processes import ClusterFailed

#: Locked by the process that watches the others, for as long as it runs.
PID_FILE = "cluster.pid"


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
