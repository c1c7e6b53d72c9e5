"""Values of the records of `__remote_log_metadata`, in Kafka's format (KIP-405).

A value is three unsigned varints (the version of the frame, 1; the key of the record's type; the type's version, 0) and
the message (protocol/internal/remote_log_metadata.py). The record's key is null. Apache's class is
`RemoteLogMetadataSerde`.

A record comes from outside: other nodes, and everyone who may write to the topic. `decode_event` checks all of it, and
raises DamagedMetadata.
"""

from __future__ import annotations

from typing import TypeVar

from ..protocol.buffer import Buffer
from ..protocol.codec import MalformedMessage, decode, encode
from ..protocol.internal.remote_log_metadata import (
    RemoteLogSegmentIdEntry,
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataSnapshotRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
    SegmentLeaderEpochEntry,
    TopicIdPartitionEntry,
)
from ..protocol.schema import Message
from ..protocol.varint import encode_varint, varint
from .segment_metadata import (
    InvalidSegmentMetadata,
    RemoteLogMetadata,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
    check_custom_metadata,
    check_partition,
    check_segment,
)

_FRAME_VERSION = 1
_MESSAGE_VERSION = 0
_CLASSES: dict[int, type[Message]] = {
    0: RemoteLogSegmentMetadataRecord,
    1: RemoteLogSegmentMetadataUpdateRecord,
    2: RemotePartitionDeleteMetadataRecord,
    3: RemoteLogSegmentMetadataSnapshotRecord,
}
#: Kafka's default of `max.message.bytes`, doubled: a larger value is no metadata of a segment.
MOST_EVENT_BYTES = 2 << 20
S = TypeVar("S", RemoteLogSegmentState, RemotePartitionDeleteState)


class DamagedMetadata(ValueError):
    """The bytes are not a record of `__remote_log_metadata`, or its content cannot be true. The text has the reason."""


def encode_event(event: RemoteLogMetadata) -> bytes:
    """Returns the value of the record that Kafka writes for the event."""
    if isinstance(event, RemoteLogSegmentMetadata):
        return _framed(_segment_record(event))
    if isinstance(event, RemoteLogSegmentMetadataUpdate):
        return _framed(
            RemoteLogSegmentMetadataUpdateRecord(
                remote_log_segment_id=_segment_id_entry(event.partition, event.segment_id),
                broker_id=event.broker_id,
                event_timestamp_ms=event.event_timestamp_ms,
                custom_metadata=event.custom_metadata,
                remote_log_segment_state=event.state,
            )
        )
    return _framed(
        RemotePartitionDeleteMetadataRecord(
            topic_id_partition=_partition_entry(event.partition),
            broker_id=event.broker_id,
            event_timestamp_ms=event.event_timestamp_ms,
            remote_partition_delete_state=event.state,
        )
    )


def encode_snapshot_entry(segment: RemoteLogSegmentMetadata) -> bytes:
    """Returns the metadata of a segment without its partition, which the snapshot has once."""
    return _framed(
        RemoteLogSegmentMetadataSnapshotRecord(
            segment_id=segment.segment_id,
            start_offset=segment.start_offset,
            end_offset=segment.end_offset,
            broker_id=segment.broker_id,
            max_timestamp_ms=segment.max_timestamp_ms,
            event_timestamp_ms=segment.event_timestamp_ms,
            segment_leader_epochs=_epoch_entries(segment),
            segment_size_in_bytes=segment.size_bytes,
            custom_metadata=segment.custom_metadata,
            remote_log_segment_state=segment.state,
            txn_index_empty=segment.txn_index_empty,
        )
    )


def decode_event(value: Buffer) -> RemoteLogMetadata:
    """Decodes and checks the value of a record. Raises DamagedMetadata."""
    message = _unframed(value)
    try:
        if isinstance(message, RemoteLogSegmentMetadataRecord):
            entry = message.remote_log_segment_id
            return _segment(message, _partition(entry.topic_id_partition), entry.id)
        if isinstance(message, RemoteLogSegmentMetadataUpdateRecord):
            return _update(message)
        if isinstance(message, RemotePartitionDeleteMetadataRecord):
            partition = _partition(message.topic_id_partition)
            check_partition(partition)
            state = _state(RemotePartitionDeleteState, message.remote_partition_delete_state)
            return RemotePartitionDeleteMetadata(partition, message.broker_id, message.event_timestamp_ms, state)
    except InvalidSegmentMetadata as error:
        raise DamagedMetadata(str(error)) from None
    raise DamagedMetadata(f"a {type(message).__name__}, which belongs into a snapshot")


def decode_snapshot_entry(value: Buffer, partition: TopicIdPartition) -> RemoteLogSegmentMetadata:
    """Decodes and checks an entry of a snapshot. Raises DamagedMetadata."""
    message = _unframed(value)
    if not isinstance(message, RemoteLogSegmentMetadataSnapshotRecord):
        raise DamagedMetadata(f"a {type(message).__name__} in a snapshot")
    try:
        return _segment(message, partition, message.segment_id)
    except InvalidSegmentMetadata as error:
        raise DamagedMetadata(str(error)) from None


