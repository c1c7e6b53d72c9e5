"""Offsets of groups, and their lag: committed offsets, start offsets of share groups, and where a reset puts them.

- `share_offsets`, `alter_share_offsets`, `delete_share_offsets`: start offsets of share groups (KIP-932), read, set
  and deleted. The client libraries have no API for these, so the requests are odradek.protocol's.
- `committed_offsets`, `committed`, `stored_offsets`: offsets that a group has.
- `chosen_places`, `targets`, `commit`: a reset.
- `lags`: the lag, for `group lag`, `group describe`, `top` and the console.

A group reads the partitions that have a commit of it. A group whose members subscribe to topics reads all partitions of each
topic that its members read or that has a commit. A partition without a commit is in the lag from its first record on: where
a consumer begins, `auto.offset.reset`, is a setting of the client that no broker has. So the sum is never too small.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..client.admin import (
    EARLIEST,
    LATEST,
    api_error,
    ask,
    by_coordinator,
    check,
    config_values,
    coordinator_of,
    offsets_at,
    partition_offsets,
    patiently,
)
from ..client.errors import COORDINATOR_MOVES, NOT_FOUND, CommandError, CoordinatorMoves, Misused
from ..records.selection import BEGINNING, END, STORED, Position

if TYPE_CHECKING:
    from ...protocol.messages.consumer_groups import ConsumerGroupDescribeResponse
    from ...protocol.messages.groups import DescribeGroupsResponse
    from ...protocol.messages.share_groups import (
        AlterShareGroupOffsetsResponse,
        DeleteShareGroupOffsetsResponse,
        DescribeShareGroupOffsetsResponse,
    )
    from ...protocol.messages.streams_groups import StreamsGroupDescribeResponse
    from ...protocol.schema import Message
    from ..client.admin import AdminClient, Topic

Place = tuple[str, int]
_NON_EMPTY_GROUP = 68


# ---- start offsets of share groups

#: Start offset, None for a partition that the group has not begun, and lag, None of brokers before KIP-1226.
Started = tuple[int | None, int | None]


def share_offsets(admin: AdminClient, names: Iterable[str]) -> dict[str, dict[Place, Started]]:
    """Start offset and lag of share groups by partition."""
    asked = list(names)
    return patiently(admin, lambda: _share_offsets(admin, asked))


def _share_offsets(admin: AdminClient, names: list[str]) -> dict[str, dict[Place, Started]]:
    from ...protocol.messages.share_groups import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsRequestGroup,
    )

    made: dict[str, dict[Place, Started]] = {}
    for node, groups in by_coordinator(admin, names).items():
        asked = [DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None) for group in groups]
        response: DescribeShareGroupOffsetsResponse = ask(admin, DescribeShareGroupOffsetsRequest(groups=asked), node)
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


def alter_share_offsets(admin: AdminClient, group: str, offsets: Mapping[Place, int]) -> None:
    """Sets start offsets, of a group that need not exist yet. Raises CommandError for a group with members."""
    from ...protocol.messages.share_groups import (
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
    response: AlterShareGroupOffsetsResponse = _asked(admin, group, AlterShareGroupOffsetsRequest(group, topics))
    for topic in response.responses:
        for one in topic.partitions:
            _check(f"{group}, {topic.topic_name}-{one.partition_index}", one)


def delete_share_offsets(admin: AdminClient, group: str, topics: Sequence[str]) -> None:
    """Deletes the start offsets of whole topics. Raises CommandError for a group with members."""
    from ...protocol.messages.share_groups import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsRequestTopic

    request = DeleteShareGroupOffsetsRequest(group, [DeleteShareGroupOffsetsRequestTopic(name) for name in topics])
    response: DeleteShareGroupOffsetsResponse = _asked(admin, group, request)
    for topic in response.responses:
        _check(f"{group}, {topic.topic_name}", topic)


def _asked(admin: AdminClient, group: str, request: Message) -> Any:
    """The response of the group's coordinator."""

    def step() -> Any:
        response = ask(admin, request, coordinator_of(admin, group))
        _check(group, response)
        return response

    return patiently(admin, step)


class _Result(Protocol):
    error_code: int
    error_message: str | None


def _check(subject: str, result: _Result) -> None:
    if result.error_code:
        error = api_error(f"group {subject}", result.error_code, result.error_message)
        if result.error_code == _NON_EMPTY_GROUP:
            error.args = (f"{error}; stop its members first",)
        raise error


# ---- committed offsets and resets


def committed_offsets(admin: AdminClient, group: str) -> dict[Place, int]:
    return {place: offset for place, (offset, _) in committed(admin, group).items()}


def committed(admin: AdminClient, group: str) -> dict[Place, tuple[int, str]]:
    """Committed offsets, each with the text that a client committed with it."""
    found = admin.list_group_offsets({group: None})[group]
    return {
        (where.topic, where.partition): (one.offset, one.metadata or "")
        for where, one in sorted(found.items())
        if one.offset >= 0
    }


