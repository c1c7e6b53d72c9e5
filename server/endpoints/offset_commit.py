"""OffsetCommit: the offsets to which a member of a group has read (KIP-848).

Decided in `coordinator/groups/offsets.py`.

A commit for a partition that does not exist is refused here, and does not keep the others from being committed. Topics
are named by name or by id (KIP-848); the coordinator records both.

Contract: `protocol/messages/offset_commit.py`.
"""

from __future__ import annotations

from functools import partial

from ...metadata.acls import Operation, ResourceType
from ...metadata.image import TopicImage
from ...protocol.errors import ErrorCode
from ...protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ..access.authorization.requirements import Each
from ..access.authorization.usual_requirements import on_group
from ..coordinators.group_coordinator import GROUP_COORDINATOR
from ..coordinators.topic_responses import merged
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..network.portions import TOPIC_PARTITIONS
from ..services import Services

WITH_TOPIC_IDS = OffsetCommitRequestTopic.versions_with("topic_id")
_TOPICS = Each(Operation.READ, ResourceType.TOPIC)


def handle(services: Services, call: Call[OffsetCommitRequest]) -> OffsetCommitResponse | None:
    request = call.request
    image = services.metadata.image
    by_id = call.version in WITH_TOPIC_IDS
    error_results: list[OffsetCommitResponseTopic] = []
    topics: list[OffsetCommitRequestTopic] = []
    places = [(image.topic_by_id(t.topic_id) if by_id else image.topic(t.name)) for t in request.topics]
    names = [topic.name if found is None else found.name for topic, found in zip(request.topics, places, strict=True)]
    denied = _TOPICS.denied(services.access.authorizer, call, filter(None, names))
    for topic, found, name in zip(request.topics, places, names, strict=True):
        if name in denied:
            error_results.append(_error_response(topic, topic.partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            continue
        if found is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            error_results.append(_error_response(topic, topic.partitions, error))
            continue
        topic.name, topic.topic_id = found.name, found.id
        if _keep_existing(topic, found, error_results):
            topics.append(topic)
    if not topics:
        return OffsetCommitResponse(topics=error_results)
    request.topics = topics
    reply = partial(_reply, call, error_results) if error_results else call.reply
    services.coordinators.groups.submit(request.group_id, request, call.version, call, reply)
    return None


def _reply(
    call: Call[OffsetCommitRequest], error_results: list[OffsetCommitResponseTopic], response: OffsetCommitResponse
) -> None:
    call.reply(OffsetCommitResponse(topics=merged(error_results, response.topics)))


def _keep_existing(
    topic: OffsetCommitRequestTopic, topic_image: TopicImage, error_results: list[OffsetCommitResponseTopic]
) -> bool:
    """Takes the partitions that do not exist out of the request; False when none is left."""
    unknown = [partition for partition in topic.partitions if partition.partition_index not in topic_image.partitions]
    if unknown:
        error_results.append(_error_response(topic, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        topic.partitions = [p for p in topic.partitions if p.partition_index in topic_image.partitions]
    return bool(topic.partitions)


def _error_response(
    topic: OffsetCommitRequestTopic, partitions: list[OffsetCommitRequestPartition], error: ErrorCode
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=error) for p in partitions
        ],
    )


ENDPOINT: ApiEndpoint[OffsetCommitRequest, OffsetCommitResponse] = ApiEndpoint(
    handle=handle,
    authorization=(on_group(), _TOPICS),
    place=GROUP_COORDINATOR,
    portionings=TOPIC_PARTITIONS,
)
