"""ConsumerGroupDescribe (KIP-848), versions 0-1. See coordinator/consumer/describe.py. Groups may be of different shards."""

from __future__ import annotations

from functools import partial

from ...protocol.errors import ErrorCode
from ...protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from ..dispatch import Call
from ..gathering import by_partition, gather
from .describe_groups import ALL_OPERATIONS


def handle(call: Call) -> None:
    request: ConsumerGroupDescribeRequest = call.request
    groups = call.broker.groups

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
