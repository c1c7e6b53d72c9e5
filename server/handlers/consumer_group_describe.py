"""ConsumerGroupDescribe (KIP-848), versions 0-1. See coordinator/consumer/describe.py. Groups may be of different shards."""

from __future__ import annotations

from functools import partial

from ...protocol.errors import ErrorCode
from ...protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from ..consumer_protocol import has_consumer_groups
from ..dispatch import Call
from ..gathering import by_partition, gather
from .describe_groups import ALL_OPERATIONS


def handle(call: Call) -> ConsumerGroupDescribeResponse | None:
    request: ConsumerGroupDescribeRequest = call.request
    groups = call.broker.groups
    if not has_consumer_groups(call.broker):
        refused = [DescribedGroup(group_id=g, error_code=ErrorCode.UNSUPPORTED_VERSION) for g in request.group_ids]
        return ConsumerGroupDescribeResponse(groups=refused)

    def reply(answers: list[ConsumerGroupDescribeResponse]) -> None:
        described = [group for answer in answers for group in answer.groups]
        for group in described:
            if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
                group.authorized_operations = ALL_OPERATIONS
        call.reply(ConsumerGroupDescribeResponse(groups=described))

    gather(
        [
            partial(groups.submit, ids[0], ConsumerGroupDescribeRequest(group_ids=ids), call.version, call)
            for ids in by_partition(groups, request.group_ids)
        ],
        reply,
    )
    return None
