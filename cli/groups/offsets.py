"""Offsets of groups: committed ones, start offsets of share groups, and where a reset puts them.

- `share_offsets`, `alter_share_offsets`, `delete_share_offsets`: start offsets of share groups (KIP-932), read, set
  and deleted. The client libraries have no API for these, so the requests are odradek.protocol's.
- `committed_offsets`, `committed`, `stored_offsets`: offsets that a group has.
- `chosen_places`, `targets`, `commit`: a reset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from ..client.admin import EARLIEST, LATEST, api_error, ask, coordinator_of, partition_offsets, patiently
from ..client.errors import COORDINATOR_MOVES, NOT_FOUND, CommandError, CoordinatorMoves, Misused
from ..records.selection import BEGINNING, END, STORED, Position
from .members import by_coordinator

if TYPE_CHECKING:
    from ...protocol.messages.share_groups import (
        AlterShareGroupOffsetsResponse,
        DeleteShareGroupOffsetsResponse,
        DescribeShareGroupOffsetsResponse,
    )
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
