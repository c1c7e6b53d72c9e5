"""Lag of groups: one function for `group lag`, `group describe`, `top` and the console.

A group reads the partitions that have a commit of it. A group whose members subscribe to topics reads all partitions of each
topic that its members read or that has a commit. A partition without a commit is in the lag from its first record on: where
a consumer begins, `auto.offset.reset`, is a setting of the client that no broker has. So the sum is never too small.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ..client.admin import EARLIEST, LATEST, ask, check, config_values, offsets_at, patiently
from .members import by_coordinator
from .offsets import Place, committed_offsets, share_offsets

if TYPE_CHECKING:
    from ...protocol.messages.consumer_groups import ConsumerGroupDescribeResponse
    from ...protocol.messages.groups import DescribeGroupsResponse
    from ...protocol.messages.streams_groups import StreamsGroupDescribeResponse
    from ..client.admin import AdminClient


_CONSUMER_PROTOCOL = "consumer"
_UNKNOWN_TOPIC = 3
#: Where a share group begins that has `share.auto.offset.reset` unset.
_SHARE_RESET = "latest"


@dataclass(slots=True)
class Lag:
    """`committed` is None for a partition without a commit, which counts from `first`. `end` is None for a partition without
    a leader, or of a deleted topic (`is_gone`). `counted`: the lag that a share coordinator has, without records that
    were acknowledged.
    """

    topic: str
    partition: int
    committed: int | None
    end: int | None
    first: int | None = None
    counted: int | None = None
    is_gone: bool = False

    @property
    def lag(self) -> int | None:
        if self.counted is not None:
            return self.counted
        start = self.first if self.committed is None else self.committed
        return None if self.end is None or start is None else max(0, self.end - start)


@dataclass(frozen=True, slots=True)
class Total:
    """`lag`: of the partitions whose lag is known. `uncommitted`: the part of it in partitions without a commit. `unknown`:
    the number of partitions whose lag is unknown, because they have no leader.
    """

    partitions: int
    lag: int
    uncommitted: int
    unknown: int


def total_of(lags: Sequence[Lag]) -> Total:
    return Total(
        len(lags),
        sum(one.lag or 0 for one in lags),
        sum(one.lag or 0 for one in lags if one.committed is None),
        sum(one.lag is None and not one.is_gone for one in lags),
    )


class Reading(NamedTuple):
    """The topics that members of a group read. `has_protocol`: the group assigns whole topics to its members."""

    topics: Collection[str] = ()
    has_protocol: bool = False


class Progress(NamedTuple):
    """How far a group is. `start`: the committed or start offset. `counted`: as in `Lag`."""

    start: int | None
    counted: int | None = None


Positions = Mapping[Place, Progress]


def lags(admin: AdminClient, kinds: Mapping[str, str], *, without: Container[int] = ()) -> dict[str, list[Lag]]:
    """Lag by partition of each group; `kinds` has the kind of each. Leaders of `without` get no request."""
    plain = [group for group, kind in kinds.items() if kind != "share"]
    nodes = by_coordinator(admin, plain)
    readings = patiently(admin, lambda: read_topics(admin, kinds, nodes))
    positions: dict[str, Positions] = {group: committed_positions(admin, group) for group in plain}
    shared = share_offsets(admin, [name for name, kind in kinds.items() if kind == "share"])
    positions |= {group: shared_positions(admin, group, offsets) for group, offsets in shared.items()}
    found = lags_of(admin, {group: positions[group] for group in kinds if group in positions}, readings, without)
    return {group: found[group] for group in kinds if group in found}


def committed_positions(admin: AdminClient, group: str) -> Positions:
    return {place: Progress(offset) for place, offset in committed_offsets(admin, group).items()}


def shared_positions(
    admin: AdminClient, group: str, offsets: Mapping[Place, tuple[int | None, int | None]]
) -> dict[Place, Progress]:
    """Positions of a share group. A partition that it has not begun has no lag where it begins at the end."""
    begins_late = False
    if any(start is None for start, _ in offsets.values()):
        reset = config_values(admin, "group", group).get("share.auto.offset.reset")
        begins_late = ((reset and reset["value"]) or _SHARE_RESET) == _SHARE_RESET
    return {
        place: Progress(start, 0 if start is None and begins_late else counted)
        for place, (start, counted) in offsets.items()
    }


def lags_of(
    admin: AdminClient, positions: Mapping[str, Positions], readings: Mapping[str, Reading], without: Container[int]
) -> dict[str, list[Lag]]:
    """Lag of groups whose positions and topics are known, with one look-up of the partitions for all of them."""
    names = {topic for places in positions.values() for topic, _ in places}
    names |= {topic for group in positions for topic in readings.get(group, Reading()).topics}
    described = admin.describe_topics(sorted(names)) if names else []
    led: dict[str, dict[int, bool]] = {
        topic["name"]: {
            one["partition_index"]: one["leader_id"] >= 0 and one["leader_id"] not in without
            for one in topic["partitions"]
        }
        for topic in described
        if not topic["error_code"]
    }
    gone = {topic["name"] for topic in described if topic["error_code"] == _UNKNOWN_TOPIC}
    places = {group: dict(_places(found, readings.get(group, Reading()), led)) for group, found in positions.items()}
    every = {place: progress for found in places.values() for place, progress in found.items()}
    responding = sorted((topic, index) for topic, index in every if led.get(topic, {}).get(index))
    ends = dict(offsets_at(admin, responding, LATEST))
    unbegun = {place for found in places.values() for place, one in found.items() if one == Progress(None)}
    firsts = dict(offsets_at(admin, [place for place in responding if place in unbegun], EARLIEST))
    return {
        group: [
            Lag(*place, one.start, ends.get(place), firsts.get(place), one.counted, place[0] in gone)
            for place, one in sorted(found.items())
        ]
        for group, found in places.items()
    }


def _places(
    positions: Positions, reading: Reading, led: Mapping[str, Mapping[int, bool]]
) -> Iterator[tuple[Place, Progress]]:
    """The partitions that a group reads, and how far it is in each."""
    yield from positions.items()
    if reading.has_protocol:
        for topic in {*reading.topics, *(name for name, _ in positions)}:
            for index in led.get(topic, ()):
                if (topic, index) not in positions:
                    yield (topic, index), Progress(None)


# ---- topics that members read


def read_topics(admin: AdminClient, kinds: Mapping[str, str], nodes: Mapping[int, Sequence[str]]) -> dict[str, Reading]:
    """The topics of classic, consumer and streams groups; `nodes` has the groups of each coordinator."""
    found: dict[str, Reading] = {}
    for node, groups in nodes.items():
        for kind, read in (("classic", _of_classic), ("consumer", _of_consumer), ("streams", _of_streams)):
            named = [group for group in groups if kinds[group] == kind]
            if named:
                found |= read(admin, named, node)
    return found


def _of_classic(admin: AdminClient, groups: list[str], node: int) -> dict[str, Reading]:
    from ...protocol.messages.groups import DescribeGroupsRequest

    made = {}
    response: DescribeGroupsResponse = ask(admin, DescribeGroupsRequest(groups=groups), node)
    for one in response.groups:
        check(f"group {one.group_id}", one.error_code)
        topics = {topic for member in one.members for topic in _subscribed(member.member_metadata)}
        has_protocol = one.protocol_type == _CONSUMER_PROTOCOL
        made[one.group_id] = Reading(topics if has_protocol else (), has_protocol)
    return made


def _subscribed(metadata: bytes) -> Sequence[str]:
    """The topics of a member's subscription. Every version begins with the fields of version 0, after its number."""
    from ...protocol.codec import MalformedMessage, decode
    from ...protocol.internal.consumer_protocol import ConsumerProtocolSubscription

    try:
        subscription, _ = decode(ConsumerProtocolSubscription, 0, bytes(metadata), 2)
    except MalformedMessage:
        return ()
    return list(subscription.topics)


