"""Disks that lose power, that are full, and that fail.

At a power loss each file keeps only what was synced, and a file that was never synced loses everything.
Sizes are noted at each fsync; a power loss truncates files to them. It takes entries of directories back, too (entries.py).
A full disk takes a part of a write, as Linux
does; a failing disk fails writes and syncs.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import IO, TYPE_CHECKING

from .entries import Entries
from .incarnations import OWNER, name_of

if TYPE_CHECKING:
    from ...protocol.buffer import Buffer
    from .replacements import Replacements

#: Disks are simulated, so their files are kept in memory.
IN_MEMORY = next((path for path in ("/dev/shm",) if os.access(path, os.W_OK)), None)


class Disk:
    """Notes every fsync of the simulation once installed. `root`: contains a directory for each node, with its name."""

    def __init__(self, root: Path, rng: Random, clock: Callable[[], float]) -> None:
        self._root = root
        self._rng = rng
        #: The entries of directories that are not durable yet.
        self.entries = Entries(root, Random(rng.random()), clock, self._emptied)
        self._synced: dict[tuple[int, int], int] = {}
        #: By node: the bytes until its disk is full, and the likelihood with which a write or sync fails.
        self._room: dict[str, int] = {}
        self._failing: dict[str, float] = {}
        #: The nodes that met a full or a failing disk, until their next start.
        self.struck: set[str] = set()

    def install(self, replacements: Replacements) -> None:
        for name, noting in (
            ("fsync", self._noting_sync),
            ("fdatasync", self._noting_sync),
            ("truncate", self._noting_cut),
            ("ftruncate", self._noting_cut),
        ):
            replacements.replace(os, name, noting(getattr(os, name)))
        replacements.replace(os, "sync", lambda: self.sync_all(name_of(OWNER.get())))
        self.entries.install(replacements)
        replacements.replace(os, "write", self._write(os.write))
        replacements.replace(os, "pwrite", self._write(os.pwrite))

    # ---- full and failing disks

    def fill(self, node: str, room_bytes: int) -> None:
        """Leaves so much room on the node's disk. The writes of its code to open descriptors count."""
        self._room[node] = room_bytes

    def fail(self, node: str, likelihood: float) -> None:
        """Makes each write and sync of the node fail with this likelihood."""
        self._failing[node] = likelihood

    def mend(self, node: str) -> None:
        self._room.pop(node, None)
        self._failing.pop(node, None)

    @property
    def are_all_in_order(self) -> bool:
        return not self._room and not self._failing

    def _strike(self) -> None:
        """Raises OSError if the disk of the calling node fails now."""
        if self._failing:
            node = name_of(OWNER.get())
            likelihood = self._failing.get(node)
            if likelihood is not None and self._rng.random() < likelihood:
                self.struck.add(node)
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _write(self, real: Callable[..., int]) -> Callable[..., int]:
        """Replaces a write function."""

        def write(fd: int, data: Buffer, *position: int) -> int:
            self._strike()
            node = name_of(OWNER.get()) if self._room else ""
            room = self._room.get(node)
            if room is None:
                return real(fd, data, *position)
            if not room:
                self.struck.add(node)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written = real(fd, memoryview(data)[:room], *position)
            self._room[node] = room - written
            return written

        return write

    # ---- what is synced

    def _noting_sync(self, real: Callable[..., None]) -> Callable[..., None]:
        """Replaces a sync function. The simulated disk is as fast as memory: the sync is only noted."""

        def sync(fd: int | IO[bytes]) -> None:
            self._strike()
            descriptor = fd if isinstance(fd, int) else fd.fileno()
            found = os.fstat(descriptor)
            if stat.S_ISDIR(found.st_mode):
                path = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115
                self.entries.synced(path, (found.st_dev, found.st_ino))
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

    def _emptied(self, file: tuple[int, int]) -> None:
        self._synced[file] = 0

    def sync_all(self, node: str) -> None:
        """Notes that all files and directories of a node are synced."""
        self.entries.all_synced(node)
        for path in (self._root / node).rglob("*"):
            if path.is_file():
                found = path.stat()
                self._synced[found.st_dev, found.st_ino] = found.st_size

    def synced_bytes(self, fd: int) -> int:
        """Returns how much of an open file would survive a power loss."""
        found = os.fstat(fd)
        file = (found.st_dev, found.st_ino)
        return 0 if self.entries.is_nameless(file) else self._synced.get(file, 0)

    def power_failure(self, directory: Path) -> int:
        """Takes back entries of a node's directory, and truncates every file in it. Returns how many bytes were lost."""
        self.entries.power_failure(directory.name)
        lost = 0
        for path in directory.rglob("*"):
            if path.is_file():
                found = path.stat()
                kept = min(found.st_size, self._synced.get((found.st_dev, found.st_ino), 0))
                lost += found.st_size - kept
                os.truncate(path, kept)
        return lost
