"""OffsetDelete: committed offsets of a group without such a consumer (KIP-496).

Decided in `coordinator/groups/offsets.py`. Partitions that do not exist are rejected here.

Contract: `protocol/messages/offset_delete.py`.
"""

from __future__ import annotations

from ...metadata.acls import Operation, ResourceType
from ...metadata.image import MetadataImage
from ...protocol.errors import ErrorCode
from ...protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ..access.authorization.requirements import Each
from ..access.authorization.usual_requirements import on_group
from ..coordinators.group_coordinator import GROUP_COORDINATOR
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..network.portions import TOPIC_PARTITIONS
from ..services import Services

_TOPICS = Each(Operation.READ, ResourceType.TOPIC)


def handle(services: Services, call: Call[OffsetDeleteRequest]) -> None:
    request = call.request
    names = [topic.name for topic in request.topics]
    denied = _TOPICS.denied(services.access.authorizer, call, names)
    permitted = [topic for topic in request.topics if topic.name not in denied]
    known, error_results = _split(services.metadata.image, permitted)
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    error_results += [
        _error_response(topic.name, topic.partitions, error) for topic in request.topics if topic.name in denied
    ]

    def reply(response: OffsetDeleteResponse) -> None:
        if response.error_code == ErrorCode.NONE:
            response.topics = _merged(error_results, response.topics)
        call.reply(response)

    asked = OffsetDeleteRequest(group_id=request.group_id, topics=known)
    services.coordinators.groups.submit(request.group_id, asked, call.version, call, reply)


def _split(
    image: MetadataImage, topics: list[OffsetDeleteRequestTopic]
) -> tuple[list[OffsetDeleteRequestTopic], list[OffsetDeleteResponseTopic]]:
    """(the existing partitions, the error responses for the others)."""
    known, error_results = [], []
    for topic in topics:
        found = image.topic(topic.name)
        here = [p for p in topic.partitions if found is not None and p.partition_index in found.partitions]
        gone = [p for p in topic.partitions if p not in here]
        if here:
            known.append(OffsetDeleteRequestTopic(name=topic.name, partitions=here))
        if gone:
            error_results.append(_error_response(topic.name, gone, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    return known, error_results


def _error_response(
    name: str, partitions: list[OffsetDeleteRequestPartition], error: ErrorCode
) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=name,
        partitions=[
            OffsetDeleteResponsePartition(partition_index=p.partition_index, error_code=error) for p in partitions
        ],
    )


def _merged(
    error_results: list[OffsetDeleteResponseTopic], decided: list[OffsetDeleteResponseTopic]
) -> list[OffsetDeleteResponseTopic]:
    merged = {topic.name: topic for topic in error_results}
    for topic in decided:
        known = merged.setdefault(topic.name, topic)
        if known is not topic:
            known.partitions += topic.partitions
    return list(merged.values())


ENDPOINT: ApiEndpoint[OffsetDeleteRequest, OffsetDeleteResponse] = ApiEndpoint(
    handle=handle,
    authorization=(on_group(Operation.DELETE), _TOPICS),
    place=GROUP_COORDINATOR,
    portionings=TOPIC_PARTITIONS,
)
