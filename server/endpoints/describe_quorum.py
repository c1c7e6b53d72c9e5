"""DescribeQuorum: the voters of `__cluster_metadata` and their log end offsets (KIP-595, KIP-853).

The leader answers; a broker forwards the request. Observers that have not fetched for five minutes are left out.

Contract: `protocol/messages/describe_quorum.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...metadata.acls import Operation
from ...metadata.internal_topics import CLUSTER_METADATA_TOPIC
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_quorum import (
    DescribeQuorumPartitionResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopicResponse,
    NodeListener,
    QuorumNode,
    QuorumReplicaState,
)
from ...protocol.uuids import ZERO_UUID
from ..access.authorization.usual_requirements import IN_GENERAL_WORDS, on_cluster
from ..controller.request_places import QUORUM_LEADER, ask_leader
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..network.listener_kind import BROKER

if TYPE_CHECKING:
    from ...replication.quorum.replica import QuorumReplica
    from ...replication.quorum.voters import ReplicaKey
    from ..services import NodeServices

#: A constant in Kafka too.
OBSERVER_SESSION_MS = 300_000
_NOT_LEADER = (
    "For requests intended only for the leader, this error indicates that the broker is not the current leader. "
)
_NOT_HOSTED = "This server does not host this topic-partition."


def handle(services: NodeServices, call: Call[DescribeQuorumRequest]) -> DescribeQuorumResponse | None:
    request = call.request
    if not _is_of_the_quorum(request):
        return DescribeQuorumResponse(topics=_unknown(request))
    controller = services.controller.driver
    if controller.raft is None:
        return _alone(services, call)
    if controller.raft.replica.is_leader:
        return _led_here(services, call, controller.raft.replica)
    if call.listener_kind == BROKER:
        ask_leader(services, call)
        return None
    return _not_the_leader(controller.leader_id, controller.epoch)


def _not_the_leader(leader_id: int, epoch: int) -> DescribeQuorumResponse:
    error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    said = DescribeQuorumPartitionResponse(
        partition_index=0, error_code=error, error_message=_NOT_LEADER, leader_id=leader_id, leader_epoch=epoch
    )
    return DescribeQuorumResponse(
        topics=[DescribeQuorumTopicResponse(topic_name=CLUSTER_METADATA_TOPIC, partitions=[said])]
    )


def _led_here(
    services: NodeServices, call: Call[DescribeQuorumRequest], replica: QuorumReplica
) -> DescribeQuorumResponse:
    from ...replication.quorum.roles import Leader

    role, now_ms = replica.role, call.now_ms
    assert isinstance(role, Leader)
    voting = {voter.key.id: voter.key for voter in replica.voter_set.voters.values()}
    known = {
        key: QuorumReplicaState(
            replica_id=key.id,
            # Static voters are known by their ids alone.
            replica_directory_id=voting[key.id].directory_id if key in replica.voter_set else key.directory_id,
            log_end_offset=progress.end_offset,
            last_fetch_timestamp=progress.last_fetch_ms,
            last_caught_up_timestamp=progress.last_caught_up_ms,
        )
        for key, progress in role.progress.items()
    }
    voters = [_voter(services, key, known, now_ms) for key in (v.key for v in replica.voter_set.voters.values())]
    observers = [state for key, state in known.items() if key not in replica.voter_set and _is_live(state, now_ms)]
    partition = DescribeQuorumPartitionResponse(
        partition_index=0,
        error_message="",
        leader_id=role.leader_id,
        leader_epoch=role.epoch,
        high_watermark=replica.high_watermark if role.has_committed else -1,
        current_voters=voters,
        observers=observers,
    )
    nodes = [
        QuorumNode(
            node_id=voter.key.id,
            listeners=[NodeListener(name=a.name, host=a.host, port=a.port) for a in voter.addresses],
        )
        for voter in replica.voter_set.voters.values()
    ]
    topic = DescribeQuorumTopicResponse(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return DescribeQuorumResponse(error_message="", topics=[topic], nodes=nodes)


def _voter(
    services: NodeServices, key: ReplicaKey, known: dict[ReplicaKey, QuorumReplicaState], now_ms: int
) -> QuorumReplicaState:
    """A voter without a fetch in this epoch has offset -1. The leader is always caught up with itself."""
    if key.id == services.node_id:
        end_offset = services.controller.driver.quorum_log.end_offset
        return QuorumReplicaState(
            replica_id=key.id,
            replica_directory_id=key.directory_id,
            log_end_offset=end_offset,
            last_fetch_timestamp=now_ms,
            last_caught_up_timestamp=now_ms,
        )
    for found, state in known.items():
        if found.matches(key):
            return state
    return QuorumReplicaState(replica_id=key.id, replica_directory_id=key.directory_id, log_end_offset=-1)


def _is_live(observer: QuorumReplicaState, now_ms: int) -> bool:
    return now_ms - observer.last_fetch_timestamp < OBSERVER_SESSION_MS


def _alone(services: NodeServices, call: Call[DescribeQuorumRequest]) -> DescribeQuorumResponse:
    """A quorum of one is its leader: it has caught up with itself at the time of the response."""
    topic = DescribeQuorumTopicResponse(topic_name=CLUSTER_METADATA_TOPIC, partitions=[_partition(services, call)])
    nodes = [
        QuorumNode(
            node_id=voter.voter_id,
            listeners=[NodeListener(name=e.name, host=e.host, port=e.port) for e in voter.endpoints],
        )
        for voter in services.controller.driver.quorum_log.quorum.voters
    ]
    return DescribeQuorumResponse(error_message="", topics=[topic], nodes=nodes)


def _is_of_the_quorum(request: DescribeQuorumRequest) -> bool:
    """There is one partition that can be asked about, and it must be asked about alone."""
    asked = [
        (topic.topic_name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    ]
    return asked == [(CLUSTER_METADATA_TOPIC, 0)] and len(request.topics) == 1


def _unknown(request: DescribeQuorumRequest) -> list[DescribeQuorumTopicResponse]:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return [
        DescribeQuorumTopicResponse(
            topic_name=topic.topic_name,
            partitions=[
                DescribeQuorumPartitionResponse(
                    partition_index=partition.partition_index, error_code=error, error_message=_NOT_HOSTED
                )
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]


def _partition(services: NodeServices, call: Call[DescribeQuorumRequest]) -> DescribeQuorumPartitionResponse:
    controller = services.controller.driver
    directories = {voter.voter_id: voter.voter_directory_id for voter in controller.quorum_log.quorum.voters}
    state = QuorumReplicaState(
        replica_id=services.node_id,
        replica_directory_id=directories.get(services.node_id, ZERO_UUID),
        log_end_offset=controller.quorum_log.end_offset,
        last_fetch_timestamp=call.now_ms,
        last_caught_up_timestamp=call.now_ms,
    )
    return DescribeQuorumPartitionResponse(
        partition_index=0,
        error_message="",
        leader_id=services.node_id,
        leader_epoch=controller.epoch,
        high_watermark=controller.high_watermark,
        current_voters=[state],
    )


ENDPOINT: ApiEndpoint[DescribeQuorumRequest, DescribeQuorumResponse] = ApiEndpoint(
    handle=handle, authorization=(on_cluster(Operation.DESCRIBE, IN_GENERAL_WORDS),), place=QUORUM_LEADER
)
