"""Records of `__remote_log_metadata`: the content of tiered storage, shared between brokers (KIP-405).

A record's value is frame version (1), type and version as varints, then the message (tiers/events.py). Each copied segment is
added, and updated as it is copied or deleted; a partition's deletion is marked.
"""

from __future__ import annotations

from ..schema import BOOL, BYTES, INT8, INT32, INT64, STRING, UUID, Message, array, message, struct, wire


@struct
class TopicIdPartitionEntry(Message):
    name: str = wire(STRING)
    id: bytes = wire(UUID)
    partition: int = wire(INT32)


@struct
class RemoteLogSegmentIdEntry(Message):
    topic_id_partition: TopicIdPartitionEntry = wire(TopicIdPartitionEntry)
    id: bytes = wire(UUID)


@struct
class SegmentLeaderEpochEntry(Message):
    leader_epoch: int = wire(INT32)
    offset: int = wire(INT64)


@message("0", flexible="0+", key=0)
class RemoteLogSegmentMetadataRecord(Message):
    remote_log_segment_id: RemoteLogSegmentIdEntry = wire(RemoteLogSegmentIdEntry)
    start_offset: int = wire(INT64)
    end_offset: int = wire(INT64)
    broker_id: int = wire(INT32)
    max_timestamp_ms: int = wire(INT64)
    event_timestamp_ms: int = wire(INT64)
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = wire(array(SegmentLeaderEpochEntry))
    segment_size_in_bytes: int = wire(INT32)
    custom_metadata: bytes | None = wire(BYTES, nullable="0+", default=None)
    remote_log_segment_state: int = wire(INT8)
    txn_index_empty: bool = wire(BOOL, tag=0)


@message("0", flexible="0+", key=1)
class RemoteLogSegmentMetadataUpdateRecord(Message):
    remote_log_segment_id: RemoteLogSegmentIdEntry = wire(RemoteLogSegmentIdEntry)
    broker_id: int = wire(INT32)
    event_timestamp_ms: int = wire(INT64)
    custom_metadata: bytes | None = wire(BYTES, nullable="0+", default=None)
    remote_log_segment_state: int = wire(INT8)


@message("0", flexible="0+", key=2)
class RemotePartitionDeleteMetadataRecord(Message):
    topic_id_partition: TopicIdPartitionEntry = wire(TopicIdPartitionEntry)
    broker_id: int = wire(INT32)
    event_timestamp_ms: int = wire(INT64)
    remote_partition_delete_state: int = wire(INT8)


@message("0", flexible="0+", key=3)
class RemoteLogSegmentMetadataSnapshotRecord(Message):
    segment_id: bytes = wire(UUID)
    start_offset: int = wire(INT64)
    end_offset: int = wire(INT64)
    broker_id: int = wire(INT32)
    max_timestamp_ms: int = wire(INT64)
    event_timestamp_ms: int = wire(INT64)
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = wire(array(SegmentLeaderEpochEntry))
    segment_size_in_bytes: int = wire(INT32)
    custom_metadata: bytes | None = wire(BYTES, nullable="0+", default=None)
    remote_log_segment_state: int = wire(INT8)
    txn_index_empty: bool = wire(BOOL, tag=0)
