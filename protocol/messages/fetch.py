"""Fetch (key 1): record batches from an offset on, for consumers, followers and the KRaft quorum.

Batches come whole, from the one that holds the offset; the first is given even if it is over the limits, so that a
reader always gets on. The response waits until `min_bytes` are there or `max_wait_ms` have passed. A session (KIP-227)
lets the request name only what changed and the response only what is new: session 0 epoch -1 is a full fetch without
one, epoch 0 starts one. `isolation_level` 1 ends at the last stable offset and lists the aborted transactions.
Followers report by the offset what they have.

Versions 4-18, flexible from 12. Additions by version:
- 5: log start offset, both ways
- 6: may answer KAFKA_STORAGE_ERROR
- 7: fetch sessions (KIP-227)
- 9: leader epoch of the reader, fenced by it (KIP-320)
- 10: responses may hold zstd (KIP-110)
- 11: rack, and the replica that is preferred for it (KIP-392)
- 12: epoch of the last record fetched, and where logs diverge (KIP-595)
- 13: topics by id (KIP-516)
- 14: may answer OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405)
- 15: replica id and its broker's epoch in one structure (KIP-903)
- 16: the current leader's address (KIP-951)
- 17: directory id of a KRaft replica (KIP-853)
- 18: the high watermark of the KRaft replica, so that the leader sends a newer one at once (KIP-1166)
"""

from __future__ import annotations

from ..schema import (
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UUID,
    Message,
    Records,
    Request,
    array,
    message,
    struct,
    wire,
)
from .leader_id_and_epoch import LeaderIdAndEpoch
from .node_endpoints import NodeEndpoint


@struct
class ReplicaState(Message):
    replica_id: int = wire(INT32, "15+", default=-1)
    replica_epoch: int = wire(INT64, "15+", default=-1)


@struct
class FetchPartition(Message):
    partition: int = wire(INT32)
    current_leader_epoch: int = wire(INT32, "9+", default=-1)
    fetch_offset: int = wire(INT64)
    last_fetched_epoch: int = wire(INT32, "12+", default=-1)
    log_start_offset: int = wire(INT64, "5+", default=-1)
    partition_max_bytes: int = wire(INT32)
    replica_directory_id: bytes = wire(UUID, "17+", tag=0)
    high_watermark: int = wire(INT64, "18+", tag=1, default=9223372036854775807)


@struct
class FetchTopic(Message):
    topic: str = wire(STRING, "0-12")
    topic_id: bytes = wire(UUID, "13+")
    partitions: list[FetchPartition] = wire(array(FetchPartition))


@struct
class ForgottenTopic(Message):
    topic: str = wire(STRING, "7-12")
    topic_id: bytes = wire(UUID, "13+")
    partitions: list[int] = wire(array(INT32), "7+")


@message("4-18", flexible="12+", key=1)
class FetchRequest(Request["FetchResponse"]):
    cluster_id: str | None = wire(STRING, "12+", nullable="12+", tag=0, default=None)
    replica_id: int = wire(INT32, "0-14", default=-1)
    replica_state: ReplicaState = wire(ReplicaState, "15+", tag=1)
    max_wait_ms: int = wire(INT32)
    min_bytes: int = wire(INT32)
    max_bytes: int = wire(INT32, "3+", default=2147483647)
    isolation_level: int = wire(INT8, "4+")
    session_id: int = wire(INT32, "7+")
    session_epoch: int = wire(INT32, "7+", default=-1)
    topics: list[FetchTopic] = wire(array(FetchTopic))
    forgotten_topics_data: list[ForgottenTopic] = wire(array(ForgottenTopic), "7+")
    rack_id: str = wire(STRING, "11+")


@struct
class EpochEndOffset(Message):
    epoch: int = wire(INT32, "12+", default=-1)
    end_offset: int = wire(INT64, "12+", default=-1)


@struct
class SnapshotId(Message):
    end_offset: int = wire(INT64, default=-1)
    epoch: int = wire(INT32, default=-1)


@struct
class AbortedTransaction(Message):
    producer_id: int = wire(INT64, "4+")
    first_offset: int = wire(INT64, "4+")


@struct
class PartitionData(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    high_watermark: int = wire(INT64)
    last_stable_offset: int = wire(INT64, "4+", default=-1)
    log_start_offset: int = wire(INT64, "5+", default=-1)
    diverging_epoch: EpochEndOffset = wire(EpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch = wire(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId = wire(SnapshotId, "12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = wire(array(AbortedTransaction), "4+", nullable="4+")
    preferred_read_replica: int = wire(INT32, "11+", default=-1)
    records: Records = wire(RECORDS, nullable="0+")


@struct
class FetchableTopicResponse(Message):
    topic: str = wire(STRING, "0-12")
    topic_id: bytes = wire(UUID, "13+")
    partitions: list[PartitionData] = wire(array(PartitionData))


@message("4-18", flexible="12+", key=1)
class FetchResponse(Message):
    throttle_time_ms: int = wire(INT32, "1+")
    error_code: int = wire(INT16, "7+")
    session_id: int = wire(INT32, "7+")
    responses: list[FetchableTopicResponse] = wire(array(FetchableTopicResponse))
    node_endpoints: list[NodeEndpoint] = wire(array(NodeEndpoint), "16+", tag=0)
