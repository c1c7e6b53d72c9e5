"""Members of share groups (KIP-932) and streams groups (KIP-1071).

The client libraries have no API for these, so the requests are odradek.protocol's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from ..client.admin_calls import check
from ..client.wire_requests import ask, coordinator_of


def share_groups(admin: Any, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Assignor, coordinator and members of share groups."""
    from ...protocol.messages.share_group_describe import ShareGroupDescribeRequest

    made = {}
    for node, groups in by_coordinator(admin, names).items():
        request = ShareGroupDescribeRequest(group_ids=groups, include_authorized_operations=False)
        for group in ask(admin, request, node).groups:
            check(f"group {group.group_id}", group.error_code, group.error_message)
            members = [_share_member(member) for member in group.members]
            made[group.group_id] = {"assignor": group.assignor_name or None, "coordinator": node, "members": members}
    return made


def _share_member(member: Any) -> dict[str, Any]:
    places = [
        f"{one.topic_name}-{partition}" for one in member.assignment.topic_partitions for partition in one.partitions
    ]
    return _member(member, None) | {"partitions": sorted(places)}


def streams_groups(admin: Any, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Assignor, coordinator, topology epoch and members with their tasks of streams groups."""
    from ...protocol.messages.streams_group_describe import StreamsGroupDescribeRequest

    made = {}
    for node, groups in by_coordinator(admin, names).items():
        request = StreamsGroupDescribeRequest(
            group_ids=groups, include_authorized_operations=False, include_topology_description=False
        )
        for group in ask(admin, request, node).groups:
            check(f"group {group.group_id}", group.error_code, group.error_message)
            made[group.group_id] = {
                "assignor": group.assignor_name or None,
                "coordinator": node,
                "topology_epoch": group.topology.epoch if group.topology is not None else None,
                "members": [_streams_member(member, _sources(group)) for member in group.members],
            }
    return made


def _sources(group: Any) -> dict[str, list[str]]:
    """The topics that the tasks of each subtopology read."""
    subtopologies = group.topology.subtopologies if group.topology is not None else None
    return {
        one.subtopology_id: [*one.source_topics, *(topic.name for topic in one.repartition_source_topics)]
        for one in subtopologies or ()
    }


def _streams_member(member: Any, sources: dict[str, list[str]]) -> dict[str, Any]:
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
    return _member(member, member.instance_id) | {"partitions": sorted(places), "tasks": tasks}


def _member(member: Any, instance: str | None) -> dict[str, Any]:
    return {
        "member": member.member_id,
        "instance": instance,
        "client": member.client_id,
        "host": member.client_host,
    }


def by_coordinator(admin: Any, names: Iterable[str]) -> dict[int, list[str]]:
    """Groups by the node that coordinates them."""
    made: dict[int, list[str]] = defaultdict(list)
    for name in names:
        made[coordinator_of(admin, name)].append(name)
    return made
