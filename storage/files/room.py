"""The room that a disk must have left for a new partition."""

from __future__ import annotations

import errno
import os

#: Free space that a new partition leaves on its disk: room for the metadata log, and for the first records of partitions
#: that exist. Where it is used up, an append fails and the directory goes offline.
LEAST_ROOM_BYTES = 256 << 10
LEAST_ROOM_FILES = 16


def check_room(path: str) -> None:
    """Raises the OSError of a full disk when a new partition would take the room that logs in use need."""
    space = os.statvfs(path)
    is_short = space.f_blocks and space.f_bavail * space.f_frsize < LEAST_ROOM_BYTES
    if is_short or (space.f_files and space.f_favail < LEAST_ROOM_FILES):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
