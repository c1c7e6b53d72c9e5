"""OffsetDelete (KIP-496), version 0. See coordinator/groups/offsets.py. Partitions that do not exist are refused here."""

from __future__ import annotations

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
from ..network.call import Call
from ..services import Services


def handle(services: Services, call: Call) -> None:
    request: OffsetDeleteRequest = call.request
    known, refusals = _split(services.metadata.image, request.topics)

    def reply(response: OffsetDeleteResponse) -> None:
        if response.error_code == ErrorCode.NONE:
            response.topics = _merged(refusals, response.topics)
        call.reply(response)

    asked = OffsetDeleteRequest(group_id=request.group_id, topics=known)
    services.groups.submit(request.group_id, asked, call.version, call, reply)


def _split(
    image: MetadataImage, topics: list[OffsetDeleteRequestTopic]
) -> tuple[list[OffsetDeleteRequestTopic], list[OffsetDeleteResponseTopic]]:
    """(the existing partitions, the error responses for the others)."""
    known, refusals = [], []
    for topic in topics:
        found = image.topic(topic.name)
        here = [p for p in topic.partitions if found is not None and p.partition_index in found.partitions]
        gone = [p for p in topic.partitions if p not in here]
        if here:
            known.append(OffsetDeleteRequestTopic(name=topic.name, partitions=here))
        if gone:
            refusals.append(_refused(topic.name, gone))
    return known, refusals


def _refused(name: str, partitions: list[OffsetDeleteRequestPartition]) -> OffsetDeleteResponseTopic:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetDeleteResponseTopic(
        name=name,
        partitions=[
            OffsetDeleteResponsePartition(partition_index=p.partition_index, error_code=error) for p in partitions
        ],
    )


def _merged(
    refusals: list[OffsetDeleteResponseTopic], decided: list[OffsetDeleteResponseTopic]
) -> list[OffsetDeleteResponseTopic]:
    merged = {topic.name: topic for topic in refusals}
    for topic in decided:
        known = merged.setdefault(topic.name, topic)
        if known is not topic:
            known.partitions += topic.partitions
    return list(merged.values())
