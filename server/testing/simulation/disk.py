"""What a disk keeps when the power goes: of each file as much as was synced, and nothing of one that never was.

Sizes are noted at each fsync; a power failure cuts files back to them. Directories are taken to be as they are: an entry
that was renamed or removed stays so, and `tests/storage` has its own proofs for those.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Disk:
    """While `installed`, every fsync of this process is noted."""

    def __init__(self) -> None:
        self._synced: dict[tuple[int, int], int] = {}
        self._real: dict[str, Callable[[Any], None]] = {}

    def install(self) -> None:
        for name in ("fsync", "fdatasync"):
            self._real[name] = getattr(os, name)
            setattr(os, name, self._noting(self._real[name]))

    def uninstall(self) -> None:
        for name, function in self._real.items():
            setattr(os, name, function)

    def _noting(self, real: Callable[[Any], None]) -> Callable[[Any], None]:
        def sync(fd: Any) -> None:
            found = os.fstat(fd if isinstance(fd, int) else fd.fileno())
            self._synced[found.st_dev, found.st_ino] = found.st_size

        return sync

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
