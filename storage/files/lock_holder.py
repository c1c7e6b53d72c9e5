"""The process that holds the POSIX lock on a file, as the kernel tells it: a number in a file may be of a former process."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from pathlib import Path

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
    if _IS_BSD:
        _, _, pid, kind, _ = response
    else:
        kind, _, _, _, pid = response
    return pid if kind != fcntl.F_UNLCK and pid > 0 else None
