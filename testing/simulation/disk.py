"""Power loss: each file keeps only what was synced, and a file that was never synced loses everything.

Sizes are noted at each fsync; a power loss truncates files to them. Directories keep their current state: a renamed or
removed entry stays so. `tests/storage` has its own tests for directories.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING

from .incarnations import OWNER, name_of

if TYPE_CHECKING:
    from .replacements import Replacements

#: Disks are simulated, so their files are kept in memory.
IN_MEMORY = next((path for path in ("/dev/shm",) if os.access(path, os.W_OK)), None)


class Disk:
    """Notes every fsync of the simulation once installed. `root`: contains a directory for each node, with its name."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._synced: dict[tuple[int, int], int] = {}

    def install(self, replacements: Replacements) -> None:
        for name, noting in (
            ("fsync", self._noting_sync),
            ("fdatasync", self._noting_sync),
            ("truncate", self._noting_cut),
            ("ftruncate", self._noting_cut),
        ):
            replacements.replace(os, name, noting(getattr(os, name)))
        replacements.replace(os, "sync", self._sync_all)

    def _noting_sync(self, real: Callable[..., None]) -> Callable[..., None]:
        """Replaces a sync function. The simulated disk is as fast as memory: the sync is only noted."""

        def sync(fd: int | IO[bytes]) -> None:
            found = os.fstat(fd if isinstance(fd, int) else fd.fileno())
            self._synced[found.st_dev, found.st_ino] = found.st_size

        return sync

    def _noting_cut(self, real: Callable[..., None]) -> Callable[..., None]:
        """Replaces a truncate function: data written after a truncation is not on the disk."""

        def truncate(path: int | str | os.PathLike[str], length: int) -> None:
            real(path, length)
            found = os.stat(path)  # noqa: PTH116 - a path, or a descriptor
            file = (found.st_dev, found.st_ino)
            self._synced[file] = min(length, self._synced.get(file, 0))

        return truncate

    def _sync_all(self) -> None:
        """Notes that all files of the calling node are synced."""
        for path in (self._root / name_of(OWNER.get())).rglob("*"):
            if path.is_file():
                found = path.stat()
                self._synced[found.st_dev, found.st_ino] = found.st_size

    def synced_bytes(self, fd: int) -> int:
        """Returns how much of an open file would survive a power loss."""
        found = os.fstat(fd)
        return self._synced.get((found.st_dev, found.st_ino), 0)

    def power_failure(self, directory: Path) -> int:
        """Truncates every file in the directory. Returns how many bytes were lost."""
        lost = 0
        for path in directory.rglob("*"):
            if path.is_file():
                found = path.stat()
                kept = min(found.st_size, self._synced.get((found.st_dev, found.st_ino), 0))
                lost += found.st_size - kept
                os.truncate(path, kept)
        return lost
