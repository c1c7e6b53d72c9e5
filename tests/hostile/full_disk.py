"""A small file system for a test to fill: a tmpfs, which root may mount."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: The name of files that use up the space.
_FILLER = "filler"


@contextmanager
def small_disk(path: Path, size: int = 4 << 20) -> Iterator[Path]:
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


def fill(disk: Path, *, leave: int) -> None:
    """Uses all space but `leave` bytes."""
    make_room(disk)
    space = os.statvfs(disk)
    (disk / _FILLER).write_bytes(bytes(max(0, space.f_bavail * space.f_frsize - leave)))


def make_room(disk: Path) -> None:
    (disk / _FILLER).unlink(missing_ok=True)
