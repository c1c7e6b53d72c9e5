"""OffsetForLeaderEpoch: the ends of leader epochs in the log (KIP-101).

Where an epoch ends in the leader's log: consumers and followers find with it where theirs departs (KIP-101, KIP-320).
The response is the largest epoch known that is not above the one asked for, and its end; -1 and -1 where nothing is
known.

Contract: `protocol/messages/offset_for_leader_epoch.py`.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

from ...metadata.acls import CLUSTER_NAME, Operation, ResourceType
from ...protocol.errors import ErrorCode
from ...protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopicResult,
)
from ..access.authorization.requirements import NONE_DENIED, Each
from ..network.api_endpoint import ApiEndpoint
from ..network.portions import TOPIC_PARTITIONS

if TYPE_CHECKING:
    from ..network.call import Call
    from ..services import Services

_NODES = Each(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
_TOPICS = Each(Operation.DESCRIBE, ResourceType.TOPIC)


def handle(services: Services, call: Call[OffsetForLeaderEpochRequest]) -> OffsetForLeaderEpochResponse:
    request = call.request
    denied = _denied(services, call, request)
    topics = [
        OffsetForLeaderTopicResult(
            topic.topic,
            [
                _end_of_epoch(services, topic.topic, asked) if topic.topic not in denied else _error_response(asked)
                for asked in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return OffsetForLeaderEpochResponse(topics=topics)


def _denied(
    services: Services, call: Call[OffsetForLeaderEpochRequest], request: OffsetForLeaderEpochRequest
) -> Set[str]:
    """Returns the topics of which the client may not know. Nodes may know of all, clients of what they may describe."""
    if not _NODES.denies(services.access.authorizer, call, CLUSTER_NAME, log_denied=False):
        return NONE_DENIED
    names = [topic.topic for topic in request.topics]
    return _TOPICS.denied(services.access.authorizer, call, names)


def _error_response(asked: OffsetForLeaderPartition) -> OffsetForLeaderPartitionResult:
    return OffsetForLeaderPartitionResult(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, partition=asked.partition)


def _end_of_epoch(services: Services, topic: str, asked: OffsetForLeaderPartition) -> OffsetForLeaderPartitionResult:
    hosted = services.partitions.hosted.get((topic, asked.partition))
    if hosted is None:
        error = services.replicas.leaders.absent_error(topic, asked.partition)
    else:
        error = hosted.error_for_epoch(asked.current_leader_epoch)
    if error or hosted is None:
        return OffsetForLeaderPartitionResult(error_code=error, partition=asked.partition)
    epoch, end_offset = hosted.open_log().epoch_end_offset(asked.leader_epoch)
    return OffsetForLeaderPartitionResult(0, asked.partition, epoch, end_offset)


ENDPOINT: ApiEndpoint[OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse] = ApiEndpoint(
    handle=handle, authorization=(_NODES, _TOPICS), portionings=TOPIC_PARTITIONS
)
