"""Vote (key 52): a candidate for the lead of the KRaft quorum asks for a vote.

Granted once per epoch, to a candidate whose log is at least as far as the voter's, and written to `quorum-state`
before the response. FENCED_LEADER_EPOCH carries the voter's current epoch (KIP-595).

Versions 0-2, all flexible. Additions by version:
- 1: directory ids of voters; the leader's address (KIP-853)
- 2: a pre-vote asks without binding anyone, so that a lost node does not disturb a quorum that works (KIP-996)
"""

from __future__ import annotations

from ..schema import BOOL, INT16, INT32, INT64, STRING, UINT16, UUID, Message, array, message, struct, wire


@struct
class PartitionDataRequest(Message):
    partition_index: int = wire(INT32)
    replica_epoch: int = wire(INT32)
    replica_id: int = wire(INT32)
    replica_directory_id: bytes = wire(UUID, "1+")
    voter_directory_id: bytes = wire(UUID, "1+")
    last_offset_epoch: int = wire(INT32)
    last_offset: int = wire(INT64)
    pre_vote: bool = wire(BOOL, "2+")


@struct
class TopicDataRequest(Message):
    topic_name: str = wire(STRING)
    partitions: list[PartitionDataRequest] = wire(array(PartitionDataRequest))


@message("0-2", flexible="0+", key=52)
class VoteRequest(Message):
    cluster_id: str | None = wire(STRING, nullable="0+", default=None)
    voter_id: int = wire(INT32, "1+", default=-1)
    topics: list[TopicDataRequest] = wire(array(TopicDataRequest))


@struct
class PartitionDataResponse(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    vote_granted: bool = wire(BOOL)


@struct
class TopicDataResponse(Message):
    topic_name: str = wire(STRING)
    partitions: list[PartitionDataResponse] = wire(array(PartitionDataResponse))


@struct
class NodeEndpoint(Message):
    node_id: int = wire(INT32, "1+")
    host: str = wire(STRING, "1+")
    port: int = wire(UINT16, "1+")


@message("0-2", flexible="0+", key=52)
class VoteResponse(Message):
    error_code: int = wire(INT16)
    topics: list[TopicDataResponse] = wire(array(TopicDataResponse))
    node_endpoints: list[NodeEndpoint] = wire(array(NodeEndpoint), "1+", tag=0)
