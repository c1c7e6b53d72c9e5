"""The snapshot of one metadata partition's caches: a start reads only the events since (KIP-405).

All numbers are big-endian. `bytes` are preceded by their length as uint32.

| field | type |
|---|---|
| magic | 8 bytes, `ODRTIER` and the version, 4 |
| id of the metadata topic | 16 bytes |
| metadata partition | uint32 |
| next offset | int64; events below it are in the snapshot |
| followed partitions | uint32, then each of them |
| deletions that have not ended | uint32, then each of them |
| partitions of which the store may have something | uint32, then each of them |
| damaged records | uint32, the number of those that follow, and each of them |
| CRC-32C of all before it | uint32 |

A followed partition is its topic's id (16 bytes), topic (bytes), partition (uint32), delete state (int8, -1 for none), its
segments (uint32, each as bytes: Kafka's snapshot record), and its epochs (uint32; each epoch int32, highest offset int64,
references uint32 of start offset int64 and id 16 bytes). A deletion is topic id, topic, partition, and broker (int32),
state (int8) and offset (int64) of its last event. Other partitions are topic id, topic, and partition. A damaged record is
its offset (int64) and the reason (bytes).

The file is only a shortcut: one that is damaged, or of another topic or partition, counts as none.
"""

from __future__ import annotations

import struct

from ..protocol.checksum import crc32c
from ..storage.files.writes import read_if_exists, write_atomically
from .cache import EpochReferences
from .events import DamagedMetadata, decode_snapshot_entry, encode_snapshot_entry
from .metadata_topic import Deletion, Followed, MetadataPartition
from .segment_metadata import (
    InvalidSegmentMetadata,
    RemoteLogSegmentMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
    check_partition,
)

_MAGIC = b"ODRTIER\x04"
_SNAPSHOT_HEAD = struct.Struct(">8s16sIqI")
_UINT32 = struct.Struct(">I")
_STATE = struct.Struct(">b")
_EPOCH = struct.Struct(">iqI")
_OFFSET = struct.Struct(">q")
_DELETION = struct.Struct(">ibq")
_DAMAGE = struct.Struct(">II")
_NO_STATE = -1


class CorruptSnapshot(Exception):
    """The file is damaged, or is of another topic or partition. The metadata topic is read from its start."""


def encode_snapshot(topic_id: bytes, metadata: MetadataPartition) -> bytes:
    """Returns the content of the file, of a metadata partition that `may_be_saved`."""
    assert metadata.may_be_saved, "a partition is still read"
    next_offset = metadata.fetch_offset
    content = bytearray(_SNAPSHOT_HEAD.pack(_MAGIC, topic_id, metadata.number, next_offset, len(metadata.followed)))
    for partition, followed in metadata.followed.items():
        _write_followed(content, partition, followed)
    content += _UINT32.pack(len(metadata.deletions))
    for partition, deletion in metadata.deletions.items():
        _write_partition(content, partition)
        content += _DELETION.pack(*deletion)
    stored = [partition for partitions in metadata.stored.values() for partition in partitions]
    content += _UINT32.pack(len(stored))
    for partition in stored:
        _write_partition(content, partition)
    content += _DAMAGE.pack(metadata.damaged_records, len(metadata.damaged))
    for damaged in metadata.damaged:
        content += _OFFSET.pack(damaged.offset)
        _write_bytes(content, damaged.reason.encode(errors="backslashreplace"))
    return bytes(content + _UINT32.pack(crc32c(content)))


def _write_partition(content: bytearray, partition: TopicIdPartition) -> None:
    content += partition.topic_id
    _write_bytes(content, partition.topic.encode())
    content += _UINT32.pack(partition.partition)


def _write_followed(content: bytearray, partition: TopicIdPartition, followed: Followed) -> None:
    _write_partition(content, partition)
    content += _STATE.pack(_NO_STATE if followed.delete_state is None else followed.delete_state)
    segments, epochs = followed.cache.segments(), followed.cache.references()
    content += _UINT32.pack(len(segments))
    for segment in segments:
        _write_bytes(content, encode_snapshot_entry(segment))
    content += _UINT32.pack(len(epochs))
    for epoch, highest_offset, references in epochs:
        content += _EPOCH.pack(epoch, highest_offset, len(references))
        for start, segment_id in references:
            content += _OFFSET.pack(start) + segment_id


def _write_bytes(content: bytearray, data: bytes) -> None:
    content += _UINT32.pack(len(data))
    content += data


