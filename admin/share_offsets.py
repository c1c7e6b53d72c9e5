"""Start offsets of share groups (KIP-932), read, set and deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Protocol, TypeVar

from .errors import ResponseError
from .places import Place

if TYPE_CHECKING:
    from ..protocol.messages.alter_share_group_offsets import (
        AlterShareGroupOffsetsRequest,
        AlterShareGroupOffsetsResponse,
    )
    from ..protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponse
    from ..protocol.messages.describe_share_group_offsets import DescribeShareGroupOffsetsResponse
    from ..protocol.schema import Request
    from .session import Admin

_NON_EMPTY_GROUP = 68
#: The response to a change of a share group.
Changed = TypeVar("Changed", "AlterShareGroupOffsetsResponse", "DeleteShareGroupOffsetsResponse")

#: Start offset, None for a partition that the group has not begun, and lag, None of brokers before KIP-1226.
Started = tuple[int | None, int | None]


def share_offsets(admin: Admin, names: Iterable[str]) -> dict[str, dict[Place, Started]]:
    """Start offset and lag of share groups by partition."""
    asked = list(names)
    return admin.patiently(lambda: _share_offsets(admin, asked))


def share_start_offsets(admin: Admin, group: str) -> dict[Place, int]:
    """The start offsets of a group; without partitions that it has not begun. Raises ResponseError."""
    found = admin.repeated(lambda: share_offsets(admin, [group]))[group]
    return {place: offset for place, (offset, _) in found.items() if offset is not None}


def _share_offsets(admin: Admin, names: list[str]) -> dict[str, dict[Place, Started]]:
    made: dict[str, dict[Place, Started]] = {}
    for node, groups in admin.by_coordinator(names).items():
        made |= share_offsets_at(admin, node, groups)
    return made


def share_offsets_at(admin: Admin, node: int, groups: Iterable[str]) -> dict[str, dict[Place, Started]]:
    """Works as `share_offsets`, of groups that one node coordinates. Raises ResponseError."""
    from ..protocol.messages.describe_share_group_offsets import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsRequestGroup,
    )

    made: dict[str, dict[Place, Started]] = {}
    asked = [DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None) for group in groups]
    response: DescribeShareGroupOffsetsResponse = admin.ask(DescribeShareGroupOffsetsRequest(groups=asked), node)
    for group in response.groups:
        _check(group.group_id, group)
        made[group.group_id] = {
            (topic.topic_name, one.partition_index): (_known(one.start_offset), _known(one.lag))
            for topic in group.topics
            for one in topic.partitions
            if not one.error_code
        }
    return made


def _known(number: int) -> int | None:
    return number if number >= 0 else None


def alter_share_offsets(admin: Admin, group: str, offsets: Mapping[Place, int]) -> None:
    """Sets start offsets, of a group that need not exist yet. Raises ResponseError for a group with members."""
    check_altered(group, _asked(admin, group, alteration(group, offsets)))


def alteration(group: str, offsets: Mapping[Place, int]) -> AlterShareGroupOffsetsRequest:
    """The request that sets start offsets."""
    from ..protocol.messages.alter_share_group_offsets import (
        AlterShareGroupOffsetsRequest,
        AlterShareGroupOffsetsRequestPartition,
        AlterShareGroupOffsetsRequestTopic,
    )

    topics = [
        AlterShareGroupOffsetsRequestTopic(
            name, [AlterShareGroupOffsetsRequestPartition(index, offsets[name, index]) for _, index in places]
        )
        for name, places in groupby(sorted(offsets), key=lambda place: place[0])
    ]
    return AlterShareGroupOffsetsRequest(group, topics)


def check_altered(group: str, response: AlterShareGroupOffsetsResponse) -> None:
    """Raises ResponseError for the first offset that was not set."""
    _check(group, response)
    for topic in response.responses:
        for one in topic.partitions:
            _check(f"{group}, {topic.topic_name}-{one.partition_index}", one)


def delete_share_offsets(admin: Admin, group: str, topics: Sequence[str]) -> None:
    """Deletes the start offsets of whole topics. Raises ResponseError for a group with members."""
    from ..protocol.messages.delete_share_group_offsets import (
        DeleteShareGroupOffsetsRequest,
        DeleteShareGroupOffsetsRequestTopic,
    )

    request = DeleteShareGroupOffsetsRequest(group, [DeleteShareGroupOffsetsRequestTopic(name) for name in topics])
    response: DeleteShareGroupOffsetsResponse = _asked(admin, group, request)
    for topic in response.responses:
        _check(f"{group}, {topic.topic_name}", topic)


def _asked(admin: Admin, group: str, request: Request[Changed]) -> Changed:
    """The response of the group's coordinator."""

    def step() -> Changed:
        response = admin.ask(request, admin.coordinator(group))
        _check(group, response)
        return response

    return admin.patiently(step)


class _Result(Protocol):
    error_code: int
    error_message: str | None


def _check(subject: str, result: _Result) -> None:
    if result.error_code:
        hint = "; stop its members first" if result.error_code == _NON_EMPTY_GROUP else ""
        raise ResponseError(f"group {subject}", result.error_code, result.error_message, hint)
