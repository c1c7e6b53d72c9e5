"""The KRaft quorum: elections, snapshots, the state of its voters, and changes of the voter set."""

from __future__ import annotations

from ..schema import (
    BOOL,
    ERROR_TEXT,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UINT16,
    UUID,
    Message,
    Records,
    array,
    message,
    struct,
    wire,
)

# Vote (key 52): a candidate for the lead of the KRaft quorum asks for a vote.
#
# Granted once per epoch, to a candidate whose log is at least as far as the voter's, and written to `quorum-state`
# before the response. FENCED_LEADER_EPOCH carries the voter's current epoch (KIP-595).
#
# Versions 0-2, all flexible. Additions by version:
# - 1: directory ids of voters; the leader's address (KIP-853)
# - 2: a pre-vote asks without binding anyone, so that a lost node does not disturb a quorum that works (KIP-996)


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
class VoteRequest(Message):
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


@struct
class NodeEndpoint(Message):
    node_id: int = wire(INT32, "1+")
    host: str = wire(STRING, "1+")
    port: int = wire(UINT16, "1+")


@message("0-2", flexible="0+", key=52)
class VoteResponse(Message):
    error_code: int = wire(INT16)
    topics: list[VoteTopicResponse] = wire(array(VoteTopicResponse))
    node_endpoints: list[NodeEndpoint] = wire(array(NodeEndpoint), "1+", tag=0)


# BeginQuorumEpoch (key 53): a new leader of the KRaft quorum makes itself known to voters.
#
# Sent until each voter fetches from it (KIP-595).
#
# Versions 0-1, flexible from 1. Additions by version:
# - 1: directory ids and the leader's addresses (KIP-853)


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


@struct
class LeaderEndpoint(Message):
    name: str = wire(STRING, "1+")
    host: str = wire(STRING, "1+")
    port: int = wire(UINT16, "1+")


@message("0-1", flexible="1+", key=53)
class BeginQuorumEpochRequest(Message):
    cluster_id: str | None = wire(STRING, nullable="0+", default=None)
    voter_id: int = wire(INT32, "1+", default=-1)
    topics: list[BeginEpochTopicRequest] = wire(array(BeginEpochTopicRequest))
    leader_endpoints: list[LeaderEndpoint] = wire(array(LeaderEndpoint), "1+")


@struct
class EpochPartitionResponse(Message):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)


@struct
class EpochTopicResponse(Message):
    topic_name: str = wire(STRING)
    partitions: list[EpochPartitionResponse] = wire(array(EpochPartitionResponse))


@message("0-1", flexible="1+", key=53)
class BeginQuorumEpochResponse(Message):
    error_code: int = wire(INT16)
    topics: list[EpochTopicResponse] = wire(array(EpochTopicResponse))
    node_endpoints: list[NodeEndpoint] = wire(array(NodeEndpoint), "1+", tag=0)


# EndQuorumEpoch (key 54): the leader of the KRaft quorum resigns.
#
# The voters that are farthest ahead stand in the order named, each a little later, so that a stop does not cost an
# election timeout (KIP-595).
#
# Versions 0-1, flexible from 1. Additions by version:
# - 1: candidates with their directory ids, and the leader's addresses (KIP-853)


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
class EndQuorumEpochRequest(Message):
    cluster_id: str | None = wire(STRING, nullable="0+", default=None)
    topics: list[EndEpochTopicRequest] = wire(array(EndEpochTopicRequest))
    leader_endpoints: list[LeaderEndpoint] = wire(array(LeaderEndpoint), "1+")


@message("0-1", flexible="1+", key=54)
class EndQuorumEpochResponse(Message):
    error_code: int = wire(INT16)
    topics: list[EpochTopicResponse] = wire(array(EpochTopicResponse))
    node_endpoints: list[NodeEndpoint] = wire(array(NodeEndpoint), "1+", tag=0)


# FetchSnapshot (key 59): a piece of a snapshot of the KRaft log.
#
# For a replica whose position is before the start of the leader's log: Fetch names the snapshot, this brings it, from a
# position on. SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE (KIP-630).
#
# Versions 0-1, all flexible. Additions by version:
# - 1: directory id of the replica, and the leader's address (KIP-853)


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
class FetchSnapshotRequest(Message):
    cluster_id: str | None = wire(STRING, nullable="0+", tag=0, default=None)
    replica_id: int = wire(INT32, default=-1)
    max_bytes: int = wire(INT32, default=2147483647)
    topics: list[TopicSnapshotRequest] = wire(array(TopicSnapshotRequest))


@struct
class LeaderIdAndEpoch(Message):
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)


