"""FetchSnapshot (key 59): a piece of a snapshot of the KRaft log.

For a replica whose position is before the start of the leader's log: Fetch names the snapshot, this brings it, from a
position on. SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE (KIP-630).

Versions 0-1, all flexible. Additions by version:
- 1: directory id of the replica, and the leader's address (KIP-853)
"""

from __future__ import annotations

from ..schema import INT16, INT32, INT64, RECORDS, STRING, UUID, Message, Records, Request, array, message, struct, wire
from .quorum_endpoints import QuorumEndpoint


@struct
class FetchSnapshotId(Message):
    end_offset: int = wire(INT64)
    epoch: int = wire(INT32)


@struct
class PartitionSnapshotRequest(Message):
    partition: int = wire(INT32)
    current_leader_epoch: int = wire(INT32)
    snapshot_id: FetchSnapshotId = wire(FetchSnapshotId)
    position: int = wire(INT64)
    replica_directory_id: bytes = wire(UUID, "1+", tag=0)


@struct
class TopicSnapshotRequest(Message):
    name: str = wire(STRING)
    partitions: list[PartitionSnapshotRequest] = wire(array(PartitionSnapshotRequest))


@message("0-1", flexible="0+", key=59)
class FetchSnapshotRequest(Request["FetchSnapshotResponse"]):
    cluster_id: str | None = wire(STRING, nullable="0+", tag=0, default=None)
    replica_id: int = wire(INT32, default=-1)
    max_bytes: int = wire(INT32, default=2147483647)
    topics: list[TopicSnapshotRequest] = wire(array(TopicSnapshotRequest))


@struct
class SnapshotLeader(Message):
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)


@struct
class PartitionSnapshotResponse(Message):
    index: int = wire(INT32)
    error_code: int = wire(INT16)
    snapshot_id: FetchSnapshotId = wire(FetchSnapshotId)
    current_leader: SnapshotLeader = wire(SnapshotLeader, tag=0)
    size: int = wire(INT64)
    position: int = wire(INT64)
    unaligned_records: Records = wire(RECORDS)


@struct
class TopicSnapshotResponse(Message):
    name: str = wire(STRING)
    partitions: list[PartitionSnapshotResponse] = wire(array(PartitionSnapshotResponse))


@message("0-1", flexible="0+", key=59)
class FetchSnapshotResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    topics: list[TopicSnapshotResponse] = wire(array(TopicSnapshotResponse))
    node_endpoints: list[QuorumEndpoint] = wire(array(QuorumEndpoint), "1+", tag=0)
