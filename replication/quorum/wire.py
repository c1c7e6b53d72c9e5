"""The quorum's messages for its single partition: builders, accessors and error responses.

Every response carries the epoch and the leader known to its sender, so every exchange spreads this information.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...metadata.internal_topics import CLUSTER_METADATA_TOPIC
from ...protocol.errors import ErrorCode
from ...protocol.messages import fetch
from ...protocol.messages.begin_quorum_epoch import (
    BeginEpochPartitionRequest,
    BeginEpochTopicRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
)
from ...protocol.messages.end_quorum_epoch import (
    EndEpochPartitionRequest,
    EndEpochTopicRequest,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    ReplicaInfo,
)
from ...protocol.messages.fetch_snapshot import (
    FetchSnapshotId,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    PartitionSnapshotRequest,
    PartitionSnapshotResponse,
    SnapshotLeader,
    TopicSnapshotRequest,
    TopicSnapshotResponse,
)
from ...protocol.messages.leader_id_and_epoch import LeaderIdAndEpoch
from ...protocol.messages.quorum_epochs import EpochPartitionResponse, EpochTopicResponse
from ...protocol.messages.vote import (
    VotePartitionRequest,
    VotePartitionResponse,
    VoteRequest,
    VoteResponse,
    VoteTopicRequest,
    VoteTopicResponse,
)
from ...protocol.schema import Message
from ...protocol.uuids import METADATA_TOPIC_ID
from .log import SnapshotId
from .voters import ReplicaKey

#: How long a leader may delay a Fetch without new records; a constant in Kafka too.
FETCH_MAX_WAIT_MS = 500
_RESPONSES: dict[type[Message], Callable[..., Message]] = {
    VoteRequest: VoteResponse,
    BeginQuorumEpochRequest: BeginQuorumEpochResponse,
    EndQuorumEpochRequest: EndQuorumEpochResponse,
    fetch.FetchRequest: fetch.FetchResponse,
    FetchSnapshotRequest: FetchSnapshotResponse,
}


class LeaderResponse(NamedTuple):
    """The error of a response, and the leader and epoch known to its sender."""

    error_code: int
    leader_id: int
    leader_epoch: int


def partition_of(request: Any) -> Any | None:
    """Returns the request's part for the metadata partition; None if it is about anything else."""
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    topic = request.topics[0]
    if isinstance(request, fetch.FetchRequest):
        is_metadata = topic.topic == CLUSTER_METADATA_TOPIC or topic.topic_id == METADATA_TOPIC_ID
    else:
        is_metadata = (
            getattr(topic, "topic_name", None) == CLUSTER_METADATA_TOPIC
            or getattr(topic, "name", None) == CLUSTER_METADATA_TOPIC
        )
    partition = topic.partitions[0]
    index = getattr(partition, "partition_index", None)
    return partition if is_metadata and (partition.partition if index is None else index) == 0 else None


def epoch_of(partition: Any) -> int:
    """Returns the leader epoch in the sender's request."""
    for name in ("leader_epoch", "replica_epoch", "current_leader_epoch"):
        if hasattr(partition, name):
            return int(getattr(partition, name))
    raise AssertionError(f"no epoch in {partition}")


def response_of(response: Any) -> Any | None:
    """Returns the response's part for the metadata partition; None if there is only an error."""
    topics = response.responses if isinstance(response, fetch.FetchResponse) else response.topics
    return topics[0].partitions[0] if topics and topics[0].partitions else None


def leader_response(response: Message) -> LeaderResponse | None:
    """Returns the error, leader and epoch of a response; None if it has a top-level error."""
    partition = response_of(response)
    if partition is None:
        return None
    if isinstance(response, fetch.FetchResponse | FetchSnapshotResponse):
        leader = partition.current_leader
        return LeaderResponse(partition.error_code, leader.leader_id, leader.leader_epoch)
    return LeaderResponse(partition.error_code, partition.leader_id, partition.leader_epoch)


def vote_request(
    cluster_id: str, voter: ReplicaKey, local: ReplicaKey, epoch: int, last: SnapshotId, pre_vote: bool
) -> VoteRequest:
    asked = VotePartitionRequest(
        replica_epoch=epoch,
        replica_id=local.id,
        replica_directory_id=local.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=last.epoch,
        last_offset=last.end_offset,
        pre_vote=pre_vote,
    )
    topic = VoteTopicRequest(topic_name=CLUSTER_METADATA_TOPIC, partitions=[asked])
    return VoteRequest(cluster_id=cluster_id, voter_id=voter.id, topics=[topic])


