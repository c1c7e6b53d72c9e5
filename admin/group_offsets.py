"""Committed offsets of groups: description, commits for a group without members, deletion."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from ..client.versions import Bounds
from ..protocol.errors import ErrorCode
from ..protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ..protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ..protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from .errors import ResponseError, check
from .places import Place
from .session import Admin

#: The last versions that name topics in place of their ids.
_COMMITS_BY_NAME = Bounds(most=OffsetCommitRequestTopic.versions_with("name")[-1])
_FETCHES_BY_NAME = Bounds(most=OffsetFetchRequestTopics.versions_with("name")[-1])
_NO_GENERATION = -1
_WITH_MEMBERS = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.NON_EMPTY_GROUP,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
)


class Committed(NamedTuple):
    """An offset, and the text that a client committed with it."""

    offset: int
    metadata: str


def committed(admin: Admin, group: str, coordinator: int | None = None) -> dict[Place, Committed]:
    """Committed offsets; none of a group that does not exist. `coordinator` None: a request to a broker finds it."""
    request = OffsetFetchRequest(
        group_id=group, topics=None, groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]
    )

    def step() -> dict[Place, Committed]:
        node = admin.coordinator_now(group) if coordinator is None else coordinator
        response = admin.ask(request, node, _FETCHES_BY_NAME)
        found = response.groups[0] if response.groups else response
        check(f"group {group}", found.error_code)
        offsets: dict[Place, Committed] = {}
        for topic in found.topics:
            for one in topic.partitions:
                check(f"group {group}, {topic.name}-{one.partition_index}", one.error_code)
                if one.committed_offset >= 0:
                    place = (topic.name, one.partition_index)
                    offsets[place] = Committed(one.committed_offset, one.metadata or "")
        return dict(sorted(offsets.items()))

    return admin.repeated(step)


def committed_offsets(admin: Admin, group: str, coordinator: int | None = None) -> dict[Place, int]:
    return {place: offset for place, (offset, _) in committed(admin, group, coordinator).items()}


def commit(
    admin: Admin, group: str, offsets: Mapping[Place, int], metadata: Mapping[Place, str] = MappingProxyType({})
) -> None:
    """Raises ResponseError for a group with members, which would commit over it."""
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
    for (topic, index), offset in offsets.items():
        by_topic[topic].append(
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=metadata.get((topic, index), "")
            )
        )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=_NO_GENERATION,
        topics=[OffsetCommitRequestTopic(name=name, partitions=partitions) for name, partitions in by_topic.items()],
    )

    def step() -> None:
        response = admin.ask(request, admin.coordinator(group), _COMMITS_BY_NAME)
        for topic in response.topics:
            for one in topic.partitions:
                _check(f"group {group}, {topic.name}-{one.partition_index}", one.error_code)

    admin.patiently(step)


def delete_offsets(admin: Admin, group: str, places: Iterable[Place]) -> None:
    """Deletes committed offsets. Raises ResponseError where members are subscribed to the topic."""
    by_topic: dict[str, list[OffsetDeleteRequestPartition]] = defaultdict(list)
    for topic, index in places:
        by_topic[topic].append(OffsetDeleteRequestPartition(index))
    request = OffsetDeleteRequest(
        group_id=group, topics=[OffsetDeleteRequestTopic(name, partitions) for name, partitions in by_topic.items()]
    )

    def step() -> None:
        response = admin.ask(request, admin.coordinator(group))
        _check(f"group {group}", response.error_code)
        for topic in response.topics:
            for one in topic.partitions:
                _check(f"group {group}, {topic.name}-{one.partition_index}", one.error_code)

    admin.patiently(step)


def _check(subject: str, code: int) -> None:
    if code:
        raise ResponseError(subject, code, None, "; stop its members first" if code in _WITH_MEMBERS else "")
