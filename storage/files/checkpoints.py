"""Notes of a log directory about its replicas: checkpoints of offsets, and the state of clean replicas.

- `find_offsets`, `write_offsets`: a checkpoint has one offset for each partition, in a text file that is replaced as
  a whole.
- `read_clean_replicas`, `write_clean_replicas`: `odradek-clean-replicas`, the replicas of a log directory, as they
  were when nothing was written to them for a while.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from ...protocol.checksum import crc32c
from .open_files import (
    LOG_SUFFIX,
    RIGHTS_OF_OTHERS,
    LogDirectoryFailure,
    open_fd,
    read_if_exists,
    set_aside,
    write_atomically,
)

try:
    from odradek_kernel import stat_files as _kernel
except ImportError:  # pip had no compiler; the kernel may be of another version in a checkout.
    _kernel = None

# ---- checkpoints
#
# ```
# 0                    version
# 2                    entries
# orders 0 1234        topic, partition, offset
# orders 1 17
# ```
#
# These files, which are Kafka's, have no checksum. Odradek keeps one beside each, `<name>.odradek-crc`: the CRC-32C
# of what was last written, and of what was written before, in hexadecimal. A file with neither may be right, since
# Kafka writes none, but its contents are not proven (`UNPROVEN` in log/loading.py).

#: Below it, everything is on the disk: recovery starts there.
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
#: Where logs start that do not start with their first segment.
LOG_START_OFFSETS = "log-start-offset-checkpoint"
#: High watermarks.
HIGH_WATERMARKS = "replication-offset-checkpoint"
#: Up to where a log has been compacted.
CLEANER_OFFSETS = "cleaner-offset-checkpoint"

VERSION = 0
_CHECKSUM_SUFFIX = ".odradek-crc"

TopicPartition = tuple[str, int]


class CorruptCheckpoint(Exception):
    """The file is not a checkpoint."""


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    lines = [f"{topic} {partition} {offset}\n" for (topic, partition), offset in offsets.items()]
    return "".join((f"{VERSION}\n{len(lines)}\n", *lines)).encode()


def decode_offsets(content: bytes) -> dict[TopicPartition, int]:
    """Raises CorruptCheckpoint."""
    try:
        version, count, *lines = content.decode("ascii").splitlines()
        if int(version) != VERSION:
            raise CorruptCheckpoint(f"version {version} is not known")
        offsets: dict[TopicPartition, int] = {}
        shared: dict[str, str] = {}  # the replicas of a topic share its name
        for line in lines:
            topic, partition, offset = line.split(" ")
            offsets[shared.setdefault(topic, topic), int(partition)] = int(offset)
        if int(count) != len(lines):
            raise CorruptCheckpoint(f"{len(lines)} entries, but its header has the count {count}")
        if min(offsets.values(), default=0) < 0:
            raise CorruptCheckpoint("an offset is negative")
    except ValueError:
        raise CorruptCheckpoint(
            "it does not consist of a version, a count, and lines of topic, partition and offset"
        ) from None
    return offsets


class FoundOffsets(NamedTuple):
    """`is_proven`: the file is as it was written. `note`: the reason why it was ignored, for the broker's log."""

    offsets: dict[TopicPartition, int]
    is_proven: bool = False
    note: str | None = None


def inspect_offsets(directory: str, name: str) -> FoundOffsets:
    """Reads as `find_offsets` does, and changes nothing."""
    for path in (f"{directory}/{name}", f"{directory}/{name}{_CHECKSUM_SUFFIX}"):
        if os.path.isdir(path):
            return FoundOffsets({}, note=f"{path}: a directory; the broker renames it at its next start")
    return find_offsets(directory, name)


def find_offsets(directory: str, name: str) -> FoundOffsets:
    """The checkpoint `name` of a log directory. A damaged one counts as none: it is rebuilt from the logs.

    Raises LogDirectoryFailure when the disk does not give it.
    """
    path = f"{directory}/{name}"
    try:
        content = read_if_exists(path)
        checksums = _read_checksums(path)
    except IsADirectoryError:
        return FoundOffsets({}, note=f"{path}: a directory, renamed to {_set_aside(directory, path)}")
    except OSError as error:
        raise LogDirectoryFailure(directory, f"reading {path}", error) from error
    if not content and not checksums:
        return FoundOffsets({})  # Kafka makes an empty one at its first start
    if content is None:
        lost = f"{path}: missing; it is rebuilt from the logs"
        return FoundOffsets({}, note=lost)
    try:
        offsets = decode_offsets(content)
    except CorruptCheckpoint as error:
        return FoundOffsets({}, note=f"{path}: damaged ({error}); it is rebuilt from the logs")
    return FoundOffsets(offsets, is_proven=_checksum(content) in checksums)


