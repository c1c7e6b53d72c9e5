"""The consumption of one partition of `__remote_log_metadata`, as a pure state machine, and its snapshot (KIP-405).

A broker follows the metadata partitions of the partitions that it hosts. `fetch_offset` is the next offset to fetch; the
caller fetches records, hands each to `consume`, and then the end of the fetched range to `advance`.

| state of a followed partition | meaning |
|---|---|
| not ready | events that existed when it was followed are not read yet: nothing may be concluded from the cache |
| ready | all of them are read; the cache follows the topic |
| doubtful | ready, but a record in the metadata partition is damaged: no copy and no deletion is decided on the cache |

A partition that is followed later has the metadata partition read again from its start; what others have read already is
skipped for them.

Of all partitions, followed or not, two things are known: deletions that have begun and not ended (`deletions`), and whether
the store may have something of them (`stored`).
"""

from __future__ import annotations

import struct
from collections import deque
from typing import NamedTuple

from ..protocol.checksum import crc32c
from ..protocol.varint import Buffer
from ..storage.files.open_files import read_if_exists, write_atomically
from .cache import Applied, EpochReferences, RemoteLogMetadataCache
from .events import DamagedMetadata, decode_event, decode_snapshot_entry, encode_snapshot_entry
from .segment_metadata import (
    DELETE_PARTITION_FINISHED,
    DELETE_PARTITION_MARKED,
    VALID_PREVIOUS_DELETE_STATES,
    InvalidSegmentMetadata,
    RemoteLogMetadata,
    RemoteLogSegmentMetadata,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
    check_partition,
)

#: Damaged records whose offsets are kept, for the operator: the first ones.
_MOST_DAMAGE = 100
_INT32 = 1 << 32


def metadata_partition(partition: TopicIdPartition, count: int) -> int:
    """Returns the partition of the metadata topic, which has `count`, for the events of a partition.

    Kafka's `RemoteLogMetadataTopicPartitioner`: murmur2 of Java's hash of the halves of the topic's id and the partition.
    """
    most, least = int.from_bytes(partition.topic_id[:8]), int.from_bytes(partition.topic_id[8:])
    hashed = 1
    for value in (least ^ least >> 32, most ^ most >> 32, partition.partition):
        hashed = (31 * hashed + value) % _INT32
    return (_murmur2(hashed.to_bytes(4)) & 0x7FFFFFFF) % count


def _murmur2(data: bytes) -> int:
    """Returns Kafka's murmur2 of four bytes, as an unsigned number."""
    factor = 0x5BD1E995
    k = int.from_bytes(data, "little") * factor % _INT32
    k = (k ^ k >> 24) * factor % _INT32
    h = (0x9747B28C ^ len(data)) * factor % _INT32 ^ k
    h = (h ^ h >> 13) * factor % _INT32
    return h ^ h >> 15


class DamagedRecord(NamedTuple):
    """A record that was skipped."""

    offset: int
    reason: str


class Followed:
    """A partition whose events are read."""

    __slots__ = ("cache", "delete_state", "next_offset", "ready_at")

    def __init__(self, ready_at: int) -> None:
        self.cache = RemoteLogMetadataCache()
        self.delete_state: RemotePartitionDeleteState | None = None
        #: Events below it are in the cache.
        self.next_offset = 0
        #: The partition is ready when all below this offset is read.
        self.ready_at = ready_at

    @property
    def is_ready(self) -> bool:
        return self.next_offset >= self.ready_at


class Deletion(NamedTuple):
    """A partition's deletion that has not ended. `offset` is that of the last event of the partition."""

    broker_id: int
    state: RemotePartitionDeleteState
    offset: int


