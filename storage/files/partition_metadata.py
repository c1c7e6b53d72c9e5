"""`partition.metadata`: which topic, by its id, a partition's directory belongs to (KIP-516).

```
version: 0
topic_id: 5I3mhVqkSGyYXlXPIvSLxA
```
"""

from __future__ import annotations

from functools import lru_cache

from ...protocol.uuids import uuid_from_text, uuid_to_text
from .writes import read_if_exists, write_atomically

PARTITION_METADATA = "partition.metadata"
_VERSION_LINE = "version: 0"
_TOPIC_ID = "topic_id: "
#: Two characters of the file's text.
_MOST_FLIPPED_BITS = 12


class CorruptPartitionMetadata(Exception):
    """The file does not name a topic id."""


@lru_cache(maxsize=256)
def encode_partition_metadata(topic_id: bytes) -> bytes:
    # As Kafka writes it: no newline at the end.
    return f"{_VERSION_LINE}\n{_TOPIC_ID}{uuid_to_text(topic_id)}".encode()


def decode_partition_metadata(content: bytes) -> bytes:
    """The topic id. Raises CorruptPartitionMetadata."""
    lines = content.decode(errors="replace").splitlines()
    if len(lines) < 2 or lines[0] != _VERSION_LINE or not lines[1].startswith(_TOPIC_ID):
        raise CorruptPartitionMetadata(f"no version 0 and topic id in {content[:100]!r}")
    try:
        return uuid_from_text(lines[1].removeprefix(_TOPIC_ID))
    except ValueError as error:
        raise CorruptPartitionMetadata(str(error)) from None


def is_damaged_copy(topic_id: bytes, expected: bytes) -> bool:
    """Returns whether an id that was read is the expected one, damaged: ids of two topics differ in half of their bits."""
    return 0 < (int.from_bytes(topic_id) ^ int.from_bytes(expected)).bit_count() <= _MOST_FLIPPED_BITS


def read_topic_id(path: str) -> bytes | None:
    """The topic id of the partition in the directory `path`; None when it has none yet."""
    content = read_if_exists(f"{path}/{PARTITION_METADATA}")
    return decode_partition_metadata(content) if content else None


def write_topic_id(path: str, topic_id: bytes, *, sync: bool = True) -> None:
    """To be there before the first record is, so that no log is ever taken for that of another topic."""
    write_atomically(f"{path}/{PARTITION_METADATA}", encode_partition_metadata(topic_id), sync=sync)
