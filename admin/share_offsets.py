"""Start offsets of share groups (KIP-932)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from ..protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from ..protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from .errors import check
from .session import Admin, Place


def share_start_offsets(admin: Admin, group: str) -> dict[Place, int]:
    """The start offsets of a group; without partitions that it has not begun. Raises ResponseError."""
    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)]
    )

    def step() -> dict[Place, int]:
        response: DescribeShareGroupOffsetsResponse = admin.ask(request, admin.coordinator_now(group))
        (found,) = response.groups
        check(f"share group {group}", found.error_code, found.error_message)
        return {
            (topic.topic_name, one.partition_index): one.start_offset
            for topic in found.topics
            for one in topic.partitions
            if not one.error_code and one.start_offset >= 0
        }

    return admin.repeated(step)


def set_share_start_offsets(admin: Admin, group: str, offsets: Mapping[Place, int]) -> None:
    """Raises ResponseError, also for a group with members."""
    response = admin.ask(alteration(group, offsets), admin.coordinator(group))
    check_altered(group, response)


def alteration(group: str, offsets: Mapping[Place, int]) -> AlterShareGroupOffsetsRequest:
    """The request that sets start offsets."""
    by_topic: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = defaultdict(list)
    for (topic, index), offset in offsets.items():
        by_topic[topic].append(AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset))
    return AlterShareGroupOffsetsRequest(
        group_id=group,
        topics=[AlterShareGroupOffsetsRequestTopic(name, partitions) for name, partitions in by_topic.items()],
    )


def check_altered(group: str, response: AlterShareGroupOffsetsResponse) -> None:
    """Raises ResponseError for the first offset that was not set."""
    check(f"share group {group}", response.error_code, response.error_message)
    for result in response.responses:
        for one in result.partitions:
            check(f"{group}, {result.topic_name}-{one.partition_index}", one.error_code, one.error_message)