@struct
class PartitionSnapshotResponse(Message):
    index: int = wire(INT32)
    error_code: int = wire(INT16)
    snapshot_id: FetchSnapshotId = wire(FetchSnapshotId)
    current_leader: LeaderIdAndEpoch = wire(LeaderIdAndEpoch, tag=0)
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
    node_endpoints: list[NodeEndpoint] = wire(array(NodeEndpoint), "1+", tag=0)


# DescribeQuorum (key 55): voters and observers of the KRaft log and how far they are.
#
# Only the leader has these states; brokers forward the request. Times are those of a replica's last fetch and of the last
# time that it was caught up.
#
# Versions 0-2, all flexible. Additions by version:
# - 1: those times (KIP-836)
# - 2: directory ids, nodes with their listeners, errors in words (KIP-853)


@struct
class DescribeQuorumPartitionRequest(Message):
    partition_index: int = wire(INT32)


@struct
class DescribeQuorumTopicRequest(Message):
    topic_name: str = wire(STRING)
    partitions: list[DescribeQuorumPartitionRequest] = wire(array(DescribeQuorumPartitionRequest))


@message("0-2", flexible="0+", key=55)
class DescribeQuorumRequest(Message):
    topics: list[DescribeQuorumTopicRequest] = wire(array(DescribeQuorumTopicRequest))


@struct
class ReplicaState(Message):
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
    current_voters: list[ReplicaState] = wire(array(ReplicaState))
    observers: list[ReplicaState] = wire(array(ReplicaState))


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
class Node(Message):
    node_id: int = wire(INT32, "2+")
    listeners: list[NodeListener] = wire(array(NodeListener), "2+")


@message("0-2", flexible="0+", key=55)
class DescribeQuorumResponse(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, "2+", nullable="2+")
    topics: list[DescribeQuorumTopicResponse] = wire(array(DescribeQuorumTopicResponse))
    nodes: list[Node] = wire(array(Node), "2+")


# AddRaftVoter (key 80): adds a voter to the KRaft quorum.
#
# One change at a time (REQUEST_TIMED_OUT, DUPLICATE_VOTER). The new voter must be caught up and must support the current
# kraft.version. The leader writes the new voter set to the log (KIP-853).
#
# Versions 0-1, all flexible. Additions by version:
# - 1: answered when committed, or as soon as it is written


@struct
class Listener(Message):
    name: str = wire(STRING)
    host: str = wire(STRING)
    port: int = wire(UINT16)


@message("0-1", flexible="0+", key=80)
class AddRaftVoterRequest(Message):
    cluster_id: str | None = wire(STRING, nullable="0+")
    timeout_ms: int = wire(INT32)
    voter_id: int = wire(INT32)
    voter_directory_id: bytes = wire(UUID)
    listeners: list[Listener] = wire(array(Listener))
    ack_when_committed: bool = wire(BOOL, "1+", default=True)


@message("0-1", flexible="0+", key=80)
class AddRaftVoterResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")


# RemoveRaftVoter (key 81): takes a voter out of the KRaft quorum.
#
# By id and directory id; the leader itself resigns when it is the one. VOTER_NOT_FOUND (KIP-853).
#
# Version 0, flexible.


@message("0", flexible="0+", key=81)
class RemoveRaftVoterRequest(Message):
    cluster_id: str | None = wire(STRING, nullable="0+")
    voter_id: int = wire(INT32)
    voter_directory_id: bytes = wire(UUID)


@message("0", flexible="0+", key=81)
class RemoveRaftVoterResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(ERROR_TEXT, nullable="0+")


# UpdateRaftVoter (key 82): a voter tells the leader its listeners and KRaft versions.
#
# Sent by each voter that finds itself recorded otherwise (KIP-853).
#
# Version 0, flexible.


@struct
class KRaftVersionFeature(Message):
    min_supported_version: int = wire(INT16)
    max_supported_version: int = wire(INT16)


@message("0", flexible="0+", key=82)
class UpdateRaftVoterRequest(Message):
    cluster_id: str | None = wire(STRING, nullable="0+")
    current_leader_epoch: int = wire(INT32)
    voter_id: int = wire(INT32)
    voter_directory_id: bytes = wire(UUID)
    listeners: list[Listener] = wire(array(Listener))
    kraft_version_feature: KRaftVersionFeature = wire(KRaftVersionFeature)


@struct
class CurrentLeader(Message):
    leader_id: int = wire(INT32, default=-1)
    leader_epoch: int = wire(INT32, default=-1)
    host: str = wire(STRING)
    port: int = wire(INT32)


@message("0", flexible="0+", key=82)
class UpdateRaftVoterResponse(Message):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    current_leader: CurrentLeader = wire(CurrentLeader, tag=0)
