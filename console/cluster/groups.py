"""Members, assignments and lag of groups of every kind, in one form, and changes of share groups.

The changes are start offsets (KIP-932) and dead-letter queues (KIP-1191).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from ...cli.client.admin import EARLIEST, LATEST, ask, check, config_values, coordinator_now, partition_offsets
from ...cli.client.errors import NOT_FOUND, UNREACHABLE, CommandError, Misused
from ...cli.groups.offsets import topics_of
from ...cli.records.selection import BEGINNING, END, Position

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...cli.client.admin import AdminClient, DecodedAssignment
    from ...protocol.messages.consumer_groups import ConsumerGroupDescribeResponse
    from ...protocol.messages.consumer_groups import DescribedGroup as ConsumerGroup
    from ...protocol.messages.share_groups import AlterShareGroupOffsetsResponse, ShareGroupDescribeResponse
    from ...protocol.messages.share_groups import DescribedGroup as ShareGroup
    from ...protocol.messages.streams_groups import (
        DescribedSubtopology,
        StreamsGroupDescribeResponse,
        TopologyDescription,
    )


@dataclass(slots=True)
class Member:
    member: str
    client: str
    host: str
    epoch: int | None
    held: list[str]


@dataclass(slots=True)
class Group:
    """`topology` maps each node to those after it; `node_kinds` maps each to its kind. Both are of streams groups."""

    name: str
    kind: str
    state: str
    coordinator: int
    assignor: str = ""
    epoch: int | None = None
    members: list[Member] = field(default_factory=list)
    topology: dict[str, list[str]] = field(default_factory=dict)
    node_kinds: dict[str, str] = field(default_factory=dict)
    subtopologies: list[tuple[str, list[str], list[str], list[str]]] = field(default_factory=list)


@dataclass(slots=True)
class ShareOffset:
    topic: str
    partition: int
    start: int
    lag: int | None


class CoordinatorAway(CommandError):
    """The coordinator of a group does not respond."""


def described(admin: AdminClient, name: str, away: frozenset[int] = frozenset()) -> Group:
    """Raises CommandError for a group that does not exist, and CoordinatorAway where a broker of `away` coordinates it."""
    coordinator = admin.repeated(lambda: coordinator_now(admin, name))
    if coordinator in away:
        raise CoordinatorAway(
            f"broker {coordinator}, which coordinates group {name}, does not respond: when the controller has fenced it,"
            " another broker coordinates the group",
            UNREACHABLE,
        )
    listed = admin.list_groups(broker_ids=[coordinator])
    kinds = {one["group_id"]: str(one.get("group_type") or "classic").lower() for one in listed}
    if name not in kinds:
        raise CommandError(f"group {name} does not exist", NOT_FOUND)
    return _BY_KIND.get(kinds[name], _classic)(admin, name, coordinator)


def _classic(admin: AdminClient, name: str, coordinator: int) -> Group:
    found = admin.describe_groups([name], group_coordinator_id=coordinator)[name]
    if found["error"]:
        raise CommandError(f"group {name}: {found['error']}")
    group = Group(name, "classic", found["group_state"], coordinator, found.get("protocol_data") or "")
    for one in found["members"]:
        group.members.append(
            Member(one["member_id"], one["client_id"], one["client_host"], None, _assigned(one["member_assignment"]))
        )
    return group


def _assigned(assignment: DecodedAssignment | bytes) -> list[str]:
    if not isinstance(assignment, dict):
        return []
    held = assignment.get("assigned_partitions") or ()
    return _places((one["topic"], one["partitions"]) for one in held)


def _places(found: Iterable[tuple[str, Sequence[int]]]) -> list[str]:
    return [f"{topic}-{partition}" for topic, partitions in found for partition in sorted(partitions)]


class _Described(Protocol):
    error_code: int
    error_message: str | None


G = TypeVar("G", bound=_Described)


def _only(groups: Sequence[G], name: str) -> G:
    (found,) = groups
    check(f"group {name}", found.error_code, found.error_message)
    return found


def _with_topics(kind: str, found: ConsumerGroup | ShareGroup, name: str, coordinator: int) -> Group:
    """A group whose members are assigned partitions of topics."""
    members = [
        Member(
            one.member_id,
            one.client_id,
            one.client_host,
            one.member_epoch,
            _places((held.topic_name, held.partitions) for held in one.assignment.topic_partitions),
        )
        for one in found.members
    ]
    return Group(name, kind, found.group_state, coordinator, found.assignor_name, found.group_epoch, members)


def _consumer(admin: AdminClient, name: str, coordinator: int) -> Group:
    from ...protocol.messages.consumer_groups import ConsumerGroupDescribeRequest

    response: ConsumerGroupDescribeResponse = ask(admin, ConsumerGroupDescribeRequest(group_ids=[name]), coordinator)
    return _with_topics("consumer", _only(response.groups, name), name, coordinator)


def _share(admin: AdminClient, name: str, coordinator: int) -> Group:
    from ...protocol.messages.share_groups import ShareGroupDescribeRequest

    response: ShareGroupDescribeResponse = ask(admin, ShareGroupDescribeRequest(group_ids=[name]), coordinator)
    return _with_topics("share", _only(response.groups, name), name, coordinator)


def _streams(admin: AdminClient, name: str, coordinator: int) -> Group:
    from ...protocol.messages.streams_groups import StreamsGroupDescribeRequest

    request = StreamsGroupDescribeRequest(group_ids=[name], include_topology_description=True)
    response: StreamsGroupDescribeResponse = ask(admin, request, coordinator)
    found = _only(response.groups, name)
    group = Group(
        name,
        "streams",
        found.group_state,
        coordinator,
        found.assignor_name or "",
        found.group_epoch,
    )
    for one in found.members:
        held = [
            f"{kind}{task.subtopology_id}_{partition}"
            for kind, tasks in (("", one.assignment.active_tasks), ("standby ", one.assignment.standby_tasks))
            for task in tasks
            for partition in sorted(task.partitions)
        ]
        group.members.append(Member(one.member_id, one.client_id, one.client_host, one.member_epoch, held))
    if found.topology is not None:
        _add_subtopologies(group, found.topology.subtopologies or ())
    if found.topology_description is not None and found.topology_description.subtopologies:
        group.topology, group.node_kinds = _nodes(found.topology_description)
    return group


def _add_subtopologies(group: Group, subtopologies: Sequence[DescribedSubtopology]) -> None:
    """The graph of topics and subtopologies, which every streams group has."""
    for one in subtopologies:
        label = f"subtopology {one.subtopology_id}"
        sources = [*one.source_topics, *(topic.name for topic in one.repartition_source_topics)]
        stores = [topic.name for topic in one.state_changelog_topics]
        sinks = list(one.repartition_sink_topics)
        group.subtopologies.append((one.subtopology_id, sources, stores, sinks))
        group.topology.setdefault(label, [])
        for topic in sources:
            group.topology.setdefault(topic, []).append(label)
            group.node_kinds[topic] = "topic"
        for topic in (*stores, *sinks):
            group.topology[label].append(topic)
            group.node_kinds[topic] = "store" if topic in stores else "topic"


def _nodes(description: TopologyDescription) -> tuple[dict[str, list[str]], dict[str, str]]:
    """The graph of processors (KIP-1331), where the client has sent it."""
    edges: dict[str, list[str]] = {}
    kinds: dict[str, str] = {}
    for subtopology in description.subtopologies or ():
        for node in subtopology.nodes:
            edges.setdefault(node.name, []).extend(node.successors)
            for topic in node.source_topics:
                edges.setdefault(topic, []).append(node.name)
                kinds[topic] = "topic"
            if node.sink_topic:
                edges[node.name].append(node.sink_topic)
                kinds[node.sink_topic] = "topic"
            for store in node.stores:
                edges[node.name].append(store)
                kinds[store] = "store"
    return edges, kinds


_BY_KIND = {"classic": _classic, "consumer": _consumer, "share": _share, "streams": _streams}


def share_offsets(admin: AdminClient, name: str) -> list[ShareOffset]:
    """Start offsets and lag of a share group (KIP-1226)."""
    from ...protocol.messages.share_groups import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsRequestGroup,
        DescribeShareGroupOffsetsResponse,
    )

    request = DescribeShareGroupOffsetsRequest(
        groups=[DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=None)]
    )
    response: DescribeShareGroupOffsetsResponse = ask(admin, request, coordinator_now(admin, name))
    found = _only(response.groups, name)
    return sorted(
        (
            ShareOffset(topic.topic_name, one.partition_index, one.start_offset, one.lag if one.lag >= 0 else None)
            for topic in found.topics
            for one in topic.partitions
            if not one.error_code
        ),
        key=lambda one: (one.topic, one.partition),
    )


# ---- changes of share groups

_QUEUE = "errors.deadletterqueue.topic.name"
Place = tuple[str, int]


def share_targets(admin: AdminClient, before: Mapping[Place, int], topic: str, to: Position) -> dict[Place, int]:
    """Offsets that a reset gives, within what the logs have."""
    name = topic.partition(":")[0]
    topics = topics_of(admin, [name] if name else sorted({one for one, _ in before}))
    if not topics:
        raise CommandError("the group has no offsets for that topic", NOT_FOUND)
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


def alter_share_offsets(admin: AdminClient, group: str, offsets: Mapping[Place, int]) -> None:
    """Raises CommandError for a group with members."""
    from ...protocol.messages.share_groups import (
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
    response: AlterShareGroupOffsetsResponse = ask(admin, request, coordinator_now(admin, group))
    check(f"group {group}", response.error_code, response.error_message)
    for result in response.responses:
        for one in result.partitions:
            check(f"group {group}, {result.topic_name}-{one.partition_index}", one.error_code, one.error_message)


def queue_of(admin: AdminClient, group: str) -> str:
    """The topic of a share group's dead-letter queue; "" without one, and from brokers that have none."""
    found = config_values(admin, "group", group)
    return found[_QUEUE]["value"] or "" if _QUEUE in found else ""
