"""The failure of a log directory: of its disk, or of the room on it."""

from __future__ import annotations

import errno

from .descriptors import is_shortage

_ADVICE = {
    errno.ENOSPC: "the disk is full: make room on it, or choose another directory with --data-dir (log.dirs)",
    errno.EDQUOT: "the disk quota is used up: make room, or choose another directory with --data-dir (log.dirs)",
    errno.EROFS: "the file system is read-only: mount it for writing, or choose another directory with --data-dir",
    errno.EACCES: "give the user that runs odradek the right to read and write there, or choose another with --data-dir",
    errno.EPERM: "give the user that runs odradek the right to read and write there, or choose another with --data-dir",
    errno.ENOTDIR: "it is not a directory: choose another with --data-dir",
    errno.EEXIST: "it is not a directory: choose another with --data-dir",
    errno.EISDIR: "a directory is in the place of a file: remove it, and run `odradek repair`",
}


class LogDirectoryFailure(Exception):
    """The disk under a log directory failed or is full: the directory goes offline, and the broker continues with the
    others.

    `directory` is the log directory (not the partition's). The wire error is KAFKA_STORAGE_ERROR.
    """

    def __init__(self, directory: str, doing: str, cause: OSError) -> None:
        super().__init__(f"{directory}: {doing}: {cause}{advice(cause)}")
        self.directory = directory
        self.cause = cause
        self._doing = doing

    def __reduce__(self) -> tuple[type[LogDirectoryFailure], tuple[str, str, OSError]]:
        return type(self), (self.directory, self._doing, self.cause)

    @property
    def is_shortage(self) -> bool:
        """Returns whether the process had no descriptor left: the disk may be in order."""
        return is_shortage(self.cause)

    @property
    def is_full(self) -> bool:
        """Returns whether there was no room: what is on the disk can still be read."""
        return self.cause.errno in (errno.ENOSPC, errno.EDQUOT)


def advice(cause: OSError) -> str:
    """Returns the advice for an operator, behind a semicolon; empty if there is none."""
    words = _ADVICE.get(cause.errno or 0)
    return f"; {words}" if words is not None else ""
