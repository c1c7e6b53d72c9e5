"""Start offsets of share groups that a viewer sets (KIP-932), and their dead-letter queues (KIP-1191)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...admin.configs import Kind, describe_configs
from ...admin.errors import ResponseError, check
from ...admin.log_offsets import EARLIEST, LATEST, partition_offsets
from ...admin.positions import BEGINNING, END, Position
from ...admin.topics import existing_topics
from ...client.error_kinds import ErrorKind
from ...client.user_errors import Misused, UserError
from ...protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ...admin.session import Admin
    from ...protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse

_QUEUE = "errors.deadletterqueue.topic.name"
Place = tuple[str, int]


def share_targets(admin: Admin, before: Mapping[Place, int], topic: str, to: Position) -> dict[Place, int]:
    """Offsets that a reset gives, within what the logs have."""
    name = topic.partition(":")[0]
    topics = existing_topics(admin, [name] if name else sorted({one for one, _ in before}))
    if not topics:
        raise UserError("the group has no offsets for that topic", ErrorKind.NOT_FOUND)
    first, last = partition_offsets(admin, topics, EARLIEST), partition_offsets(admin, topics, LATEST)
    if to.timestamp_ms is not None:
        found = partition_offsets(admin, topics, to.timestamp_ms)
        return {place: offset if offset >= 0 else last[place] for place, offset in found.items()}
    if to.offset == BEGINNING:
        return first
    if to.offset == END:
        return last
    if to.offset is None or to.offset < -1_000_000_000 or to.offset == -1000:
        raise Misused("give beginning, end, an offset, -N or a time")
    wanted = {place: to.offset if to.offset >= 0 else end + to.offset + 2000 for place, end in last.items()}
    return {place: min(max(offset, first[place]), last[place]) for place, offset in wanted.items()}


def alter_share_offsets(admin: Admin, group: str, offsets: Mapping[Place, int]) -> None:
    """Raises UserError for a group with members."""
    from ...protocol.messages.alter_share_group_offsets import (
        AlterShareGroupOffsetsRequest,
        AlterShareGroupOffsetsRequestPartition,
        AlterShareGroupOffsetsRequestTopic,
    )

    by_topic: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = defaultdict(list)
    for (topic, partition), offset in offsets.items():
        by_topic[topic].append(AlterShareGroupOffsetsRequestPartition(partition_index=partition, start_offset=offset))
    topics = [
        AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)
        for topic, partitions in by_topic.items()
    ]
    request = AlterShareGroupOffsetsRequest(group_id=group, topics=topics)
    response: AlterShareGroupOffsetsResponse = admin.ask(request, admin.coordinator_now(group))
    check(f"group {group}", response.error_code, response.error_message)
    for result in response.responses:
        for one in result.partitions:
            check(f"group {group}, {result.topic_name}-{one.partition_index}", one.error_code, one.error_message)


def queue_of(admin: Admin, group: str) -> str | None:
    """The topic of a share group's dead-letter queue; "" without one, and from brokers that have none; None where this user
    may not know it.
    """
    try:
        found = describe_configs(admin, Kind.GROUP, group)
    except ResponseError as error:
        if error.is_denial:
            return None
        if error.code == ErrorCode.INVALID_REQUEST:  # brokers without configs of groups
            return ""
        raise
    return found[_QUEUE].value or "" if _QUEUE in found else ""