def _read_checksums(path: str) -> list[bytes]:
    try:
        return (read_if_exists(path + _CHECKSUM_SUFFIX) or b"").split()
    except IsADirectoryError:
        set_aside(path + _CHECKSUM_SUFFIX)
        return []


def _set_aside(directory: str, path: str) -> str:
    try:
        return set_aside(path)
    except OSError as error:
        raise LogDirectoryFailure(directory, f"renaming {path}", error) from error


def _checksum(content: bytes) -> bytes:
    return b"%08x" % crc32c(content)


def read_offsets(directory: str, name: str) -> dict[TopicPartition, int]:
    """The checkpoint `name` of a log directory; empty when there is none.

    Raises CorruptCheckpoint, and LogDirectoryFailure when the disk does not give it.
    """
    path = f"{directory}/{name}"
    try:
        content = read_if_exists(path)
    except OSError as error:
        raise LogDirectoryFailure(directory, f"reading {path}", error) from error
    try:
        return decode_offsets(content) if content else {}
    except CorruptCheckpoint as error:
        raise CorruptCheckpoint(f"{path}: {error}") from None


def write_offsets(directory: str, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replaces the checkpoint, and waits until the disk has it: any thread may call it. Raises LogDirectoryFailure.

    The checksum goes first, and keeps the one before it: a crash between the two leaves a checkpoint that has one.
    """
    path, content = f"{directory}/{name}", encode_offsets(offsets)
    try:
        before = _read_checksums(path)[:1]
        write_atomically(path + _CHECKSUM_SUFFIX, b" ".join((_checksum(content), *before)), sync=False)
        write_atomically(path, content)
    except OSError as error:
        raise LogDirectoryFailure(directory, f"writing {name}", error) from error


# ---- clean replicas
#
# A start that looks into ten thousand folders, and opens their files, takes seconds for it. So a clean shutdown notes
# each replica's topic id, the time of its folder, and its log. A running broker adds notes of replicas that have
# changed and are idle again. While the folder has that time, no file in it was made, renamed or removed. While a
# segment's file has its size and time, nothing was written to it. A log of which all this holds is opened from the
# note alone: a start reads no file in its folder.
#
# The notes count after a clean shutdown. Without one they count only in the same boot of the machine
# (directory_lock.py): a machine that stops may keep the time of a file and lose its content.
#
# Each line is the CRC-32C of its rest, which is JSON. The last note of a replica counts. A damaged line, as a crash
# leaves it, is passed over.

CLEAN_REPLICAS_FILE = "odradek-clean-replicas"
_VERSION = 3
#: A line holds so many replicas at most.
_REPLICAS_PER_LINE = 1000
#: A file or a folder that was changed less than this before the note may change again at the same time by its clock, whose
#: ticks take some milliseconds.
QUIET_NS = 2_000_000_000


class CleanSegment(NamedTuple):
    """`size` and `modified_ns` are those of its `.log` file."""

    base_offset: int
    size: int
    modified_ns: int


class CleanLog(NamedTuple):
    """A log without damage. `epochs`: (leader epoch, start offset), both ascending. `snapshots`: offsets of the producer
    snapshots; that of the log's end is empty unless `has_producers`. `max_timestamp` and its offset are those of the last
    segment, as far as they are known. `are_epochs_written`: to their file.
    """

    start_offset: int
    end_offset: int
    segments: list[CleanSegment]
    snapshots: list[int]
    epochs: list[tuple[int, int]]
    has_producers: bool
    max_timestamp: int
    offset_of_max_timestamp: int
    are_epochs_written: bool


_SEGMENTS_AT = CleanLog._fields.index("segments")


class CleanReplica(NamedTuple):
    """`modified_ns`: the time of the replica's folder. `log`: None where its files have to be looked at."""

    topic_id: bytes
    modified_ns: int
    has_files: bool
    log: CleanLog | None = None


NotedReplicas = Iterable[tuple[TopicPartition, CleanReplica]]


def write_clean_replicas(directory: str, replicas: NotedReplicas) -> None:
    """Replaces all notes. Raises OSError."""
    write_atomically(f"{directory}/{CLEAN_REPLICAS_FILE}", _lines(replicas))


def add_clean_replicas(directory: str, replicas: NotedReplicas) -> int:
    """Adds notes, or replaces those of the same replicas. Returns the size of the file. Raises OSError.

    Nothing is synced, since notes of a running broker count only in the same boot.
    """
    fd = open_fd(f"{directory}/{CLEAN_REPLICAS_FILE}", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
    try:
        os.write(fd, _lines(replicas))  # a part of it is a damaged line
        return os.fstat(fd).st_size
    finally:
        os.close(fd)


def compact_clean_replicas(directory: str) -> int:
    """Removes notes that later ones replace. Returns the size of the file. Raises OSError."""
    content = _lines(read_clean_replicas(directory).items())
    write_atomically(f"{directory}/{CLEAN_REPLICAS_FILE}", content, sync=False)
    return len(content)


def _lines(replicas: NotedReplicas) -> bytes:
    ordered, lines = list(replicas), []
    for first in range(0, len(ordered), _REPLICAS_PER_LINE):
        topics: dict[tuple[str, bytes], list[tuple[int, int, int, CleanLog | None]]] = {}
        for (topic, partition), replica in ordered[first : first + _REPLICAS_PER_LINE]:
            entry = partition, replica.modified_ns, int(replica.has_files), replica.log
            topics.setdefault((topic, replica.topic_id), []).append(entry)
        listed = [[topic, topic_id.hex(), entries] for (topic, topic_id), entries in topics.items()]
        content = json.dumps([_VERSION, listed], separators=(",", ":")).encode()
        lines.append(b"%08x %b\n" % (crc32c(content), content))
    return b"".join(lines)


def read_clean_replicas(directory: str) -> dict[TopicPartition, CleanReplica]:
    """Returns none where the file is missing. Raises OSError."""
    found: dict[TopicPartition, CleanReplica] = {}
    try:
        lines = (read_if_exists(f"{directory}/{CLEAN_REPLICAS_FILE}") or b"").splitlines()
    except IsADirectoryError:
        return found
    for line in lines:
        checksum, _, content = line.partition(b" ")
        if checksum == b"%08x" % crc32c(content):
            version, listed = json.loads(content)
            if version == _VERSION:
                _add_replicas(listed, found)
    return found


def _add_replicas(listed: list[Any], found: dict[TopicPartition, CleanReplica]) -> None:
    """Adds the replicas of a line. The lists of JSON become the tuples' contents in place, since there are many."""
    segment_of, log_of, replica_of = CleanSegment._make, CleanLog._make, CleanReplica._make
    for topic, text, entries in listed:
        topic_id = bytes.fromhex(text)
        for partition, modified_ns, has_files, noted in entries:
            if noted is not None:
                noted[_SEGMENTS_AT] = list(map(segment_of, noted[_SEGMENTS_AT]))
                noted = log_of(noted)
            found[topic, partition] = replica_of((topic_id, modified_ns, bool(has_files), noted))


def folder_time(path: str) -> int | None:
    """Returns the time of a replica's folder in nanoseconds; None where it cannot be read, or is open to others, as older
    versions left it: a look at the folder takes their rights.
    """
    try:
        found = os.stat(path)
    except OSError:
        return None
    return None if found.st_mode & RIGHTS_OF_OTHERS else found.st_mtime_ns


# ---- files of many replicas

#: Size, time and mode of a file, as the kernel returns them.
_STATE = struct.Struct("=qqq")
_NO_FILE = 0, 0, -1


class NoteState(IntEnum):
    """How far the files of a replica are as its note has them."""

    #: There is no note, or the folder was changed.
    OUTDATED = 0
    #: Segments were changed, and no other file.
    SAME_FOLDER = 1
    SAME_FILES = 2


def compare_with_notes(replicas: Sequence[tuple[str, CleanReplica | None]]) -> list[NoteState]:
    """Compares the folder and the segments of each replica, of which it gets the path and the note, with the note.

    The compiled kernel (kernel/small_log.c) looks at all files in one call, which leaves the interpreter to other threads.
    """
    paths: list[str] = []
    for path, noted in replicas:
        if noted is not None:
            paths.append(path)
            if noted.log is not None:
                paths += [f"{path}/{segment[0]:020d}{LOG_SUFFIX}" for segment in noted.log.segments]
    states = _states_of(paths)
    return [NoteState.OUTDATED if noted is None else _compared(noted, states) for _, noted in replicas]


def _compared(noted: CleanReplica, states: Iterator[tuple[int, int, int]]) -> NoteState:
    """Takes the states of the replica's files from the iterator, whether the first ones are as noted or not."""
    _, modified_ns, mode = next(states)
    is_same_folder = mode >= 0 and not mode & RIGHTS_OF_OTHERS and modified_ns == noted.modified_ns
    are_same = True
    for segment in noted.log.segments if noted.log is not None else ():
        size, modified_ns, mode = next(states)
        are_same = are_same and mode >= 0 and size == segment.size and modified_ns == segment.modified_ns
    if not is_same_folder:
        return NoteState.OUTDATED
    return NoteState.SAME_FILES if are_same else NoteState.SAME_FOLDER


def _states_of(paths: list[str]) -> Iterator[tuple[int, int, int]]:
    if _kernel is None:
        return map(_state_of, paths)
    return _STATE.iter_unpack(_kernel(os.fsencode("\0".join((*paths, "")))))


def _state_of(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return _NO_FILE
    return found.st_size, found.st_mtime_ns, found.st_mode
