"""Groups as their coordinators describe them: state, assignor, and members with their partitions or tasks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NotRequired, TypedDict

from ...admin.errors import check
from ...admin.groups import GroupMember, describe_classic_group, describe_consumer_group

if TYPE_CHECKING:
    from ...admin.session import Admin
    from ...protocol.messages.share_group_describe import DescribedShareMember as ShareMember
    from ...protocol.messages.share_group_describe import ShareGroupDescribeResponse
    from ...protocol.messages.streams_group_describe import DescribedStreamsGroup as StreamsGroup
    from ...protocol.messages.streams_group_describe import DescribedStreamsMember as StreamsMember
    from ...protocol.messages.streams_group_describe import StreamsGroupDescribeResponse


class ListedGroup(TypedDict):
    group: str
    kind: str
    state: str
    protocol: str


def description_of(admin: Admin, group: ListedGroup) -> GroupDescription:
    """Assignor, coordinator and members of a classic or consumer group."""
    describe = describe_consumer_group if group["kind"] == "consumer" else describe_classic_group
    found = describe(admin, group["group"])
    return {
        "assignor": found.assignor or None,
        "coordinator": found.coordinator,
        "members": [_member(member) for member in found.members],
    }


def _member(member: GroupMember) -> ShownMember:
    return {
        "member": member.member_id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": member.client_host,
        "partitions": sorted(f"{topic}-{index}" for topic, indexes in member.assigned for index in indexes),
    }


class ShownMember(TypedDict):
    """A member of a group of any kind. Only streams groups have tasks."""

    member: str
    instance: str | None
    client: str
    host: str
    partitions: list[str]
    tasks: NotRequired[dict[str, list[str]]]


class GroupDescription(TypedDict):
    """A group as its coordinator describes it. `members` is None where it is not known."""

    assignor: str | None
    coordinator: int | None
    topology_epoch: NotRequired[int | None]
    members: list[ShownMember] | None


def share_groups(admin: Admin, names: Iterable[str]) -> dict[str, GroupDescription]:
    """Assignor, coordinator and members of share groups."""
    asked = list(names)
    return admin.patiently(lambda: _share_groups(admin, asked))


def _share_groups(admin: Admin, names: Iterable[str]) -> dict[str, GroupDescription]:
    from ...protocol.messages.share_group_describe import ShareGroupDescribeRequest

    made: dict[str, GroupDescription] = {}
    for node, groups in admin.by_coordinator(names).items():
        request = ShareGroupDescribeRequest(group_ids=groups, include_authorized_operations=False)
        response: ShareGroupDescribeResponse = admin.ask(request, node)
        for group in response.groups:
            check(f"group {group.group_id}", group.error_code, group.error_message)
            members = [_share_member(member) for member in group.members]
            made[group.group_id] = {"assignor": group.assignor_name or None, "coordinator": node, "members": members}
    return made


def _share_member(member: ShareMember) -> ShownMember:
    places = [
        f"{one.topic_name}-{partition}" for one in member.assignment.topic_partitions for partition in one.partitions
    ]
    return _described_member(member, None, places)


def streams_groups(admin: Admin, names: Iterable[str]) -> dict[str, GroupDescription]:
    """Assignor, coordinator, topology epoch and members with their tasks of streams groups."""
    asked = list(names)
    return admin.patiently(lambda: _streams_groups(admin, asked))


def _streams_groups(admin: Admin, names: Iterable[str]) -> dict[str, GroupDescription]:
    from ...protocol.messages.streams_group_describe import StreamsGroupDescribeRequest

    made: dict[str, GroupDescription] = {}
    for node, groups in admin.by_coordinator(names).items():
        request = StreamsGroupDescribeRequest(
            group_ids=groups, include_authorized_operations=False, include_topology_description=False
        )
        response: StreamsGroupDescribeResponse = admin.ask(request, node)
        for group in response.groups:
            check(f"group {group.group_id}", group.error_code, group.error_message)
            made[group.group_id] = {
                "assignor": group.assignor_name or None,
                "coordinator": node,
                "topology_epoch": group.topology.epoch if group.topology is not None else None,
                "members": [_streams_member(member, _sources(group)) for member in group.members],
            }
    return made


def _sources(group: StreamsGroup) -> dict[str, list[str]]:
    """The topics that the tasks of each subtopology read."""
    subtopologies = group.topology.subtopologies if group.topology is not None else None
    return {
        one.subtopology_id: [*one.source_topics, *(topic.name for topic in one.repartition_source_topics)]
        for one in subtopologies or ()
    }


def _streams_member(member: StreamsMember, sources: dict[str, list[str]]) -> ShownMember:
    tasks = {
        kind: sorted(f"{one.subtopology_id}_{number}" for one in held for number in one.partitions)
        for kind, held in (
            ("active", member.assignment.active_tasks),
            ("standby", member.assignment.standby_tasks),
            ("warmup", member.assignment.warmup_tasks),
        )
    }
    places = {
        f"{topic}-{number}"
        for one in member.assignment.active_tasks
        for number in one.partitions
        for topic in sources.get(one.subtopology_id, ())
    }
    return {**_described_member(member, member.instance_id, places), "tasks": tasks}


def _described_member(member: ShareMember | StreamsMember, instance: str | None, places: Iterable[str]) -> ShownMember:
    return {
        "member": member.member_id,
        "instance": instance,
        "client": member.client_id,
        "host": member.client_host,
        "partitions": sorted(places),
    }
