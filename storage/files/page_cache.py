"""Reads that take what is in the page cache, and do not wait for the disk."""

from __future__ import annotations

import errno
import os

from ... import buggify


def pread_nowait(fd: int, size: int, position: int) -> bytes | bytearray:
    """Reads as os.pread does, but raises BlockingIOError if the read would wait for the disk.

    File systems that cannot tell (EOPNOTSUPP) are read at once: most of them are memory.
    """
    if buggify.active is not None and buggify.active.acts(buggify.COLD_CACHE):
        raise BlockingIOError(errno.EAGAIN, "not in the page cache")
    buffer = bytearray(size)
    try:
        count = os.preadv(fd, [buffer], position, os.RWF_NOWAIT)
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        return os.pread(fd, size, position)
    if count < size:
        # Either the end of the file or the end of what is cached: only a read that may block can tell.
        if position + count < os.fstat(fd).st_size:
            raise BlockingIOError(errno.EAGAIN, "not in the page cache")
        del buffer[count:]
    return buffer


if not hasattr(os, "RWF_NOWAIT"):  # pragma: no cover - not Linux
    pread_nowait = os.pread  # type: ignore[assignment]
