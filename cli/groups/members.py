"""Members of share groups (KIP-932) and streams groups (KIP-1071).

The client libraries have no API for these, so the requests are odradek.protocol's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, NotRequired, TypedDict

from ..client.admin import ask, check, coordinator_of

if TYPE_CHECKING:
    from ...protocol.messages.share_groups import Member as ShareMember
    from ...protocol.messages.share_groups import ShareGroupDescribeResponse
    from ...protocol.messages.streams_groups import DescribedGroup as StreamsGroup
    from ...protocol.messages.streams_groups import Member as StreamsMember
    from ...protocol.messages.streams_groups import StreamsGroupDescribeResponse
    from ..client.admin import AdminClient


class Member(TypedDict):
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
    members: list[Member] | None


def share_groups(admin: AdminClient, names: Iterable[str]) -> dict[str, GroupDescription]:
    """Assignor, coordinator and members of share groups."""
    from ...protocol.messages.share_groups import ShareGroupDescribeRequest

    made: dict[str, GroupDescription] = {}
    for node, groups in by_coordinator(admin, names).items():
        request = ShareGroupDescribeRequest(group_ids=groups, include_authorized_operations=False)
        response: ShareGroupDescribeResponse = ask(admin, request, node)
        for group in response.groups:
            check(f"group {group.group_id}", group.error_code, group.error_message)
            members = [_share_member(member) for member in group.members]
            made[group.group_id] = {"assignor": group.assignor_name or None, "coordinator": node, "members": members}
    return made


def _share_member(member: ShareMember) -> Member:
    places = [
        f"{one.topic_name}-{partition}" for one in member.assignment.topic_partitions for partition in one.partitions
    ]
    return _member(member, None, places)


def streams_groups(admin: AdminClient, names: Iterable[str]) -> dict[str, GroupDescription]:
    """Assignor, coordinator, topology epoch and members with their tasks of streams groups."""
    from ...protocol.messages.streams_groups import StreamsGroupDescribeRequest

    made: dict[str, GroupDescription] = {}
    for node, groups in by_coordinator(admin, names).items():
        request = StreamsGroupDescribeRequest(
            group_ids=groups, include_authorized_operations=False, include_topology_description=False
        )
        response: StreamsGroupDescribeResponse = ask(admin, request, node)
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


def _streams_member(member: StreamsMember, sources: dict[str, list[str]]) -> Member:
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
    return {**_member(member, member.instance_id, places), "tasks": tasks}


def _member(member: ShareMember | StreamsMember, instance: str | None, places: Iterable[str]) -> Member:
    return {
        "member": member.member_id,
        "instance": instance,
        "client": member.client_id,
        "host": member.client_host,
        "partitions": sorted(places),
    }


def by_coordinator(admin: AdminClient, names: Iterable[str]) -> dict[int, list[str]]:
    """Groups by the node that coordinates them."""
    made: dict[int, list[str]] = defaultdict(list)
    for name in names:
        made[coordinator_of(admin, name)].append(name)
    return made
