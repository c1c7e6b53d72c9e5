"""DescribeQuorum (key 55): voters and observers of the KRaft log and how far they are.

Only the leader has these states; brokers forward the request. Times are those of a replica's last fetch and of the last
time that it was caught up.

Versions 0-2, all flexible. Additions by version:
- 1: those times (KIP-836)
- 2: directory ids, nodes with their listeners, errors in words (KIP-853)
"""

from __future__ import annotations

from ..schema import (
    ERROR_TEXT,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    UUID,
    Message,
    Request,
    array,
    message,
    struct,
    wire,
)


@struct
class DescribeQuorumPartitionRequest(Message):
    partition_index: int = wire(INT32)


@struct
class DescribeQuorumTopicRequest(Message):
    topic_name: str = wire(STRING)
    partitions: list[DescribeQuorumPartitionRequest] = wire(array(DescribeQuorumPartitionRequest))


@message("0-2", flexible="0+", key=55)
class DescribeQuorumRequest(Request["DescribeQuorumResponse"]):
    topics: list[DescribeQuorumTopicRequest] = wire(array(DescribeQuorumTopicRequest))


@struct
class QuorumReplicaState(Message):
    replica_id: int = wire(INT32)
    replica_directory_id: bytes = wire(UUID, "2+")
    log_end_offset: int = wire(INT64)
    last_fetch_timestamp: int = wire(INT64, "1+", default=-1)
    last_caught_up_timestamp: int = wire(INT64, "1+", default=-1)


@struct
class DescribeQuorumPartitionResponse(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, "2+", nullable="2+")
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    high_watermark: int = wire(INT64)
    current_voters: list[QuorumReplicaState] = wire(array(QuorumReplicaState))
    observers: list[QuorumReplicaState] = wire(array(QuorumReplicaState))


@struct
class DescribeQuorumTopicResponse(Message):
    topic_name: str = wire(STRING)
    partitions: list[DescribeQuorumPartitionResponse] = wire(array(DescribeQuorumPartitionResponse))


@struct
class NodeListener(Message):
    name: str = wire(STRING, "2+")
    host: str = wire(STRING, "2+")
    port: int = wire(UINT16, "2+")


@struct
class QuorumNode(Message):
    node_id: int = wire(INT32, "2+")
    listeners: list[NodeListener] = wire(array(NodeListener), "2+")


@message("0-2", flexible="0+", key=55)
class DescribeQuorumResponse(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, "2+", nullable="2+")
    topics: list[DescribeQuorumTopicResponse] = wire(array(DescribeQuorumTopicResponse))
    nodes: list[QuorumNode] = wire(array(QuorumNode), "2+")
