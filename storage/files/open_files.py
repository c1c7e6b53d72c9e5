"""Files of a log directory: names and modes, few open descriptors for many segments, writes that survive a crash.

- `open_fd`, `open_for_reading`: open files while the process has no descriptor left.
- `OpenFiles`: the open data files. A process may host ten thousand partitions and have a thousand descriptors.
- `write_fully` to `unlink_if_exists`: writes, renames and deletions.
- `open_regular_file`, `read_regular_file`: files that a user, or a request, names.
- `make_folder`, `restrict`: modes. Only the owner may read files and folders, whatever the umask is.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, ClassVar, Protocol

# ---- shortage of descriptors
#
# Opening files while the process has no descriptor left.
#
# A process that runs out of descriptors has not lost its disk. So a shortage is not a failure of a log directory:
# `open_fd` first has the data files closed that can be opened again, then gives up one of a few spare descriptors,
# and only then raises. The server keeps connections from using the descriptors that logs need
# (server/network/descriptors.py); the spares are for what its count cannot see, such as descriptors of a library or
# of the program around an embedded broker.


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


# ---- names, and open data files

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
#: Suffix of files that are kept because something is wrong with them; nothing reads them.
DAMAGED_SUFFIX = ".damaged"
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

Buffer = bytes | bytearray | memoryview

#: Open data files at most; each takes some 500 bytes of the process and the system. A consumer that goes round more
#: partitions than this finds each file closed again, and a file costs 20 us to open. The server lowers the limit while
#: connections need the descriptors (server/network/descriptors.py).
MOST_DATA_FILES = 16_384
#: Files that stay open however few descriptors there are: the metadata log, and some partitions in use at the same time.
FEWEST_DATA_FILES = 4
#: Free space that a new partition leaves on its disk: room for the metadata log, and for the first records of partitions
#: that exist. Where it is used up, an append fails and the directory goes offline.
LEAST_ROOM_BYTES = 256 << 10
LEAST_ROOM_FILES = 16


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


class PartitionDirectory:
    """The path of a partition's files. All parts of a log share the object, because a directory may be renamed."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def log_directory(self) -> str:
        return os.path.dirname(self.path)

    def file(self, base_offset: int, suffix: str) -> str:
        return f"{self.path}/{base_offset:020d}{suffix}"


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


def pread_nowait(fd: int, size: int, position: int) -> bytes | bytearray:
    """Reads as os.pread does, but raises BlockingIOError if the read would wait for the disk.

    File systems that cannot tell (EOPNOTSUPP) are read at once: most of them are memory.
    """
    buffer = bytearray(size)
    try:
        count = os.preadv(fd, [buffer], position, os.RWF_NOWAIT)
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        return os.pread(fd, size, position)
    if count < size:
        # Either the end of the file or the end of what is cached: only a read that may block can tell.
        if position + count < os.fstat(fd).st_size:
            raise BlockingIOError(errno.EAGAIN, "not in the page cache")
        del buffer[count:]
    return buffer


if not hasattr(os, "RWF_NOWAIT"):  # pragma: no cover - not Linux
    pread_nowait = os.pread  # type: ignore[assignment]


# ---- writes


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


def check_room(path: str) -> None:
    """Raises the OSError of a full disk when a new partition would take the room that logs in use need."""
    space = os.statvfs(path)
    is_short = space.f_blocks and space.f_bavail * space.f_frsize < LEAST_ROOM_BYTES
    if is_short or (space.f_files and space.f_favail < LEAST_ROOM_FILES):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


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
    fd = open_fd(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with naming(path):
            write_fully(fd, content, 0)
            if sync:
                os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(temporary, path)
    if sync:
        sync_directory(os.path.dirname(path))


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


def base_offset_of(name: str) -> int | None:
    """The offset that a segment's file is named after, or None when it is no such file."""
    digits = name[:20]
    return int(digits) if len(name) > 20 and name[20] == "." and digits.isascii() and digits.isdigit() else None


# ---- modes
#
# The metadata log holds passwords of keystores and keys of SCRAM, topics hold what users put into them.

FILE_MODE = 0o600
FOLDER_MODE = 0o700
#: Missing folders above one: other users may pass, and write nothing.
_PARENT_MODE = 0o755
#: The rights of others in a mode.
RIGHTS_OF_OTHERS = 0o077


def make_folder(path: str | os.PathLike[str]) -> None:
    """Makes the folder, and those above it, unless it is there. Raises OSError."""
    folder = Path(path)
    missing = []
    for above in folder.parents:
        if above.exists():
            break
        missing.append(above)
    for above in reversed(missing):
        above.mkdir(_PARENT_MODE, exist_ok=True)
    folder.mkdir(FOLDER_MODE, exist_ok=True)


def restrict(path: str | os.PathLike[str]) -> bool:
    """Takes the rights of others from a file or a folder that is there. Returns whether others had any.

    One of another owner, and a folder that all users share, such as /tmp, stay as they are.
    """
    try:
        mode = os.lstat(path).st_mode
        if not mode & RIGHTS_OF_OTHERS or mode & stat.S_ISVTX or stat.S_ISLNK(mode):
            return False
        os.chmod(path, stat.S_IMODE(mode) & ~RIGHTS_OF_OTHERS)
    except OSError:
        return False
    return True


def restrict_folder(folder: str | os.PathLike[str]) -> None:
    """Takes the rights of others from a folder, and from its files if others could reach them until now."""
    if restrict(folder):
        restrict_files(folder)


def restrict_files(folder: str | os.PathLike[str]) -> None:
    """Takes the rights of others from the files in a folder."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                restrict(entry.path)


# ---- files that a user, or a request, names: a FIFO or a device must not block the reader


def open_regular_file(path: str | os.PathLike[str]) -> BinaryIO:
    """Opens a file to be read, without waiting for a writer. Raises OSError, also for what is no regular file."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    except BaseException:
        os.close(fd)
        raise
    return os.fdopen(fd, "rb")


def read_regular_file(path: str | os.PathLike[str], most_bytes: int = -1) -> bytes:
    """Returns the content, up to `most_bytes` unless that is negative. Raises as `open_regular_file`."""
    with open_regular_file(path) as file:
        return file.read(most_bytes)