def begin_request(cluster_id: str, voter: ReplicaKey, leader_id: int, epoch: int) -> BeginQuorumEpochRequest:
    reported = BeginEpochPartitionRequest(
        voter_directory_id=voter.directory_id, leader_id=leader_id, leader_epoch=epoch
    )
    topic = BeginEpochTopicRequest(topic_name=CLUSTER_METADATA_TOPIC, partitions=[reported])
    return BeginQuorumEpochRequest(cluster_id=cluster_id, voter_id=voter.id, topics=[topic])


def end_request(
    cluster_id: str, leader_id: int, epoch: int, preferred: tuple[ReplicaKey, ...]
) -> EndQuorumEpochRequest:
    reported = EndEpochPartitionRequest(
        leader_id=leader_id,
        leader_epoch=epoch,
        preferred_successors=[key.id for key in preferred],
        preferred_candidates=[
            ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id) for key in preferred
        ],
    )
    topic = EndEpochTopicRequest(topic_name=CLUSTER_METADATA_TOPIC, partitions=[reported])
    return EndQuorumEpochRequest(cluster_id=cluster_id, topics=[topic])


def fetch_request(
    cluster_id: str, local: ReplicaKey, epoch: int, last: SnapshotId, high_watermark: int, max_bytes: int = 1 << 20
) -> fetch.FetchRequest:
    asked = fetch.FetchPartition(
        current_leader_epoch=epoch,
        fetch_offset=last.end_offset,
        last_fetched_epoch=last.epoch,
        log_start_offset=-1,
        replica_directory_id=local.directory_id,
        high_watermark=high_watermark,
    )
    return fetch.FetchRequest(
        cluster_id=cluster_id,
        replica_state=fetch.ReplicaState(replica_id=local.id),
        max_wait_ms=FETCH_MAX_WAIT_MS,
        max_bytes=max_bytes,
        topics=[fetch.FetchTopic(topic=CLUSTER_METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[asked])],
    )


def snapshot_request(
    cluster_id: str, local: ReplicaKey, epoch: int, snapshot: SnapshotId, position: int, max_bytes: int = 1 << 20
) -> FetchSnapshotRequest:
    asked = PartitionSnapshotRequest(
        current_leader_epoch=epoch,
        snapshot_id=FetchSnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch),
        position=position,
        replica_directory_id=local.directory_id,
    )
    topic = TopicSnapshotRequest(name=CLUSTER_METADATA_TOPIC, partitions=[asked])
    return FetchSnapshotRequest(cluster_id=cluster_id, replica_id=local.id, max_bytes=max_bytes, topics=[topic])


def error_response(request: Message, error: ErrorCode) -> Message:
    """Returns a top-level error response."""
    response: Message = _RESPONSES[type(request)](error_code=int(error))
    return response


def vote_response(error: ErrorCode, leader_id: int, epoch: int, granted: bool) -> VoteResponse:
    said = VotePartitionResponse(error_code=int(error), leader_id=leader_id, leader_epoch=epoch, vote_granted=granted)
    return VoteResponse(topics=[VoteTopicResponse(topic_name=CLUSTER_METADATA_TOPIC, partitions=[said])])


def begin_response(error: ErrorCode, leader_id: int, epoch: int) -> BeginQuorumEpochResponse:
    said = EpochPartitionResponse(error_code=int(error), leader_id=leader_id, leader_epoch=epoch)
    return BeginQuorumEpochResponse(topics=[EpochTopicResponse(topic_name=CLUSTER_METADATA_TOPIC, partitions=[said])])


def end_response(error: ErrorCode, leader_id: int, epoch: int) -> EndQuorumEpochResponse:
    said = EpochPartitionResponse(error_code=int(error), leader_id=leader_id, leader_epoch=epoch)
    return EndQuorumEpochResponse(topics=[EpochTopicResponse(topic_name=CLUSTER_METADATA_TOPIC, partitions=[said])])


def fetch_response(leader_id: int, epoch: int, **fields: Any) -> fetch.FetchResponse:
    leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch)
    said = fetch.PartitionData(current_leader=leader, **fields)
    topic = fetch.FetchableTopicResponse(topic=CLUSTER_METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[said])
    return fetch.FetchResponse(responses=[topic])


def snapshot_response(leader_id: int, epoch: int, snapshot: SnapshotId, **fields: Any) -> FetchSnapshotResponse:
    said = PartitionSnapshotResponse(
        snapshot_id=FetchSnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch),
        current_leader=SnapshotLeader(leader_id=leader_id, leader_epoch=epoch),
        **fields,
    )
    topic = TopicSnapshotResponse(name=CLUSTER_METADATA_TOPIC, partitions=[said])
    return FetchSnapshotResponse(topics=[topic])
