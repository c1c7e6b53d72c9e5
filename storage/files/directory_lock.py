"""The use of a log directory: its lock, `.lock`, and the mark of its last use, `odradek-in-use`.

- `lock_holder`: the process that holds a lock, as the kernel names it.
- `lock`, `locked`: one process uses the directory at a time.
- `read_use_mark`, `write_use_mark`: when and by whom the directory was last taken into use.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from .open_files import open_fd, read_if_exists, write_atomically

# ---- the holder of a lock
#
# The process that holds the POSIX lock on a file, as the kernel tells it: a number in a file may be of a former
# process.


#: `struct flock`: type, whence, start, length, pid; on BSD and macOS start, length, pid, type, whence.
_IS_BSD = sys.platform == "darwin" or "bsd" in sys.platform
_LAYOUT = "@qqihh" if _IS_BSD else "@hhqqi"


def lock_holder(file: Path) -> int | None:
    """The process id; None when no process has a lock, or there is no such file, or it may not be read.

    A process that asks about its own lock loses it by that: POSIX drops the locks on a file whenever one of its
    descriptors is closed.
    """
    try:
        fd = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fields = (0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET) if _IS_BSD else (fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        response = struct.unpack(_LAYOUT, fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack(_LAYOUT, *fields)))
    except OSError:
        return None
    finally:
        os.close(fd)
    kind, pid = (response[3], response[2]) if _IS_BSD else (response[0], response[4])
    return pid if kind != fcntl.F_UNLCK and pid > 0 else None


# ---- the lock

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


# ---- the mark of the last use
#
# A process that is killed loses nothing that it has written: the kernel keeps it for the next reader. Only a machine
# that stops loses it. So the mark has the boot of the machine (Linux: `boot_id`), the folder itself, since a copy of
# it may be older than its files, and the epoch of the broker. While both are as noted, the files are as the last
# process left them.
#
# The content is JSON. A mark that is missing or damaged, or a system without a `boot_id`, counts as another boot.

USE_FILE = "odradek-in-use"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def read_use_mark(directory: str) -> int | None:
    """Returns the epoch of the broker that has used the directory in this boot (-1: not known), else None.

    Raises OSError.
    """
    here = _here(directory)
    try:
        place, epoch = json.loads(read_if_exists(f"{directory}/{USE_FILE}") or b"")
    except (IsADirectoryError, ValueError, TypeError):
        return None
    return epoch if here is not None and place == here and isinstance(epoch, int) else None


def write_use_mark(directory: str, broker_epoch: int) -> bool:
    """Returns False, without a mark, where the boot cannot be told. Raises OSError."""
    here = _here(directory)
    if here is not None:
        # Not synced: the mark counts only while the machine runs.
        content = json.dumps([here, broker_epoch], separators=(",", ":")).encode()
        write_atomically(f"{directory}/{USE_FILE}", content, sync=False)
    return here is not None


def _here(directory: str) -> list[object] | None:
    """Returns the boot and the folder; None where there is no `boot_id`."""
    try:
        boot_id = _BOOT_ID.read_text().strip()
    except OSError:
        return None
    found = os.stat(directory)
    return [boot_id, found.st_dev, found.st_ino] if boot_id else None
