"""Members, assignments and lag of groups of every kind, in one form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from ...admin.errors import check
from ...admin.groups import describe_classic_group, list_groups
from ...client.error_kinds import ErrorKind
from ...client.user_errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...admin.session import Admin
    from ...protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
    from ...protocol.messages.consumer_group_describe import DescribedConsumerGroup as ConsumerGroup
    from ...protocol.messages.share_group_describe import DescribedShareGroup as ShareGroup
    from ...protocol.messages.share_group_describe import ShareGroupDescribeResponse
    from ...protocol.messages.streams_group_describe import (
        DescribedSubtopology,
        StreamsGroupDescribeResponse,
        TopologyDescription,
    )
    from ...protocol.schema import Request


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


class CoordinatorAway(UserError):
    """The coordinator of a group does not respond."""


def described(admin: Admin, name: str, away: frozenset[int] = frozenset()) -> Group:
    """Raises UserError for a group that does not exist, and CoordinatorAway where a broker of `away` coordinates it."""
    coordinator = admin.repeated(lambda: admin.coordinator_now(name))
    if coordinator in away:
        raise CoordinatorAway(
            f"broker {coordinator}, which coordinates group {name}, does not respond: when the controller has fenced it,"
            " another broker coordinates the group",
            ErrorKind.UNREACHABLE,
        )
    listed = list_groups(admin, [coordinator])
    kinds = {one.group_id: one.kind for one in listed}
    if name not in kinds:
        raise UserError(f"group {name} does not exist", ErrorKind.NOT_FOUND)
    return _BY_KIND.get(kinds[name], _classic)(admin, name, coordinator)


def _classic(admin: Admin, name: str, coordinator: int) -> Group:
    found = describe_classic_group(admin, name)
    members = [
        Member(one.member_id, one.client_id, one.client_host, None, _places(one.assigned)) for one in found.members
    ]
    return Group(name, "classic", found.group_state, found.coordinator, found.assignor, None, members)


def _places(topics: Iterable[tuple[str, Sequence[int]]]) -> list[str]:
    return [f"{topic}-{partition}" for topic, partitions in topics for partition in sorted(partitions)]


class _Described(Protocol):
    error_code: int
    error_message: str | None


G = TypeVar("G", bound=_Described)


def _only(groups: Sequence[G], name: str) -> G:
    (found,) = groups
    check(f"group {name}", found.error_code, found.error_message)
    return found


def _with_topics(kind: str, group: ConsumerGroup | ShareGroup, name: str, coordinator: int) -> Group:
    """A group whose members are assigned partitions of topics."""
    members = [
        Member(
            one.member_id,
            one.client_id,
            one.client_host,
            one.member_epoch,
            _places((held.topic_name, held.partitions) for held in one.assignment.topic_partitions),
        )
        for one in group.members
    ]
    return Group(name, kind, group.group_state, coordinator, group.assignor_name, group.group_epoch, members)


def _consumer(admin: Admin, name: str, coordinator: int) -> Group:
    from ...protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest

    response: ConsumerGroupDescribeResponse = admin.ask(ConsumerGroupDescribeRequest(group_ids=[name]), coordinator)
    return _with_topics("consumer", _only(response.groups, name), name, coordinator)


def _share(admin: Admin, name: str, coordinator: int) -> Group:
    from ...protocol.messages.share_group_describe import ShareGroupDescribeRequest

    response: ShareGroupDescribeResponse = admin.ask(ShareGroupDescribeRequest(group_ids=[name]), coordinator)
    return _with_topics("share", _only(response.groups, name), name, coordinator)


def _streams(admin: Admin, name: str, coordinator: int) -> Group:
    from ...protocol.messages.streams_group_describe import StreamsGroupDescribeRequest

    request = StreamsGroupDescribeRequest(group_ids=[name], include_topology_description=True)
    response: StreamsGroupDescribeResponse = admin.ask(request, coordinator)
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


def members_of(admin: Admin, kind: str, names: Sequence[str], coordinator: int) -> dict[str, int]:
    """The number of members of groups of one kind and coordinator, without those that have ended."""
    from ...protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
    from ...protocol.messages.describe_groups import DescribeGroupsRequest
    from ...protocol.messages.share_group_describe import ShareGroupDescribeRequest
    from ...protocol.messages.streams_group_describe import StreamsGroupDescribeRequest

    requests: dict[str, Callable[..., Request]] = {
        "consumer": ConsumerGroupDescribeRequest,
        "share": ShareGroupDescribeRequest,
        "streams": StreamsGroupDescribeRequest,
    }
    known = requests.get(kind)
    request: Request = DescribeGroupsRequest(groups=list(names)) if known is None else known(group_ids=list(names))
    response = admin.ask(request, coordinator)
    return {one.group_id: len(one.members) for one in response.groups if not one.error_code}
