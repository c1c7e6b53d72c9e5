"""The checkpoints of a log directory: one offset for each partition, in a text file that is replaced as a whole.

```
0                    version
2                    entries
orders 0 1234        topic, partition, offset
orders 1 17
```
"""

from __future__ import annotations

from collections.abc import Mapping

from .files import LogDirectoryFailure, read_if_exists, write_atomically

#: Below it, everything is on the disk: recovery starts there.
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
#: Where logs start that do not start with their first segment.
LOG_START_OFFSETS = "log-start-offset-checkpoint"
#: High watermarks.
HIGH_WATERMARKS = "replication-offset-checkpoint"
#: Up to where a log has been compacted.
CLEANER_OFFSETS = "cleaner-offset-checkpoint"

VERSION = 0

TopicPartition = tuple[str, int]


class CorruptCheckpoint(Exception):
    """The file is not a checkpoint."""


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    lines = [f"{topic} {partition} {offset}\n" for (topic, partition), offset in offsets.items()]
    return "".join((f"{VERSION}\n{len(lines)}\n", *lines)).encode()


def decode_offsets(content: bytes) -> dict[TopicPartition, int]:
    """Raises CorruptCheckpoint."""
    try:
        version, count, *lines = content.decode().splitlines()
        if int(version) != VERSION:
            raise CorruptCheckpoint(f"version {version} is not known")
        entries = [line.split(" ") for line in lines]
        offsets = {(topic, int(partition)): int(offset) for topic, partition, offset in entries}
        if int(count) != len(lines):
            raise CorruptCheckpoint(f"{len(lines)} entries, its head says {count}")
    except ValueError as error:
        raise CorruptCheckpoint(str(error)) from None
    return offsets


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
    """Replaces the checkpoint, and waits until the disk has it: any thread may call it. Raises LogDirectoryFailure."""
    try:
        write_atomically(f"{directory}/{name}", encode_offsets(offsets))
    except OSError as error:
        raise LogDirectoryFailure(directory, f"writing {name}", error) from error
