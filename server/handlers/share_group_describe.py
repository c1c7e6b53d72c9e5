"""ShareGroupDescribe (key 77), version 1. See coordinator/share/describe.py. The groups may be of different shards."""

from __future__ import annotations

from functools import partial

from ...protocol.errors import ErrorCode
from ...protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from ..dispatch import Call
from ..gathering import by_partition, gather
from ..share_refusals import is_enabled
from .describe_groups import ALL_OPERATIONS


def handle(call: Call) -> ShareGroupDescribeResponse | None:
    request: ShareGroupDescribeRequest = call.request
    groups = call.broker.groups
    if not is_enabled(call):
        error = ErrorCode.UNSUPPORTED_VERSION
        return ShareGroupDescribeResponse(
            groups=[DescribedGroup(group_id=group_id, error_code=error) for group_id in request.group_ids]
        )

    def reply(answers: list[ShareGroupDescribeResponse]) -> None:
        described = [group for answer in answers for group in answer.groups]
        for group in described:
            if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
                group.authorized_operations = ALL_OPERATIONS
        call.reply(ShareGroupDescribeResponse(groups=described))

    gather(
        [
            partial(groups.submit, ids[0], ShareGroupDescribeRequest(group_ids=ids), call.version, call)
            for ids in by_partition(groups, request.group_ids)
        ],
        reply,
    )
    return None