def stored_offsets(admin: AdminClient, group: str, *, shares: bool) -> dict[Place, int]:
    """Committed offsets, or the start offsets of a share group; none of a group that does not exist."""
    if not shares:
        return committed_offsets(admin, group)
    try:
        found = share_offsets(admin, [group])[group]
    except CommandError as error:
        if error.status == NOT_FOUND:
            return {}
        raise
    return {place: offset for place, (offset, _) in sorted(found.items()) if offset is not None}


def topics_of(admin: AdminClient, names: Iterable[str]) -> list[Topic]:
    """Those of the topics that exist."""
    wanted = sorted(names)
    return [topic for topic in admin.describe_topics(wanted) if not topic["error_code"]] if wanted else []


def chosen_places(
    admin: AdminClient, group: str, topics: Sequence[str], stored: Mapping[Place, int] | None = None
) -> list[Place]:
    """Partitions of `TOPIC` or `TOPIC:0,2`; without any, those with `stored` offsets, by default the committed ones.

    Raises CommandError.
    """
    if not topics:
        found = list(committed_offsets(admin, group) if stored is None else stored)
        if not found:
            raise CommandError(f"group {group} has no committed offsets: name topics by --topic", NOT_FOUND)
        return found
    places = []
    for text in topics:
        name, colon, numbers = text.partition(":")
        known = [p["partition_index"] for topic in topics_of(admin, [name]) for p in topic["partitions"]]
        if not known:
            raise CommandError(f"topic {name} does not exist", NOT_FOUND)
        try:
            wanted = [int(number) for number in numbers.split(",")] if colon else sorted(known)
        except ValueError:
            raise Misused(f"--topic {text!r}: give TOPIC or TOPIC:0,2") from None
        for partition in wanted:
            if partition not in known:
                raise CommandError(f"{name} has no partition {partition}", NOT_FOUND)
            places.append((name, partition))
    return places


def targets(
    admin: AdminClient,
    group: str,
    places: Sequence[Place],
    to: Position | None,
    shift: int,
    stored: Mapping[Place, int] | None = None,
) -> dict[Place, int]:
    """The offset that a reset gives each partition, within what the log has. `to` None: the stored one plus `shift`."""
    topics = topics_of(admin, {topic for topic, _ in places})
    first, last = partition_offsets(admin, topics, EARLIEST), partition_offsets(admin, topics, LATEST)
    missing = [f"{topic}-{partition}" for topic, partition in places if (topic, partition) not in last]
    if missing:
        raise CommandError(f"{', '.join(missing)} have no leader: try again when they have one")
    stored = committed_offsets(admin, group) if stored is None else stored
    wanted = _wanted(admin, stored, topics, places, to, first, last)
    made = {}
    for place in places:
        offset = wanted[place] + shift
        made[place] = min(max(offset, first[place]), last[place])
    return made


def _wanted(
    admin: AdminClient,
    stored: Mapping[Place, int],
    topics: list[Topic],
    places: Sequence[Place],
    to: Position | None,
    first: Mapping[Place, int],
    last: Mapping[Place, int],
) -> Mapping[Place, int]:
    if to is not None and to.timestamp_ms is not None:
        found = partition_offsets(admin, topics, to.timestamp_ms)
        return {place: offset if offset >= 0 else last[place] for place, offset in found.items()}
    if to is None or to.offset == STORED:
        return {place: stored.get(place, first[place]) for place in places}
    offset = to.offset if to.offset is not None else END
    if offset == BEGINNING:
        return first
    if offset == END:
        return last
    if offset < 0:  # the last N
        return {place: last[place] + offset + 2000 for place in places}
    return dict.fromkeys(places, offset)


def commit(
    admin: AdminClient,
    group: str,
    offsets: Mapping[Place, int],
    *,
    shares: bool = False,
    metadata: Mapping[Place, str] = MappingProxyType({}),
) -> None:
    """Raises CommandError for a group with members, which would commit over it."""
    if shares:
        alter_share_offsets(admin, group, offsets)
        return
    from kafka.errors import NoError
    from kafka.structs import OffsetAndMetadata, TopicPartition

    asked = {
        TopicPartition(*place): OffsetAndMetadata(offset, metadata.get(place, ""), None)
        for place, offset in offsets.items()
    }

    def step() -> None:
        coordinator_of(admin, group)  # waits for one, which kafka-python does not
        for where, error in admin.alter_group_offsets(group, asked).items():
            if error is not NoError:
                word = getattr(error, "message", error.__name__)
                hint = "; stop its members first" if "MEMBER" in word or "GENERATION" in word else ""
                kind = CoordinatorMoves if error.errno in COORDINATOR_MOVES else CommandError
                raise kind(f"group {group}, {where.topic}-{where.partition}: {word}{hint}")

    patiently(admin, step)


# ---- lag

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
    from ...protocol.internal.consumer_offsets import ConsumerProtocolSubscription

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
