"""`odradek-clean-replicas`: the replicas of a log directory, as they were when nothing was written to them for a while.

A start that looks into ten thousand folders, and opens their files, takes seconds for it. So a clean shutdown notes
each replica's topic id, the time of its folder, and its log. A running broker adds notes of replicas that have
changed and are idle again. While the folder has that time, no file in it was made, renamed or removed. While a
segment's file has its size and time, nothing was written to it. A log of which all this holds is opened from the
note alone: a start reads no file in its folder.

The notes count after a clean shutdown. Without one they count only in the same boot of the machine
(use_mark.py): a machine that stops may keep the time of a file and lose its content.

Each line is the CRC-32C of its rest, which is JSON. The last note of a replica counts. A damaged line, as a crash
leaves it, is passed over.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

from ...protocol.checksum import crc32c
from .checkpoints import TopicPartition
from .descriptors import open_fd
from .modes import RIGHTS_OF_OTHERS
from .writes import read_if_exists, write_atomically

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


def _add_replicas(listed: list[Any], replicas: dict[TopicPartition, CleanReplica]) -> None:
    """Adds the replicas of a line. The lists of JSON become the tuples' contents in place, since there are many."""
    segment_of, log_of, replica_of = CleanSegment._make, CleanLog._make, CleanReplica._make
    for topic, text, entries in listed:
        topic_id = bytes.fromhex(text)
        for partition, modified_ns, has_files, noted in entries:
            if noted is not None:
                noted[_SEGMENTS_AT] = list(map(segment_of, noted[_SEGMENTS_AT]))
                noted = log_of(noted)
            replicas[topic, partition] = replica_of((topic_id, modified_ns, bool(has_files), noted))


def folder_time(path: str) -> int | None:
    """Returns the time of a replica's folder in nanoseconds; None where it cannot be read, or is open to others, as older
    versions left it: a look at the folder takes their rights.
    """
    try:
        found = os.stat(path)
    except OSError:
        return None
    return None if found.st_mode & RIGHTS_OF_OTHERS else found.st_mtime_ns