def _of_consumer(admin: AdminClient, groups: list[str], node: int) -> dict[str, Reading]:
    from ...protocol.messages.consumer_groups import ConsumerGroupDescribeRequest

    made = {}
    response: ConsumerGroupDescribeResponse = ask(admin, ConsumerGroupDescribeRequest(group_ids=groups), node)
    for one in response.groups:
        check(f"group {one.group_id}", one.error_code, one.error_message)
        topics = {name for member in one.members for name in member.subscribed_topic_names or ()}
        topics |= {held.topic_name for member in one.members for held in member.assignment.topic_partitions}
        made[one.group_id] = Reading(topics, True)
    return made


def _of_streams(admin: AdminClient, groups: list[str], node: int) -> dict[str, Reading]:
    from ...protocol.messages.streams_groups import StreamsGroupDescribeRequest

    made = {}
    request = StreamsGroupDescribeRequest(group_ids=groups, include_topology_description=False)
    response: StreamsGroupDescribeResponse = ask(admin, request, node)
    for one in response.groups:
        check(f"group {one.group_id}", one.error_code, one.error_message)
        subtopologies = one.topology.subtopologies if one.topology is not None and one.members else ()
        topics = {name for each in subtopologies or () for name in each.source_topics}
        topics |= {topic.name for each in subtopologies or () for topic in each.repartition_source_topics}
        made[one.group_id] = Reading(topics, True)
    return made
