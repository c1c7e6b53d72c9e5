"""DescribeShareGroupOffsets: start offsets of share groups, and their lag (KIP-1226).

A group without topics in the request gets all partitions that the persister has of it. The lag counts the records that
are not finished, up to the end of the partition; its leader returns that end.

Contract: `protocol/messages/describe_share_group_offsets.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...coordinator.groups.share.persister_requests import InitializedPartitions, KnownPartitions
from ...metadata.acls import Operation, ResourceType
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from ...protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
)
from ...protocol.messages.share_state_reads import ReadStateData, ReadStatePartition
from ..access.authorization.requirements import WORDS, Each
from ..coordinators.group_coordinator import GROUP_COORDINATORS
from ..coordinators.group_descriptions import NAMED_TOPICS
from ..coordinators.scatter_and_gather import gather
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..network.portions import Portioning
from ..services import Services
from ..share.latest_offsets import End, Ends
from ..share.share_preconditions import are_enabled

_GROUPS = Each(Operation.DESCRIBE, ResourceType.GROUP)
UNINITIALIZED = -1
MAX_INT64 = (1 << 63) - 1
Done = Callable[[DescribeShareGroupOffsetsResponseGroup], None]


def handle(services: Services, call: Call[DescribeShareGroupOffsetsRequest]) -> None:
    request = call.request

    def reply(groups: list[DescribeShareGroupOffsetsResponseGroup]) -> None:
        call.reply(DescribeShareGroupOffsetsResponse(groups=groups))

    gather([partial(_describe, services, call, group) for group in request.groups], reply)


def _describe(
    services: Services,
    call: Call[DescribeShareGroupOffsetsRequest],
    group: DescribeShareGroupOffsetsRequestGroup,
    done: Done,
) -> None:
    group_offsets = DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id)
    if not are_enabled(services):
        group_offsets.error_code = ErrorCode.UNSUPPORTED_VERSION
        done(group_offsets)
    elif _GROUPS.denies(services.access.authorizer, call, group.group_id):
        group_offsets.error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        done(group_offsets)
    elif group.topics is None:
        asked = InitializedPartitions(group.group_id)
        services.coordinators.groups.submit(
            group.group_id,
            asked,
            0,
            call,
            partial(_known, services, group_offsets, partial(_show, services, call, done)),
        )
    else:
        _named(services, call, group, group_offsets, done)


def _show(
    services: Services,
    call: Call[DescribeShareGroupOffsetsRequest],
    done: Done,
    group_offsets: DescribeShareGroupOffsetsResponseGroup,
) -> None:
    """Leaves out the topics that the client may not describe."""
    names = [topic.topic_name for topic in group_offsets.topics]
    denied = NAMED_TOPICS.denied(services.access.authorizer, call, names)
    group_offsets.topics = [topic for topic in group_offsets.topics if topic.topic_name not in denied]
    done(group_offsets)


def _known(
    services: Services, group_offsets: DescribeShareGroupOffsetsResponseGroup, done: Done, known: KnownPartitions
) -> None:
    if known.error:
        group_offsets.error_code = known.error
        done(group_offsets)
        return
    there = {t: sorted(p) for t, p in known.partitions.items() if services.metadata.image.topic_by_id(t) is not None}
    _ask(services, group_offsets, there, done)


def _named(
    services: Services,
    call: Call[DescribeShareGroupOffsetsRequest],
    group: DescribeShareGroupOffsetsRequestGroup,
    group_offsets: DescribeShareGroupOffsetsResponseGroup,
    done: Done,
) -> None:
    wanted: dict[bytes, list[int]] = {}
    absent: list[DescribeShareGroupOffsetsResponseTopic] = []
    names = [topic.topic_name for topic in group.topics or ()]
    denied = NAMED_TOPICS.denied(services.access.authorizer, call, names)
    for topic in group.topics or ():
        if topic.topic_name in denied:
            absent.append(_denied(topic.topic_name, topic.partitions))
            continue
        found = services.metadata.image.topic(topic.topic_name)
        if found is not None:
            wanted[found.id] = topic.partitions
        else:
            absent.append(_absent(topic.topic_name, topic.partitions))

    def described(group: DescribeShareGroupOffsetsResponseGroup) -> None:
        if not group.error_code:
            group.topics += absent
        done(group)

    _ask(services, group_offsets, wanted, described)


def _denied(name: str, partitions: list[int]) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=name,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=index,
                start_offset=UNINITIALIZED,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                error_message=WORDS[ErrorCode.TOPIC_AUTHORIZATION_FAILED],
            )
            for index in partitions
        ],
    )


def _absent(name: str, partitions: list[int]) -> DescribeShareGroupOffsetsResponseTopic:
    """A missing topic is reported like a topic in which the group has no state."""
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=name,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=UNINITIALIZED)
            for index in partitions
        ],
    )


def _ask(
    services: Services,
    group_offsets: DescribeShareGroupOffsetsResponseGroup,
    partitions: dict[bytes, list[int]],
    done: Done,
) -> None:
    if not partitions:
        done(group_offsets)
        return
    topics = [
        ReadStateData(topic_id=topic_id, partitions=[ReadStatePartition(partition=index) for index in indexes])
        for topic_id, indexes in partitions.items()
    ]
    request = ReadShareGroupStateSummaryRequest(group_id=group_offsets.group_id, topics=topics)
    services.share.persister().ask(request, partial(_summed_up, services, group_offsets, done))


def _summed_up(
    services: Services,
    group_offsets: DescribeShareGroupOffsetsResponseGroup,
    done: Done,
    response: ReadShareGroupStateSummaryResponse,
) -> None:
    names: dict[bytes, str] = {}
    for result in response.results:
        topic = services.metadata.image.topic_by_id(result.topic_id)
        names[result.topic_id] = "" if topic is None else topic.name

    def ends_are_known(ends: Ends) -> None:
        for result in response.results:
            name = names[result.topic_id]
            partitions = [_partition(found, ends.get((name, found.partition))) for found in result.partitions]
            group_offsets.topics.append(
                DescribeShareGroupOffsetsResponseTopic(topic_id=result.topic_id, topic_name=name, partitions=partitions)
            )
        done(group_offsets)

    begun = [(names[r.topic_id], p.partition) for r in response.results for p in r.partitions if _is_begun(p)]
    services.share.latest_offsets().look_up(begun, ends_are_known)


def _is_begun(state: Any) -> bool:
    return not state.error_code and UNINITIALIZED not in (state.start_offset, state.delivery_complete_count)


def _partition(state: Any, end: End | None) -> DescribeShareGroupOffsetsResponsePartition:
    """`end`: None of what the persister did not tell, which is no error but the absence of data."""
    one = DescribeShareGroupOffsetsResponsePartition(partition_index=state.partition)
    if end is not None and end.error:
        one.error_code = end.error
        return one
    if state.error_code:
        one.start_offset = UNINITIALIZED
        return one
    one.start_offset, one.leader_epoch = state.start_offset, state.leader_epoch
    if end is not None:
        # A client wrote the start offset, which may be any number.
        one.lag = min(MAX_INT64, end.offset - state.start_offset - state.delivery_complete_count)
    return one


ENDPOINT: ApiEndpoint[DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse] = ApiEndpoint(
    handle=handle,
    authorization=(_GROUPS, NAMED_TOPICS),
    place=GROUP_COORDINATORS,
    portionings=(Portioning(("groups", "topics", "partitions"), ("groups", "topics", "partitions")),),
)
