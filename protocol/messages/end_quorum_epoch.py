"""EndQuorumEpoch (key 54): the leader of the KRaft quorum resigns.

The voters that are farthest ahead stand in the order named, each a little later, so that a stop does not cost an
election timeout (KIP-595).

Versions 0-1, flexible from 1. Additions by version:
- 1: candidates with their directory ids, and the leader's addresses (KIP-853)
"""

from __future__ import annotations

from ..schema import INT16, INT32, STRING, UUID, Message, Request, array, message, struct, wire
from .quorum_endpoints import LeaderEndpoint, QuorumEndpoint
from .quorum_epochs import EpochTopicResponse


@struct
class ReplicaInfo(Message):
    candidate_id: int = wire(INT32, "1+")
    candidate_directory_id: bytes = wire(UUID, "1+")


@struct
class EndEpochPartitionRequest(Message):
    partition_index: int = wire(INT32)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    preferred_successors: list[int] = wire(array(INT32), "0")
    preferred_candidates: list[ReplicaInfo] = wire(array(ReplicaInfo), "1+")


@struct
class EndEpochTopicRequest(Message):
    topic_name: str = wire(STRING)
    partitions: list[EndEpochPartitionRequest] = wire(array(EndEpochPartitionRequest))


@message("0-1", flexible="1+", key=54)
class EndQuorumEpochRequest(Request["EndQuorumEpochResponse"]):
    cluster_id: str | None = wire(STRING, nullable="0+", default=None)
    topics: list[EndEpochTopicRequest] = wire(array(EndEpochTopicRequest))
    leader_endpoints: list[LeaderEndpoint] = wire(array(LeaderEndpoint), "1+")


@message("0-1", flexible="1+", key=54)
class EndQuorumEpochResponse(Message):
    error_code: int = wire(INT16)
    topics: list[EpochTopicResponse] = wire(array(EpochTopicResponse))
    node_endpoints: list[QuorumEndpoint] = wire(array(QuorumEndpoint), "1+", tag=0)
