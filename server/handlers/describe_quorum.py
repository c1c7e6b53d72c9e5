"""DescribeQuorum (key 55), versions 0-2: who votes on `__cluster_metadata`, and how far each has come (KIP-595, KIP-853).

A quorum of one is its leader: it has caught up with itself at the time of the answer.
"""

from __future__ import annotations

from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionDataResponse,
    ReplicaState,
    TopicDataResponse,
)
from ...protocol.uuids import ZERO_UUID
from ..dispatch import Call
from ..quorum_log import TOPIC

_NOT_HOSTED = "This server does not host this topic-partition."


def handle(call: Call) -> DescribeQuorumResponse:
    request: DescribeQuorumRequest = call.request
    if not _is_of_the_quorum(request):
        return DescribeQuorumResponse(topics=_unknown(request))
    topic = TopicDataResponse(topic_name=TOPIC, partitions=[_partition(call)])
    nodes = [
        Node(
            node_id=voter.voter_id,
            listeners=[Listener(name=e.name, host=e.host, port=e.port) for e in voter.endpoints],
        )
        for voter in call.broker.controller.quorum_log.quorum.voters
    ]
    return DescribeQuorumResponse(error_message="", topics=[topic], nodes=nodes)


def _is_of_the_quorum(request: DescribeQuorumRequest) -> bool:
    """There is one partition that can be asked about, and it must be asked about alone."""
    asked = [
        (topic.topic_name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    ]
    return asked == [(TOPIC, 0)] and len(request.topics) == 1


def _unknown(request: DescribeQuorumRequest) -> list[TopicDataResponse]:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return [
        TopicDataResponse(
            topic_name=topic.topic_name,
            partitions=[
                PartitionDataResponse(
                    partition_index=partition.partition_index, error_code=error, error_message=_NOT_HOSTED
                )
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]


def _partition(call: Call) -> PartitionDataResponse:
    controller = call.broker.controller
    directories = {voter.voter_id: voter.voter_directory_id for voter in controller.quorum_log.quorum.voters}
    state = ReplicaState(
        replica_id=call.broker.node_id,
        replica_directory_id=directories.get(call.broker.node_id, ZERO_UUID),
        log_end_offset=controller.quorum_log.end_offset,
        last_fetch_timestamp=call.now_ms,
        last_caught_up_timestamp=call.now_ms,
    )
    return PartitionDataResponse(
        partition_index=0,
        error_message="",
        leader_id=call.broker.node_id,
        leader_epoch=controller.epoch,
        high_watermark=controller.high_watermark,
        current_voters=[state],
    )
