"""Writes, renames and deletions that survive a crash."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ...protocol.buffer import Buffer
from .descriptors import open_fd

#: Suffix of files that are kept because something is wrong with them; nothing reads them.
DAMAGED_SUFFIX = ".damaged"


def write_fully(fd: int, buffer: Buffer, position: int) -> None:
    """Writes all of it: a disk that fills up takes a part first and fails only when asked again."""
    written = os.pwrite(fd, buffer, position)
    if written == len(buffer):
        return
    rest = memoryview(buffer).cast("B")[written:]
    while rest:
        position += written
        written = os.pwrite(fd, rest, position)
        rest = rest[written:]


def sync_directory(path: str) -> None:
    """Makes creations, renames and deletions in a directory survive a power cut."""
    fd = open_fd(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Adds the file name to an OSError of a write, which has a descriptor only."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or path
        raise


def write_atomically(path: str, content: bytes, *, sync: bool = True) -> None:
    """A file that is seen whole or not at all: written beside, synced, renamed over."""
    temporary = path + ".tmp"
    write_beside(temporary, content, sync=sync)
    os.replace(temporary, path)
    if sync:
        sync_directory(os.path.dirname(path))


def write_beside(temporary: str, content: bytes, *, sync: bool) -> None:
    """Writes a file that is to be renamed over another."""
    fd = open_fd(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with naming(temporary):
            write_fully(fd, content, 0)
            if sync:
                os.fsync(fd)
    finally:
        os.close(fd)


def sync_if_exists(path: str) -> None:
    """Makes the content of a file survive a power cut. It may be gone meanwhile."""
    try:
        fd = open_fd(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def read_if_exists(path: str) -> bytes | None:
    try:
        fd = open_fd(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return os.read(fd, os.fstat(fd).st_size + 1)
    finally:
        os.close(fd)


def set_aside(path: str) -> str:
    """Renames a file, or a directory, to a name that nothing reads; the name.

    The number follows a dot: a directory `name-2` would be the partition 2 of a topic.
    """
    kept, number = path + DAMAGED_SUFFIX, 1
    while os.path.lexists(kept):
        number += 1
        kept = f"{path}{DAMAGED_SUFFIX}.{number}"
    os.rename(path, kept)
    return kept


def unlink_if_exists(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
