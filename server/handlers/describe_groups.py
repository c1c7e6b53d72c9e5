"""DescribeGroups, versions 0-6. See coordinator/admin.py. The groups may be of different shards."""

from __future__ import annotations

from functools import partial

from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ..dispatch import Call
from ..gathering import by_partition, gather

#: What one may do with a group, as bits by the number of the operation: READ 3, DELETE 6, DESCRIBE 8, DESCRIBE_CONFIGS 10,
#: ALTER_CONFIGS 11. Without an authorizer everybody may do everything.
ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11


def handle(call: Call) -> None:
    request: DescribeGroupsRequest = call.request
    groups = call.broker.groups

    def reply(answers: list[DescribeGroupsResponse]) -> None:
        described = [group for answer in answers for group in answer.groups]
        for group in described:
            if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
                group.authorized_operations = ALL_OPERATIONS
        call.reply(DescribeGroupsResponse(groups=described))

    gather(
        [
            partial(groups.submit, ids[0], DescribeGroupsRequest(groups=ids), call.version, call)
            for ids in by_partition(groups, request.groups)
        ],
        reply,
    )
