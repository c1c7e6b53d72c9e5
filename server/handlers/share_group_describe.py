"""ShareGroupDescribe (key 77), version 1.

The groups may be of different shards. See coordinator/groups/share/kind.py.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...protocol.errors import ErrorCode
from ...protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from ..api.group_descriptions import HAS_HIDDEN_TOPICS, HiddenTopics, describe
from ..api.share_errors import is_enabled
from ..network.call import Call
from ..services import Services


def handle(services: Services, call: Call) -> ShareGroupDescribeResponse | None:
    group_ids: list[str] = call.request.group_ids
    if not is_enabled(services):
        rejected = [DescribedGroup(group_id=g, error_code=ErrorCode.UNSUPPORTED_VERSION) for g in group_ids]
        return ShareGroupDescribeResponse(groups=rejected)
    describe(
        services,
        call,
        group_ids,
        lambda ids: ShareGroupDescribeRequest(group_ids=ids),
        ShareGroupDescribeResponse,
        DescribedGroup,
        hidden=HiddenTopics(_topics_of, HAS_HIDDEN_TOPICS),
    )
    return None


def _topics_of(group: DescribedGroup) -> Iterable[str]:
    return (partitions.topic_name for member in group.members for partitions in member.assignment.topic_partitions)
