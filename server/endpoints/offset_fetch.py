"""OffsetFetch: the committed offsets of groups.

Answered in `coordinator/groups/offsets.py`.

A request for one group is converted to the form for several (KIP-709). The coordinator of all is this broker, but they may
be of different shards. Topics are named by name or by id (KIP-848).

Contract: `protocol/messages/offset_fetch.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from functools import partial
from typing import Any

from ...metadata.acls import Operation, ResourceType
from ...metadata.image import MetadataImage
from ...protocol.errors import ErrorCode
from ...protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ...protocol.uuids import ZERO_UUID
from ..access.authorization.requirements import Each
from ..coordinators.group_coordinator import GROUP_COORDINATORS
from ..coordinators.scatter_and_gather import gather
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..network.portions import Portioning
from ..services import Services

_GROUPS = Each(Operation.DESCRIBE, ResourceType.GROUP)
_TOPICS = Each(Operation.DESCRIBE, ResourceType.TOPIC)
WITH_TOP_LEVEL_ERROR = OffsetFetchResponse.versions_with("error_code")
WITH_SEVERAL_GROUPS = OffsetFetchRequest.versions_with("groups")
WITH_TOPIC_IDS = OffsetFetchRequestTopics.versions_with("topic_id")


def handle(services: Services, call: Call[OffsetFetchRequest]) -> None:
    """Asks each shard once, for all the groups that it has."""
    request = call.request
    groups = request.groups if call.version in WITH_SEVERAL_GROUPS else [_as_group(request)]
    positions: dict[int, list[int]] = {}
    for position, group in enumerate(groups):
        positions.setdefault(services.coordinators.groups.partition_for(group.group_id), []).append(position)
    questions = [partial(_fetch, services, call, [groups[p] for p in found]) for found in positions.values()]

    def answered(responses: list[list[OffsetFetchResponseGroup]]) -> None:
        ordered: list[Any] = [None] * len(groups)
        for found, of_shard in zip(positions.values(), responses, strict=True):
            for position, response in zip(found, of_shard, strict=True):
                ordered[position] = response
        call.reply(_response(call.version, request, ordered))

    gather(questions, answered)


def _as_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    if request.topics is None:
        return OffsetFetchRequestGroup(group_id=request.group_id, topics=None)
    topics = [OffsetFetchRequestTopics(name=t.name, partition_indexes=t.partition_indexes) for t in request.topics]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _fetch(
    services: Services,
    call: Call[OffsetFetchRequest],
    groups: list[OffsetFetchRequestGroup],
    done: Callable[[list[OffsetFetchResponseGroup]], None],
) -> None:
    """Groups of one shard; by name as the coordinator keeps offsets, so ids that no topic has are answered here.

    Groups and topics that the client may not describe are answered here, too.
    """
    if services.access.authorizer is not None:
        groups_denied = _GROUPS.denied(services.access.authorizer, call, [group.group_id for group in groups])
        if groups_denied:
            _fetch_permitted(services, call, groups, groups_denied, done)
            return
    by_id = call.version in WITH_TOPIC_IDS
    fetches_all = [group.topics is None for group in groups]
    unknown: dict[int, list[OffsetFetchResponseTopics]] = {}
    if by_id:
        for position, group in enumerate(groups):
            if group.topics is not None:
                group.topics, unknown[position] = _named(services.metadata.image, group.topics)
    if services.access.authorizer is not None:
        for position, group in enumerate(groups):
            if group.topics is not None:
                unknown.setdefault(position, []).extend(_take_out_denied(services, call, group))

    def reply(response: OffsetFetchResponse) -> None:
        for position, found in enumerate(response.groups):
            if found.error_code == ErrorCode.NONE:
                if fetches_all[position]:
                    found.topics = _describable(services, call, found.topics)
                    if by_id:
                        found.topics = _with_ids(services.metadata.image, found.topics)
                found.topics += unknown.get(position, [])
        done(response.groups)

    asked = OffsetFetchRequest(groups=groups, require_stable=call.request.require_stable)
    services.coordinators.groups.submit(
        groups[0].group_id, asked, max(call.version, WITH_SEVERAL_GROUPS.start), call, reply
    )


def _fetch_permitted(
    services: Services,
    call: Call[OffsetFetchRequest],
    groups: list[OffsetFetchRequestGroup],
    denied: Set[str],
    done: Callable[[list[OffsetFetchResponseGroup]], None],
) -> None:
    """Fetches the groups that the client may describe; the responses are in the order of all."""
    permitted = [group for group in groups if group.group_id not in denied]

    def fetched(fetched_groups: list[OffsetFetchResponseGroup]) -> None:
        left = iter(fetched_groups)
        error = ErrorCode.GROUP_AUTHORIZATION_FAILED
        done(
            [
                OffsetFetchResponseGroup(group_id=group.group_id, error_code=error)
                if group.group_id in denied
                else next(left)
                for group in groups
            ]
        )

    if permitted:
        _fetch(services, call, permitted, fetched)
    else:
        fetched([])


def _take_out_denied(
    services: Services, call: Call[OffsetFetchRequest], group: OffsetFetchRequestGroup
) -> list[OffsetFetchResponseTopics]:
    """Takes the topics that the client may not describe out of the request. Returns the responses for them."""
    topics = group.topics or []
    names = [topic.name for topic in topics]
    denied = _TOPICS.denied(services.access.authorizer, call, names)
    group.topics = [topic for topic in topics if topic.name not in denied]
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return [
        OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[_error_response(index, error) for index in topic.partition_indexes],
        )
        for topic in topics
        if topic.name in denied
    ]


def _describable(
    services: Services, call: Call[OffsetFetchRequest], topics: list[OffsetFetchResponseTopics]
) -> list[OffsetFetchResponseTopics]:
    """Leaves out the topics that the client may not describe."""
    names = [topic.name for topic in topics]
    denied = _TOPICS.denied(services.access.authorizer, call, names)
    return [topic for topic in topics if topic.name not in denied]


def _named(
    image: MetadataImage, topics: list[OffsetFetchRequestTopics]
) -> tuple[list[OffsetFetchRequestTopics], list[OffsetFetchResponseTopics]]:
    """(those that exist, with their names, the responses for the others)."""
    known, unknown = [], []
    for topic in topics:
        found = image.topic_by_id(topic.topic_id)
        if found is not None:
            topic.name = found.name
            known.append(topic)
        else:
            partitions = [_error_response(index, ErrorCode.UNKNOWN_TOPIC_ID) for index in topic.partition_indexes]
            unknown.append(OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=partitions))
    return known, unknown


def _error_response(index: int, error: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=-1,
        committed_leader_epoch=-1,
        metadata="",
        error_code=error,
    )


def _with_ids(image: MetadataImage, topics: list[OffsetFetchResponseTopics]) -> list[OffsetFetchResponseTopics]:
    """All offsets of a group, of the topics that still are."""
    for topic in topics:
        found = image.topic(topic.name)
        topic.topic_id = found.id if found is not None else ZERO_UUID
    return [topic for topic in topics if topic.topic_id != ZERO_UUID]


def _response(version: int, request: OffsetFetchRequest, groups: list[OffsetFetchResponseGroup]) -> OffsetFetchResponse:
    if version in WITH_SEVERAL_GROUPS:
        return OffsetFetchResponse(groups=groups)
    (group,) = groups
    if group.error_code != ErrorCode.NONE and version not in WITH_TOP_LEVEL_ERROR:
        return OffsetFetchResponse(topics=_errors_for_all(request, group.error_code))
    topics = [
        OffsetFetchResponseTopic(name=topic.name, partitions=[_old_form(p) for p in topic.partitions])
        for topic in group.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=group.error_code)


def _old_form(partition: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=partition.partition_index,
        committed_offset=partition.committed_offset,
        committed_leader_epoch=partition.committed_leader_epoch,
        metadata=partition.metadata,
        error_code=partition.error_code,
    )


def _errors_for_all(request: OffsetFetchRequest, error_code: int) -> list[OffsetFetchResponseTopic]:
    """Version 1 has a place for errors only with the partitions."""
    return [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=-1, metadata="", error_code=error_code
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or []
    ]


ENDPOINT: ApiEndpoint[OffsetFetchRequest, OffsetFetchResponse] = ApiEndpoint(
    handle=handle,
    authorization=(_GROUPS, _TOPICS),
    place=GROUP_COORDINATORS,
    portionings=(
        Portioning(("groups", "topics", "partition_indexes"), ("groups", "topics", "partitions")),
        Portioning(("topics", "partition_indexes"), ("topics", "partitions")),
    ),
    # All groups of one coordinator, with the partitions of each: a tool asks for fewer by far. Their response is built as a
    # whole, at some 150 bytes an item.
    most_items=200_000,
)
