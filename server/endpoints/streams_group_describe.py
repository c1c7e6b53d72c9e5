"""StreamsGroupDescribe: streams groups and their topologies (KIP-1071).

Groups may be of different shards. Answered in `coordinator/groups/streams/describe.py`.

Contract: `protocol/messages/streams_group_describe.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...coordinator.groups.share import kind as share_kind
from ...coordinator.groups.streams import kind
from ...protocol.errors import ErrorCode
from ...protocol.messages.streams_group_describe import (
    DescribedStreamsGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from ..coordinators.group_coordinator import GROUP_COORDINATORS, streams_groups_precondition
from ..coordinators.group_descriptions import (
    DESCRIBED_GROUPS,
    NAMED_TOPICS,
    HiddenTopics,
    describe,
)
from ..network.api_endpoint import ApiEndpoint
from ..network.call import Call
from ..network.portions import ONCE, Portioning
from ..services import Services

#: Imported with this file, on a thread. A shard takes all kinds of groups that it does not know at once (`Kinds.load_all`).
PRELOADED = (kind, share_kind)


def handle(services: Services, call: Call[StreamsGroupDescribeRequest]) -> None:
    request = call.request
    named = [group_id for group_id in request.group_ids if group_id]
    unnamed = [_error_response("", ErrorCode.INVALID_GROUP_ID) for group_id in request.group_ids if not group_id]
    describe(
        services,
        call,
        named,
        lambda ids: replace(request, group_ids=ids),
        StreamsGroupDescribeResponse,
        DescribedStreamsGroup,
        unnamed,
        HiddenTopics(_topics_of, "The described group uses topics that the client is not authorized to describe."),
    )


def _topics_of(group: DescribedStreamsGroup) -> Iterable[str]:
    for one in (group.topology.subtopologies if group.topology is not None else ()) or ():
        yield from one.source_topics
        yield from one.repartition_sink_topics
        yield from (topic.name for topic in (*one.repartition_source_topics, *one.state_changelog_topics))


def _error_response(group_id: str, error: ErrorCode) -> DescribedStreamsGroup:
    return DescribedStreamsGroup(group_id=group_id, error_code=error)


ENDPOINT: ApiEndpoint[StreamsGroupDescribeRequest, StreamsGroupDescribeResponse] = ApiEndpoint(
    handle=handle,
    precondition=streams_groups_precondition,
    authorization=(DESCRIBED_GROUPS, NAMED_TOPICS),
    place=GROUP_COORDINATORS,
    portionings=(Portioning(("group_ids",), ("groups",), ONCE, first=8),),
)
