"""What a disk keeps when the power goes: of each file as much as was synced, and nothing of one that never was.

Sizes are noted at each fsync; a power failure cuts files back to them. Directories are taken to be as they are: an entry
that was renamed or removed stays so, and `tests/storage` has its own proofs for those.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .loop import OWNER, name_of


class Disk:
    """While `installed`, every fsync of this process is noted. `root`: where each node has a directory of its name."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._synced: dict[tuple[int, int], int] = {}
        self._real: dict[str, Callable[..., None]] = {}

    def install(self) -> None:
        for name, noting in (
            ("fsync", self._noting_sync),
            ("fdatasync", self._noting_sync),
            ("truncate", self._noting_cut),
            ("ftruncate", self._noting_cut),
        ):
            self._real[name] = getattr(os, name)
            setattr(os, name, noting(self._real[name]))
        self._real["sync"] = os.sync
        os.sync = self._sync_all

    def uninstall(self) -> None:
        for name, function in self._real.items():
            setattr(os, name, function)

    def _noting_sync(self, real: Callable[..., None]) -> Callable[..., None]:
        """The simulated disk is as quick as memory: what was to be synced is only noted."""

        def sync(fd: Any) -> None:
            found = os.fstat(fd if isinstance(fd, int) else fd.fileno())
            self._synced[found.st_dev, found.st_ino] = found.st_size

        return sync

    def _noting_cut(self, real: Callable[..., None]) -> Callable[..., None]:
        """What takes the place of what was cut off is not on the disk."""

        def truncate(path: Any, length: int) -> None:
            real(path, length)
            found = os.stat(path)  # noqa: PTH116 - a path, or a descriptor
            file = (found.st_dev, found.st_ino)
            self._synced[file] = min(length, self._synced.get(file, 0))

        return truncate

    def _sync_all(self) -> None:
        """Of the node that asks."""
        for path in (self._root / name_of(OWNER.get())).rglob("*"):
            if path.is_file():
                found = path.stat()
                self._synced[found.st_dev, found.st_ino] = found.st_size

    def synced_bytes(self, fd: int) -> int:
        """How much of an open file would outlive a power failure."""
        found = os.fstat(fd)
        return self._synced.get((found.st_dev, found.st_ino), 0)

    def power_failure(self, directory: Path) -> int:
        """Cuts every file below; how many bytes were lost."""
        lost = 0
        for path in directory.rglob("*"):
            if path.is_file():
                found = path.stat()
                kept = min(found.st_size, self._synced.get((found.st_dev, found.st_ino), 0))
                lost += found.st_size - kept
                os.truncate(path, kept)
        return lost
