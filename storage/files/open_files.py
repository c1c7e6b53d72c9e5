"""The open data files. A process may host ten thousand partitions and have a thousand descriptors."""

from __future__ import annotations

import os
from typing import ClassVar, Protocol

from .descriptors import SPARES, open_fd

#: Open data files at most; each takes some 500 bytes of the process and the system. A consumer that goes round more
#: partitions than this finds each file closed again, and a file costs 20 us to open. The server lowers the limit while
#: connections need the descriptors (server/network/descriptors.py).
MOST_DATA_FILES = 16_384
#: Files that stay open however few descriptors there are: the metadata log, and some partitions in use at the same time.
FEWEST_DATA_FILES = 4


class OpenFile:
    """A descriptor that is closed when nothing refers to it any more."""

    __slots__ = ("fd",)

    #: How many there are, those of slices included that outlive their segment's use of the file.
    count: ClassVar[int] = 0

    def __init__(self, path: str, flags: int = os.O_RDWR) -> None:
        self.fd = -1
        self.fd = open_fd(path, flags | os.O_CLOEXEC, 0o600)
        OpenFile.count += 1

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            OpenFile.count -= 1


class Closeable(Protocol):
    """An owner of a file that `OpenFiles` may close; `used` is set at each use and cleared when it is passed over once."""

    used: bool

    def release_file(self) -> None: ...


class OpenFiles:
    """Holds the number of open data files under a limit: second chance, so that a use costs one attribute write.

    It keeps the data files in use open and closes those that were not used lately. An `OpenFile` closes itself when
    the last reference goes, so a slice that is still being sent keeps the bytes of a segment that was closed, or even
    deleted, meanwhile.
    """

    __slots__ = ("_ring", "limit")

    def __init__(self, limit: int = MOST_DATA_FILES) -> None:
        #: With more open files than this (`OpenFile.count`), slices that are still to be sent hold files on their own.
        self.limit = limit
        self._ring: dict[Closeable, None] = {}

    def __len__(self) -> int:
        return len(self._ring)

    def admit(self, owner: Closeable) -> None:
        """`owner` has opened its file; others may be asked to close theirs, more where slices hold files on their own."""
        self._ring[owner] = None
        held = OpenFile.count - len(self._ring) if self is OPEN_FILES else 0
        self.shrink_to(self.limit - max(0, held), owner)

    def shrink_to(self, count: int, kept: Closeable | None = None) -> None:
        """Has files closed until no more than `count` are open; never that of `kept`."""
        while len(self._ring) > max(count, int(kept is not None)):
            try:
                oldest = next(iter(self._ring))
            except (
                RuntimeError,
                StopIteration,
            ):  # another thread admits or forgets at this moment; the next one evicts
                return
            self._ring.pop(oldest, None)
            if oldest.used and oldest is not kept:
                oldest.used = False
                self._ring[oldest] = None
            elif oldest is not kept:
                oldest.release_file()
            else:
                self._ring[oldest] = None

    def close_some(self) -> bool:
        """Halves the number of open files while no descriptor is left; returns False when it cannot."""
        count = len(self._ring)
        self.shrink_to(count // 2)
        return len(self._ring) < count

    def forget(self, owner: Closeable) -> None:
        self._ring.pop(owner, None)


#: Descriptors are the process's, so their count is too.
OPEN_FILES = OpenFiles()
SPARES.close_unneeded = OPEN_FILES.close_some