def _framed(message: Message) -> bytes:
    key = type(message).SCHEMA.key
    assert key is not None, f"{type(message).__name__} has no key"
    head = encode_varint(_FRAME_VERSION) + encode_varint(key) + encode_varint(_MESSAGE_VERSION)
    return head + encode(message, _MESSAGE_VERSION)


def _unframed(value: Buffer) -> Message:
    if len(value) > MOST_EVENT_BYTES:
        raise DamagedMetadata(f"{len(value)} bytes, over {MOST_EVENT_BYTES}")
    try:
        frame_version, position = varint(value, 0)
        key, position = varint(value, position)
        version, position = varint(value, position)
    except (ValueError, IndexError):
        raise DamagedMetadata(f"the frame is cut short: {bytes(value[:16]).hex()}") from None
    cls = _CLASSES.get(key)
    if frame_version != _FRAME_VERSION or cls is None or version != _MESSAGE_VERSION:
        raise DamagedMetadata(f"unknown record: frame {frame_version}, key {key}, version {version}")
    try:
        message, end = decode(cls, version, value, position)
    except MalformedMessage as error:
        raise DamagedMetadata(str(error)) from None
    if end != len(value):
        raise DamagedMetadata(f"{len(value) - end} bytes after a {cls.__name__}")
    return message


def _segment_record(segment: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadataRecord:
    return RemoteLogSegmentMetadataRecord(
        remote_log_segment_id=_segment_id_entry(segment.partition, segment.segment_id),
        start_offset=segment.start_offset,
        end_offset=segment.end_offset,
        broker_id=segment.broker_id,
        max_timestamp_ms=segment.max_timestamp_ms,
        event_timestamp_ms=segment.event_timestamp_ms,
        segment_leader_epochs=_epoch_entries(segment),
        segment_size_in_bytes=segment.size_bytes,
        custom_metadata=segment.custom_metadata,
        remote_log_segment_state=segment.state,
        txn_index_empty=segment.txn_index_empty,
    )


def _segment(
    message: RemoteLogSegmentMetadataRecord | RemoteLogSegmentMetadataSnapshotRecord,
    partition: TopicIdPartition,
    segment_id: bytes,
) -> RemoteLogSegmentMetadata:
    """Raises InvalidSegmentMetadata."""
    found = RemoteLogSegmentMetadata(
        partition=partition,
        segment_id=segment_id,
        start_offset=message.start_offset,
        end_offset=message.end_offset,
        max_timestamp_ms=message.max_timestamp_ms,
        broker_id=message.broker_id,
        event_timestamp_ms=message.event_timestamp_ms,
        size_bytes=message.segment_size_in_bytes,
        # Kafka keeps them in a map: in the order of the epochs.
        epochs=tuple(sorted((one.leader_epoch, one.offset) for one in message.segment_leader_epochs)),
        state=_state(RemoteLogSegmentState, message.remote_log_segment_state),
        custom_metadata=message.custom_metadata,
        txn_index_empty=message.txn_index_empty,
    )
    check_segment(found)
    return found


def _update(message: RemoteLogSegmentMetadataUpdateRecord) -> RemoteLogSegmentMetadataUpdate:
    """Raises InvalidSegmentMetadata."""
    entry = message.remote_log_segment_id
    partition = _partition(entry.topic_id_partition)
    check_partition(partition)
    check_custom_metadata(message.custom_metadata)
    state = _state(RemoteLogSegmentState, message.remote_log_segment_state)
    return RemoteLogSegmentMetadataUpdate(
        partition, entry.id, message.broker_id, message.event_timestamp_ms, state, message.custom_metadata
    )


def _state(kind: type[S], number: int) -> S:
    """Raises InvalidSegmentMetadata."""
    try:
        return kind(number)
    except ValueError:
        raise InvalidSegmentMetadata(f"{number} is not a {kind.__name__}") from None


def _partition(entry: TopicIdPartitionEntry) -> TopicIdPartition:
    return TopicIdPartition(entry.id, entry.name, entry.partition)


def _partition_entry(partition: TopicIdPartition) -> TopicIdPartitionEntry:
    return TopicIdPartitionEntry(name=partition.topic, id=partition.topic_id, partition=partition.partition)


def _segment_id_entry(partition: TopicIdPartition, segment_id: bytes) -> RemoteLogSegmentIdEntry:
    return RemoteLogSegmentIdEntry(topic_id_partition=_partition_entry(partition), id=segment_id)


def _epoch_entries(segment: RemoteLogSegmentMetadata) -> list[SegmentLeaderEpochEntry]:
    return [SegmentLeaderEpochEntry(leader_epoch=epoch, offset=offset) for epoch, offset in segment.epochs]
