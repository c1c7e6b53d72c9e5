"""StreamsGroupDescribe (KIP-1071), versions 0-1. See coordinator/streams/describe.py. Groups may be of different shards."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ...protocol.errors import ErrorCode
from ...protocol.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from ..dispatch import Call
from ..gathering import by_partition, gather
from ..streams_groups import is_offered
from .describe_groups import ALL_OPERATIONS


def handle(call: Call) -> StreamsGroupDescribeResponse | None:
    request: StreamsGroupDescribeRequest = call.request
    groups = call.broker.groups
    if not is_offered(call.broker):
        return StreamsGroupDescribeResponse(
            groups=[_refused(g, ErrorCode.UNSUPPORTED_VERSION) for g in request.group_ids]
        )
    unnamed = [_refused("", ErrorCode.INVALID_GROUP_ID) for group_id in request.group_ids if not group_id]

    def reply(answers: list[StreamsGroupDescribeResponse]) -> None:
        described = [group for answer in answers for group in answer.groups]
        for group in described if request.include_authorized_operations else ():
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = ALL_OPERATIONS
        call.reply(StreamsGroupDescribeResponse(groups=unnamed + described))

    gather(
        [
            partial(groups.submit, ids[0], replace(request, group_ids=ids), call.version, call)
            for ids in by_partition(groups, [group_id for group_id in request.group_ids if group_id])
        ],
        reply,
    )
    return None


def _refused(group_id: str, error: ErrorCode) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, error_code=error)
