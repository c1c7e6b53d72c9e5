"""A part of a file copied to another one."""

from __future__ import annotations

import os
import shutil

_CHUNK_BYTES = 1 << 20


def copy_part(source: str, position: int, size: int, target: str) -> int:
    """Copies `size` bytes to a new file of the same mode, and syncs it. Returns how many there were. Raises OSError."""
    left = size
    with open(source, "rb") as read, open(target, "xb") as written:
        read.seek(position)
        while left and (piece := read.read(min(left, _CHUNK_BYTES))):
            written.write(piece)
            left -= len(piece)
        written.flush()
        os.fsync(written.fileno())
    shutil.copymode(source, target)
    return size - left
