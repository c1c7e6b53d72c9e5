"""Topics that the members of classic, consumer and streams groups read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .errors import check

if TYPE_CHECKING:
    from ..protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
    from ..protocol.messages.describe_groups import DescribeGroupsResponse
    from ..protocol.messages.streams_group_describe import StreamsGroupDescribeResponse
    from .session import Admin

CONSUMER_PROTOCOL = "consumer"


class Reading(NamedTuple):
    """The topics that members of a group read. `has_protocol`: the group assigns whole topics to its members."""

    topics: Collection[str] = ()
    has_protocol: bool = False


def read_topics(admin: Admin, kinds: Mapping[str, str], nodes: Mapping[int, Sequence[str]]) -> dict[str, Reading]:
    """The topics of classic, consumer and streams groups; `nodes` has the groups of each coordinator."""
    found: dict[str, Reading] = {}
    for node, groups in nodes.items():
        for kind, read in (("classic", _of_classic), ("consumer", _of_consumer), ("streams", _of_streams)):
            named = [group for group in groups if kinds[group] == kind]
            if named:
                found |= read(admin, named, node)
    return found


def _of_classic(admin: Admin, groups: list[str], node: int) -> dict[str, Reading]:
    from ..protocol.messages.describe_groups import DescribeGroupsRequest

    made = {}
    response: DescribeGroupsResponse = admin.ask(DescribeGroupsRequest(groups=groups), node)
    for one in response.groups:
        check(f"group {one.group_id}", one.error_code)
        topics = {topic for member in one.members for topic in _subscribed(member.member_metadata)}
        has_protocol = one.protocol_type == CONSUMER_PROTOCOL
        made[one.group_id] = Reading(topics if has_protocol else (), has_protocol)
    return made


def _subscribed(metadata: bytes) -> Sequence[str]:
    """The topics of a member's subscription. Every version begins with the fields of version 0, after its number."""
    from ..protocol.codec import MalformedMessage, decode
    from ..protocol.internal.consumer_protocol import ConsumerProtocolSubscription

    try:
        subscription, _ = decode(ConsumerProtocolSubscription, 0, bytes(metadata), 2)
    except MalformedMessage:
        return ()
    return list(subscription.topics)


def _of_consumer(admin: Admin, groups: list[str], node: int) -> dict[str, Reading]:
    from ..protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest

    made = {}
    response: ConsumerGroupDescribeResponse = admin.ask(ConsumerGroupDescribeRequest(group_ids=groups), node)
    for one in response.groups:
        check(f"group {one.group_id}", one.error_code, one.error_message)
        topics = {name for member in one.members for name in member.subscribed_topic_names or ()}
        topics |= {held.topic_name for member in one.members for held in member.assignment.topic_partitions}
        made[one.group_id] = Reading(topics, True)
    return made


def _of_streams(admin: Admin, groups: list[str], node: int) -> dict[str, Reading]:
    from ..protocol.messages.streams_group_describe import StreamsGroupDescribeRequest

    made = {}
    request = StreamsGroupDescribeRequest(group_ids=groups, include_topology_description=False)
    response: StreamsGroupDescribeResponse = admin.ask(request, node)
    for one in response.groups:
        check(f"group {one.group_id}", one.error_code, one.error_message)
        subtopologies = one.topology.subtopologies if one.topology is not None and one.members else ()
        topics = {name for each in subtopologies or () for name in each.source_topics}
        topics |= {topic.name for each in subtopologies or () for topic in each.repartition_source_topics}
        made[one.group_id] = Reading(topics, True)
    return made
