"""Files that a user, or a request, names: a FIFO or a device must not block the reader."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO


def open_regular_file(path: str | os.PathLike[str]) -> BinaryIO:
    """Opens a file to be read, without waiting for a writer. Raises OSError, also for what is no regular file."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    except BaseException:
        os.close(fd)
        raise
    return os.fdopen(fd, "rb")


def read_regular_file(path: str | os.PathLike[str], most_bytes: int = -1) -> bytes:
    """Returns the content, up to `most_bytes` unless that is negative. Raises as `open_regular_file`."""
    with open_regular_file(path) as file:
        return file.read(most_bytes)
