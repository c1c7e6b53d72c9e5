"""BeginQuorumEpoch (key 53): a new leader of the KRaft quorum makes itself known to voters.

Sent until each voter fetches from it (KIP-595).

Versions 0-1, flexible from 1. Additions by version:
- 1: directory ids and the leader's addresses (KIP-853)
"""

from __future__ import annotations

from ..schema import INT16, INT32, STRING, UINT16, UUID, Message, array, message, struct, wire


@struct
class PartitionDataRequest(Message):
    partition_index: int = wire(INT32)
    voter_directory_id: bytes = wire(UUID, "1+")
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)


@struct
class TopicDataRequest(Message):
    topic_name: str = wire(STRING)
    partitions: list[PartitionDataRequest] = wire(array(PartitionDataRequest))


@struct
class LeaderEndpoint(Message):
    name: str = wire(STRING, "1+")
    host: str = wire(STRING, "1+")
    port: int = wire(UINT16, "1+")


@message("0-1", flexible="1+", key=53)
class BeginQuorumEpochRequest(Message):
    cluster_id: str | None = wire(STRING, nullable="0+", default=None)
    voter_id: int = wire(INT32, "1+", default=-1)
    topics: list[TopicDataRequest] = wire(array(TopicDataRequest))
    leader_endpoints: list[LeaderEndpoint] = wire(array(LeaderEndpoint), "1+")


@struct
class PartitionDataResponse(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)


@struct
class TopicDataResponse(Message):
    topic_name: str = wire(STRING)
    partitions: list[PartitionDataResponse] = wire(array(PartitionDataResponse))


@struct
class NodeEndpoint(Message):
    node_id: int = wire(INT32, "1+")
    host: str = wire(STRING, "1+")
    port: int = wire(UINT16, "1+")


@message("0-1", flexible="1+", key=53)
class BeginQuorumEpochResponse(Message):
    error_code: int = wire(INT16)
    topics: list[TopicDataResponse] = wire(array(TopicDataResponse))
    node_endpoints: list[NodeEndpoint] = wire(array(NodeEndpoint), "1+", tag=0)