class MetadataPartition:
    """`followed` are the partitions whose events are read, `damaged` the first records that could not be decoded."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.followed: dict[TopicIdPartition, Followed] = {}
        self.deletions: dict[TopicIdPartition, Deletion] = {}
        #: Partitions with events, and no DELETE_PARTITION_FINISHED behind them, by the ids of their topics.
        self.stored: dict[bytes, set[TopicIdPartition]] = {}
        #: Events below it are in `deletions` and in `stored`.
        self.deletions_offset = 0
        self.damaged: deque[DamagedRecord] = deque(maxlen=_MOST_DAMAGE)
        self._seen_damage_up_to = 0
        #: Events of followed partitions that changed nothing, since the start.
        self.ignored_events = 0

    @property
    def is_doubtful(self) -> bool:
        """Returns whether an event may be missing in the caches."""
        return bool(self.damaged)

    @property
    def may_be_saved(self) -> bool:
        """Returns whether a snapshot has all that was read: a start must find damaged records again."""
        offsets = {self.deletions_offset, *(one.next_offset for one in self.followed.values())}
        return len(offsets) == 1 and not self.is_doubtful

    @property
    def fetch_offset(self) -> int:
        """The next offset to fetch."""
        return min((one.next_offset for one in self.followed.values()), default=self.deletions_offset)

    def follow(self, partition: TopicIdPartition, end_offset: int) -> Followed:
        """Begins to read a partition's events. `end_offset`: the present end of the metadata partition."""
        assert end_offset >= 0, f"the metadata partition ends at {end_offset}"
        found = self.followed.get(partition)
        if found is None:
            found = self.followed[partition] = Followed(end_offset)
        return found

    def unfollow(self, partition: TopicIdPartition) -> None:
        self.followed.pop(partition, None)

    def begin_at(self, log_start_offset: int, end_offset: int) -> None:
        """Takes note of where the metadata partition starts and ends, before the first fetch and after a reset.

        A cache misses events if they were removed before it read them, and has too many if the topic was cut below what it
        has read. Such a cache is read again from the start.
        """
        for one in self.followed.values():
            if 0 < one.next_offset < log_start_offset or one.next_offset > end_offset:
                one.cache, one.delete_state, one.next_offset = RemoteLogMetadataCache(), None, 0
            one.next_offset = max(one.next_offset, log_start_offset)
            one.ready_at = end_offset
        if 0 < self.deletions_offset < log_start_offset or self.deletions_offset > end_offset:
            self.deletions, self.stored, self.deletions_offset = {}, {}, 0
        self.deletions_offset = max(self.deletions_offset, log_start_offset)
        self.damaged = deque((one for one in self.damaged if log_start_offset <= one.offset < end_offset), _MOST_DAMAGE)
        self._seen_damage_up_to = min(self._seen_damage_up_to, end_offset)

    def consume(self, offset: int, value: Buffer | None) -> Applied | None:
        """Applies the record at `offset`. Returns the effect; None for a record that is of no followed partition, is
        already applied, or is damaged.
        """
        try:
            if value is None:
                raise DamagedMetadata("a record without a value")
            event = decode_event(value)
        except DamagedMetadata as error:
            self._note_damage(offset, str(error))
            return None
        if offset >= self.deletions_offset:
            self._note_deletion(offset, event)
        followed = self.followed.get(event.partition)
        if followed is None or offset < followed.next_offset:
            return None
        followed.next_offset = offset + 1
        if isinstance(event, RemotePartitionDeleteMetadata):
            applied = _apply_deletion(followed, event.state)
        else:
            applied = followed.cache.apply(event)
        self.ignored_events += applied is not Applied.APPLIED
        return applied

    def advance(self, next_offset: int) -> None:
        """All records from `fetch_offset` to before `next_offset` were consumed; others are gone."""
        self.deletions_offset = max(self.deletions_offset, next_offset)
        for one in self.followed.values():
            one.next_offset = max(one.next_offset, next_offset)

    def _note_deletion(self, offset: int, event: RemoteLogMetadata) -> None:
        self.deletions_offset = offset + 1
        partition = event.partition
        known = self.deletions.get(partition)
        is_finished = isinstance(event, RemotePartitionDeleteMetadata) and event.state is DELETE_PARTITION_FINISHED
        if not is_finished:
            self.stored.setdefault(partition.topic_id, set()).add(partition)
        elif (stored := self.stored.get(partition.topic_id)) is not None:
            stored.discard(partition)
            if not stored:
                del self.stored[partition.topic_id]
        if not isinstance(event, RemotePartitionDeleteMetadata):
            if known is not None:
                self.deletions[partition] = known._replace(offset=offset)
        elif is_finished:
            self.deletions.pop(partition, None)
        elif known is not None or event.state is DELETE_PARTITION_MARKED:
            self.deletions[partition] = Deletion(event.broker_id, event.state, offset)

    def _note_damage(self, offset: int, reason: str) -> None:
        if offset >= self._seen_damage_up_to:
            self._seen_damage_up_to = offset + 1
            if len(self.damaged) < _MOST_DAMAGE:
                self.damaged.append(DamagedRecord(offset, reason))


def _apply_deletion(followed: Followed, state: RemotePartitionDeleteState) -> Applied:
    if followed.delete_state not in VALID_PREVIOUS_DELETE_STATES[state]:
        return Applied.INVALID_TRANSITION
    followed.delete_state = state
    if state is DELETE_PARTITION_FINISHED:
        followed.cache = RemoteLogMetadataCache()
    return Applied.APPLIED


# ---- the snapshot of one metadata partition's caches: a start reads only the events since (KIP-405)
#
# All numbers are big-endian. `bytes` are preceded by their length as uint32.
#
# | field | type |
# |---|---|
# | magic | 8 bytes, `ODRTIER` and the version, 3 |
# | id of the metadata topic | 16 bytes |
# | metadata partition | uint32 |
# | next offset | int64; events below it are in the snapshot |
# | followed partitions | uint32, then each of them |
# | deletions that have not ended | uint32, then each of them |
# | partitions of which the store may have something | uint32, then each of them |
# | CRC-32C of all before it | uint32 |
#
# A followed partition is its topic's id (16 bytes), topic (bytes), partition (uint32), delete state (int8, -1 for none), its
# segments (uint32, each as bytes: Kafka's snapshot record), and its epochs (uint32; each epoch int32, highest offset int64,
# references uint32 of start offset int64 and id 16 bytes). A deletion is topic id, topic, partition, and broker (int32),
# state (int8) and offset (int64) of its last event. Other partitions are topic id, topic, and partition.
#
# The file is only a shortcut: one that is damaged, or of another topic or partition, counts as none.

_MAGIC = b"ODRTIER\x03"
_SNAPSHOT_HEAD = struct.Struct(">8s16sIqI")
_UINT32 = struct.Struct(">I")
_STATE = struct.Struct(">b")
_EPOCH = struct.Struct(">iqI")
_OFFSET = struct.Struct(">q")
_DELETION = struct.Struct(">ibq")
_NO_STATE = -1


class CorruptSnapshot(Exception):
    """The file is damaged, or is of another topic or partition. The metadata topic is read from its start."""


def encode_snapshot(topic_id: bytes, metadata: MetadataPartition) -> bytes:
    """Returns the content of the file, of a metadata partition that `may_be_saved`."""
    assert metadata.may_be_saved, "a partition is still read, or a record is damaged"
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
    except (struct.error, ValueError, DamagedMetadata, InvalidSegmentMetadata) as error:
        raise CorruptSnapshot(str(error)) from None
    if reader.position != len(body):
        raise CorruptSnapshot(f"{len(body) - reader.position} bytes after the last partition")
    return metadata


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
