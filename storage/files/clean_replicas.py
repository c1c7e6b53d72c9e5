"""`odradek-clean-replicas`: the replicas of a log directory, as a clean shutdown left them.

A start that looks into ten thousand folders, and opens their files, takes seconds for it. So the shutdown notes each
replica's topic id, the time of its folder, and its log. While the folder has that time, no file in it was made, renamed or
removed. While a segment's file has its size and time, nothing was written to it. A log of which all this holds is opened
from the note alone: a start reads no file in its folder.

The first line is the CRC-32C of the rest, which is JSON. A damaged file counts as none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

from ...protocol.checksum import crc32c
from .checkpoints import TopicPartition
from .modes import RIGHTS_OF_OTHERS
from .open_files import read_if_exists, write_atomically

CLEAN_REPLICAS_FILE = "odradek-clean-replicas"
_VERSION = 2


class CleanSegment(NamedTuple):
    """`size` and `modified_ns` are those of its `.log` file."""

    base_offset: int
    size: int
    modified_ns: int


class CleanLog(NamedTuple):
    """A log that a clean shutdown has closed, without damage. `epochs`: (leader epoch, start offset), both ascending.
    `snapshots`: offsets of the producer snapshots; the last one is empty unless `has_producers`.
    """

    end_offset: int
    segments: list[CleanSegment]
    snapshots: list[int]
    epochs: list[tuple[int, int]]
    has_producers: bool


class CleanReplica(NamedTuple):
    """`modified_ns`: the time of the replica's folder. `log`: None where its files have to be looked at."""

    topic_id: bytes
    modified_ns: int
    has_files: bool
    log: CleanLog | None = None


def write_clean_replicas(directory: str, replicas: Iterable[tuple[TopicPartition, CleanReplica]]) -> None:
    """Raises OSError."""
    topics: dict[tuple[str, bytes], list[tuple[int, int, int, CleanLog | None]]] = {}
    for (topic, partition), replica in replicas:
        entry = partition, replica.modified_ns, int(replica.has_files), replica.log
        topics.setdefault((topic, replica.topic_id), []).append(entry)
    listed = [[topic, topic_id.hex(), entries] for (topic, topic_id), entries in topics.items()]
    content = json.dumps([_VERSION, listed], separators=(",", ":")).encode()
    write_atomically(f"{directory}/{CLEAN_REPLICAS_FILE}", b"%08x\n%b" % (crc32c(content), content))


def read_clean_replicas(directory: str) -> dict[TopicPartition, CleanReplica]:
    """Returns none where the file is missing or damaged. Raises OSError."""
    try:
        checksum, _, content = (read_if_exists(f"{directory}/{CLEAN_REPLICAS_FILE}") or b"").partition(b"\n")
        if checksum != b"%08x" % crc32c(content):
            return {}
        version, listed = json.loads(content)
    except (IsADirectoryError, ValueError):
        return {}
    if version != _VERSION:
        return {}
    return {
        (topic, partition): CleanReplica(topic_id, modified_ns, bool(has_files), _clean_log(noted))
        for topic, text, entries in listed
        for topic_id in (bytes.fromhex(text),)
        for partition, modified_ns, has_files, noted in entries
    }


def _clean_log(noted: list[Any] | None) -> CleanLog | None:
    if noted is None:
        return None
    end_offset, segments, snapshots, epochs, has_producers = noted
    return CleanLog(end_offset, [CleanSegment(*one) for one in segments], snapshots, epochs, has_producers)


def folder_time(path: str) -> int | None:
    """Returns the time of a replica's folder in nanoseconds; None where it cannot be read, or is open to others, as older
    versions left it: a look at the folder takes their rights.
    """
    try:
        found = os.stat(path)
    except OSError:
        return None
    return None if found.st_mode & RIGHTS_OF_OTHERS else found.st_mtime_ns
