"""Checkpoints: one offset for each partition of a log directory, in a text file that is replaced as a whole.

```
0                    version
2                    entries
orders 0 1234        topic, partition, offset
orders 1 17
```

These files, which are Kafka's, have no checksum. Odradek keeps one beside each, `<name>.odradek-crc`: the CRC-32C
of what was last written, and of what was written before, in hexadecimal. A file with neither may be right, since
Kafka writes none, but its contents are not proven (`UNPROVEN` in log/ends.py).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from ...protocol.checksum import crc32c
from .failures import LogDirectoryFailure
from .writes import read_if_exists, set_aside, write_atomically

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
