"""OffsetCommit (key 8), versions 2-10: the offsets to which a member of a group has read (KIP-848).

Decided in `coordinator/groups/offsets.py`.

A commit for a partition that does not exist is refused here, and does not keep the others from being committed. Version
10 names topics by id (KIP-848); the coordinator records both, whatever the version.
"""

from __future__ import annotations

from functools import partial

from ...metadata.acls import Operation, ResourceType
from ...metadata.image import TopicImage
from ...protocol.errors import ErrorCode
from ...protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ..access.authorization.requirements import Each, on_group
from ..coordinators.group_coordinator import GROUP_COORDINATOR, merged
from ..network.api_endpoint import TOPIC_PARTITIONS, ApiEndpoint
from ..network.call import Call
from ..services import Services

TOPIC_ID_VERSION = 10
_TOPICS = Each(Operation.READ, ResourceType.TOPIC)


def handle(services: Services, call: Call) -> OffsetCommitResponse | None:
    request: OffsetCommitRequest = call.request
    image = services.metadata.image
    by_id = call.version >= TOPIC_ID_VERSION
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


def _reply(call: Call, error_results: list[OffsetCommitResponseTopic], response: OffsetCommitResponse) -> None:
    call.reply(OffsetCommitResponse(topics=merged(error_results, response.topics)))


def _keep_existing(
    topic: OffsetCommitRequestTopic, found: TopicImage, error_results: list[OffsetCommitResponseTopic]
) -> bool:
    """Takes the partitions that do not exist out of the request; False when none is left."""
    unknown = [partition for partition in topic.partitions if partition.partition_index not in found.partitions]
    if unknown:
        error_results.append(_error_response(topic, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        topic.partitions = [p for p in topic.partitions if p.partition_index in found.partitions]
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


ENDPOINT = ApiEndpoint(
    handle=handle,
    authorization=(on_group(), _TOPICS),
    place=GROUP_COORDINATOR,
    portionings=TOPIC_PARTITIONS,
)
