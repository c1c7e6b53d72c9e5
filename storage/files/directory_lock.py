"""The lock of a log directory, `.lock`: one process uses the directory at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from collections.abc import Iterator

from .descriptors import open_fd

LOCK_FILE = ".lock"
#: C's struct flock on 64-bit Linux: type, whence, start, length, process.
_FLOCK = struct.Struct("hhqqi4x")


class DirectoryInUse(Exception):
    """Another process, Apache Kafka or Odradek, has the directory locked."""


def lock(directory: str) -> int:
    """The descriptor that holds the lock. Raises DirectoryInUse, OSError."""
    fd = open_fd(f"{directory}/{LOCK_FILE}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # Java takes POSIX locks, which do not hold between two brokers of one process; flock does.
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        owner = _owner(fd)
        os.close(fd)
        by = f"process {owner}" if owner > 0 else "another broker"
        raise DirectoryInUse(
            f"{directory} is in use by {by}: stop it first, or choose another directory with --data-dir"
        ) from None
    return fd


def _owner(fd: int) -> int:
    """The process that holds the lock; 0 where the system does not tell."""
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, owner = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    except (OSError, struct.error):
        return 0
    # A lock of this very process is no obstacle to it, so it is not named.
    return os.getpid() if kind == fcntl.F_UNLCK else int(owner)


@contextlib.contextmanager
def locked(directory: str) -> Iterator[None]:
    """Raises DirectoryInUse, OSError."""
    fd = lock(directory)
    try:
        yield
    finally:
        os.close(fd)
