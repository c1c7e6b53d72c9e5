"""DescribeQuorum (key 55): voters and observers of the KRaft log and how far they are.

Only the leader has these states; brokers forward the request. Times are those of a replica's last fetch and of the last
time that it was caught up.

Versions 0-2, all flexible. Additions by version:
- 1: those times (KIP-836)
- 2: directory ids, nodes with their listeners, errors in words (KIP-853)
"""

from __future__ import annotations

from ..schema import ERROR_TEXT, INT16, INT32, INT64, STRING, UINT16, UUID, Message, array, message, struct, wire


@struct
class PartitionDataRequest(Message):
    partition_index: int = wire(INT32)


@struct
class TopicDataRequest(Message):
    topic_name: str = wire(STRING)
    partitions: list[PartitionDataRequest] = wire(array(PartitionDataRequest))


@message("0-2", flexible="0+", key=55)
class DescribeQuorumRequest(Message):
    topics: list[TopicDataRequest] = wire(array(TopicDataRequest))


@struct
class ReplicaState(Message):
    replica_id: int = wire(INT32)
    replica_directory_id: bytes = wire(UUID, "2+")
    log_end_offset: int = wire(INT64)
    last_fetch_timestamp: int = wire(INT64, "1+", default=-1)
    last_caught_up_timestamp: int = wire(INT64, "1+", default=-1)


@struct
class PartitionDataResponse(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, "2+", nullable="2+")
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    high_watermark: int = wire(INT64)
    current_voters: list[ReplicaState] = wire(array(ReplicaState))
    observers: list[ReplicaState] = wire(array(ReplicaState))


@struct
class TopicDataResponse(Message):
    topic_name: str = wire(STRING)
    partitions: list[PartitionDataResponse] = wire(array(PartitionDataResponse))


@struct
class Listener(Message):
    name: str = wire(STRING, "2+")
    host: str = wire(STRING, "2+")
    port: int = wire(UINT16, "2+")


@struct
class Node(Message):
    node_id: int = wire(INT32, "2+")
    listeners: list[Listener] = wire(array(Listener), "2+")


@message("0-2", flexible="0+", key=55)
class DescribeQuorumResponse(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, "2+", nullable="2+")
    topics: list[TopicDataResponse] = wire(array(TopicDataResponse))
    nodes: list[Node] = wire(array(Node), "2+")