def decode_snapshot(content: bytes, topic_id: bytes, number: int) -> MetadataPartition:
    """Returns the metadata partition as of the snapshot. Raises CorruptSnapshot.

    Its partitions are ready up to the snapshot's offset; `begin_at` moves that to the present end.
    """
    body = memoryview(content)[: -_UINT32.size]
    if len(content) < _SNAPSHOT_HEAD.size + _UINT32.size or _UINT32.pack(crc32c(body)) != content[-_UINT32.size :]:
        raise CorruptSnapshot(f"{len(content)} bytes with a wrong CRC-32C")
    magic, found_id, found_number, next_offset, count = _SNAPSHOT_HEAD.unpack_from(body)
    if magic != _MAGIC:
        raise CorruptSnapshot(f"unknown format {magic!r}")
    if (found_id, found_number) != (topic_id, number) or next_offset < 0:
        raise CorruptSnapshot(f"a snapshot of partition {found_number} of topic {found_id.hex()} at {next_offset}")
    metadata, reader = MetadataPartition(number), _Reader(body, _SNAPSHOT_HEAD.size)
    metadata.deletions_offset = next_offset
    try:
        for _ in range(count):
            _read_followed(reader, metadata, next_offset)
        for _ in range(*reader.unpack(_UINT32)):
            partition = _read_partition(reader)
            broker_id, state, offset = reader.unpack(_DELETION)
            metadata.deletions[partition] = Deletion(broker_id, RemotePartitionDeleteState(state), offset)
        for _ in range(*reader.unpack(_UINT32)):
            partition = _read_partition(reader)
            metadata.stored.setdefault(partition.topic_id, set()).add(partition)
        _read_damage(reader, metadata)
    except (struct.error, ValueError, DamagedMetadata, InvalidSegmentMetadata) as error:
        raise CorruptSnapshot(str(error)) from None
    if reader.position != len(body):
        raise CorruptSnapshot(f"{len(body) - reader.position} bytes after the last partition")
    return metadata


def _read_damage(reader: _Reader, metadata: MetadataPartition) -> None:
    total, count = reader.unpack(_DAMAGE)
    for _ in range(count):
        (offset,) = reader.unpack(_OFFSET)
        metadata.skip(offset, reader.data().decode())
    metadata.damaged_records = total


class _Reader:
    """A position in the content. Raises struct.error and ValueError at its end."""

    def __init__(self, content: memoryview, position: int) -> None:
        self._content = content
        self.position = position

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        found = layout.unpack_from(self._content, self.position)
        self.position += layout.size
        return found

    def raw(self, size: int) -> bytes:
        found = bytes(self._content[self.position : self.position + size])
        if len(found) != size:
            raise ValueError(f"{size} bytes at {self.position}, {len(found)} are left")
        self.position += size
        return found

    def data(self) -> bytes:
        return self.raw(*self.unpack(_UINT32))


def _read_partition(reader: _Reader) -> TopicIdPartition:
    topic_id = reader.raw(16)
    topic = reader.data().decode()
    (number,) = reader.unpack(_UINT32)
    partition = TopicIdPartition(topic_id, topic, number)
    check_partition(partition)
    return partition


def _read_followed(reader: _Reader, metadata: MetadataPartition, next_offset: int) -> None:
    partition = _read_partition(reader)
    followed = metadata.follow(partition, next_offset)
    followed.next_offset = next_offset
    (state,) = reader.unpack(_STATE)
    followed.delete_state = None if state == _NO_STATE else RemotePartitionDeleteState(state)
    (count,) = reader.unpack(_UINT32)
    segments: list[RemoteLogSegmentMetadata] = [decode_snapshot_entry(reader.data(), partition) for _ in range(count)]
    (count,) = reader.unpack(_UINT32)
    followed.cache.restore(segments, [_read_epoch(reader) for _ in range(count)])


def _read_epoch(reader: _Reader) -> EpochReferences:
    epoch, highest_offset, count = reader.unpack(_EPOCH)
    references = []
    for _ in range(count):
        (start,) = reader.unpack(_OFFSET)
        references.append((start, reader.raw(16)))
    return EpochReferences(epoch, highest_offset, tuple(references))


def read_any_snapshot(path: str) -> MetadataPartition:
    """Returns the content of the file, of whatever metadata topic and partition. Raises CorruptSnapshot and OSError."""
    content = read_if_exists(path) or b""
    if len(content) < _SNAPSHOT_HEAD.size:
        raise CorruptSnapshot(f"{len(content)} bytes")
    _, topic_id, number, _, _ = _SNAPSHOT_HEAD.unpack_from(content)
    return decode_snapshot(content, topic_id, number)


def write_snapshot(path: str, topic_id: bytes, metadata: MetadataPartition) -> None:
    """Replaces the file, and waits until the disk has it. Raises OSError."""
    write_atomically(path, encode_snapshot(topic_id, metadata))


def read_snapshot(path: str, topic_id: bytes, number: int) -> MetadataPartition | None:
    """Returns the content of the file; None if there is none. Raises CorruptSnapshot and OSError."""
    content = read_if_exists(path)
    return None if content is None else decode_snapshot(content, topic_id, number)
