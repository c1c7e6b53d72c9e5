"""Vote (key 52): a candidate for the lead of the KRaft quorum asks for a vote.

Granted once per epoch, to a candidate whose log is at least as far as the voter's, and written to `quorum-state`
before the response. FENCED_LEADER_EPOCH carries the voter's current epoch (KIP-595).

Versions 0-2, all flexible. Additions by version:
- 1: directory ids of voters; the leader's address (KIP-853)
- 2: a pre-vote asks without binding anyone, so that a lost node does not disturb a quorum that works (KIP-996)
"""

from __future__ import annotations

from ..schema import BOOL, INT16, INT32, INT64, STRING, UUID, Message, Request, array, message, struct, wire
from .quorum_endpoints import QuorumEndpoint


@struct
class VotePartitionRequest(Message):
    partition_index: int = wire(INT32)
    replica_epoch: int = wire(INT32)
    replica_id: int = wire(INT32)
    replica_directory_id: bytes = wire(UUID, "1+")
    voter_directory_id: bytes = wire(UUID, "1+")
    last_offset_epoch: int = wire(INT32)
    last_offset: int = wire(INT64)
    pre_vote: bool = wire(BOOL, "2+")


@struct
class VoteTopicRequest(Message):
    topic_name: str = wire(STRING)
    partitions: list[VotePartitionRequest] = wire(array(VotePartitionRequest))


@message("0-2", flexible="0+", key=52)
class VoteRequest(Request["VoteResponse"]):
    cluster_id: str | None = wire(STRING, nullable="0+", default=None)
    voter_id: int = wire(INT32, "1+", default=-1)
    topics: list[VoteTopicRequest] = wire(array(VoteTopicRequest))


@struct
class VotePartitionResponse(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    vote_granted: bool = wire(BOOL)


@struct
class VoteTopicResponse(Message):
    topic_name: str = wire(STRING)
    partitions: list[VotePartitionResponse] = wire(array(VotePartitionResponse))


@message("0-2", flexible="0+", key=52)
class VoteResponse(Message):
    error_code: int = wire(INT16)
    topics: list[VoteTopicResponse] = wire(array(VoteTopicResponse))
    node_endpoints: list[QuorumEndpoint] = wire(array(QuorumEndpoint), "1+", tag=0)
