"""Opening files while the process has no descriptor left.

A process that runs out of descriptors has not lost its disk. So a shortage is not a failure of a log directory:
`open_fd` first has the data files closed that can be opened again, then gives up one of a few spare descriptors,
and only then raises. The server keeps connections from using the descriptors that logs need
(server/network/descriptors.py); the spares are for what its count cannot see, such as descriptors of a library or
of the program around an embedded broker.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import BinaryIO

#: One for a file, one for its directory while it is synced, and the same again for a thread that does so meanwhile.
SPARE_DESCRIPTORS = 4


def is_shortage(error: OSError) -> bool:
    """Returns whether the error means that no descriptor is left, in the process or in the system."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


class SpareDescriptors:
    """Descriptors that are open for no other reason than to be given up."""

    def __init__(self) -> None:
        self._spares: list[int] = []
        #: How often no descriptor was left.
        self.shortages = 0
        #: Closes descriptors that are not needed at once; returns whether there were any.
        self.close_unneeded: Callable[[], bool] = lambda: False

    def __len__(self) -> int:
        return len(self._spares)

    def fill(self) -> None:
        """Takes what is missing, as far as there are descriptors."""
        try:
            while len(self._spares) < SPARE_DESCRIPTORS:
                self._spares.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            if not is_shortage(error):
                raise

    def give_up_one(self) -> bool:
        try:
            os.close(self._spares.pop())
        except IndexError:
            return False
        return True

    def close(self) -> None:
        while self.give_up_one():
            pass


SPARES = SpareDescriptors()


def open_fd(path: str | os.PathLike[str], flags: int, mode: int = 0o600) -> int:
    """Opens as os.open does, with a spare descriptor if there is no other."""
    try:
        return os.open(path, flags, mode)
    except OSError as error:
        if not is_shortage(error):
            raise
    SPARES.shortages += 1
    if SPARES.close_unneeded():
        try:
            return os.open(path, flags, mode)
        except OSError as error:
            if not is_shortage(error):
                raise
    SPARES.give_up_one()
    return os.open(path, flags, mode)


def open_for_reading(path: str | os.PathLike[str]) -> BinaryIO:
    """Opens as open(path, "rb") does, with a spare descriptor if there is no other."""
    return open(path, "rb", opener=open_fd)
