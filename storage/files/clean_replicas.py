"""`odradek-clean-replicas`: the replicas of a log directory, as a clean shutdown left them.

A start that looks into ten thousand folders takes a second for it. So the shutdown notes each replica's topic id, the time
of its folder, and whether its log has files. While the folder has that time, no file in it was made, renamed or removed,
and a start looks into it only for a log that has files.

The first line is the CRC-32C of the rest, which is JSON. A damaged file counts as none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import NamedTuple

from ...protocol.checksum import crc32c
from .checkpoints import TopicPartition
from .open_files import read_if_exists, write_atomically

CLEAN_REPLICAS_FILE = "odradek-clean-replicas"
_VERSION = 1


class CleanReplica(NamedTuple):
    """`modified_ns`: the time of the replica's folder."""

    topic_id: bytes
    modified_ns: int
    has_files: bool


def write_clean_replicas(directory: str, replicas: Iterable[tuple[TopicPartition, CleanReplica]]) -> None:
    """Raises OSError."""
    topics: dict[tuple[str, bytes], list[tuple[int, int, int]]] = {}
    for (topic, partition), replica in replicas:
        entry = partition, replica.modified_ns, int(replica.has_files)
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
        (topic, partition): CleanReplica(topic_id, modified_ns, bool(has_files))
        for topic, text, entries in listed
        for topic_id in (bytes.fromhex(text),)
        for partition, modified_ns, has_files in entries
    }


def folder_time(path: str) -> int | None:
    """Returns the time of a replica's folder in nanoseconds; None where it cannot be read."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None
