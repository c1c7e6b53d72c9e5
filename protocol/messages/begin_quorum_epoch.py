"""BeginQuorumEpoch (key 53): a new leader of the KRaft quorum makes itself known to voters.

Sent until each voter fetches from it (KIP-595).

Versions 0-1, flexible from 1. Additions by version:
- 1: directory ids and the leader's addresses (KIP-853)
"""

from __future__ import annotations

from ..schema import INT16, INT32, STRING, UUID, Message, Request, array, message, struct, wire
from .quorum_endpoints import LeaderEndpoint, QuorumEndpoint
from .quorum_epochs import EpochTopicResponse


@struct
class BeginEpochPartitionRequest(Message):
    partition_index: int = wire(INT32)
    voter_directory_id: bytes = wire(UUID, "1+")
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)


@struct
class BeginEpochTopicRequest(Message):
    topic_name: str = wire(STRING)
    partitions: list[BeginEpochPartitionRequest] = wire(array(BeginEpochPartitionRequest))


@message("0-1", flexible="1+", key=53)
class BeginQuorumEpochRequest(Request["BeginQuorumEpochResponse"]):
    cluster_id: str | None = wire(STRING, nullable="0+", default=None)
    voter_id: int = wire(INT32, "1+", default=-1)
    topics: list[BeginEpochTopicRequest] = wire(array(BeginEpochTopicRequest))
    leader_endpoints: list[LeaderEndpoint] = wire(array(LeaderEndpoint), "1+")


@message("0-1", flexible="1+", key=53)
class BeginQuorumEpochResponse(Message):
    error_code: int = wire(INT16)
    topics: list[EpochTopicResponse] = wire(array(EpochTopicResponse))
    node_endpoints: list[QuorumEndpoint] = wire(array(QuorumEndpoint), "1+", tag=0)
