"""Committed offsets of groups, and where a reset puts them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from ...admin import group_offsets
from ...admin.errors import ResponseError
from ...admin.group_offsets import committed
from ...admin.log_offsets import EARLIEST, LATEST, partition_offsets
from ...admin.places import Place
from ...admin.topics import describe_topics
from ...client.error_kinds import ErrorKind, kind_of_code
from ...client.user_errors import Misused, UserError
from ..records.selection import BEGINNING, END, STORED, Position
from .share_offsets import alter_share_offsets, share_offsets

if TYPE_CHECKING:
    from ...admin.session import Admin
    from ...admin.topics import Topic


def committed_offsets(admin: Admin, group: str) -> dict[Place, int]:
    return {place: offset for place, (offset, _) in committed(admin, group).items()}


def stored_offsets(admin: Admin, group: str, *, shares: bool) -> dict[Place, int]:
    """Committed offsets, or the start offsets of a share group; none of a group that does not exist."""
    if not shares:
        return committed_offsets(admin, group)
    try:
        found = share_offsets(admin, [group])[group]
    except ResponseError as error:
        if kind_of_code(error.code) == ErrorKind.NOT_FOUND:
            return {}
        raise
    return {place: offset for place, (offset, _) in sorted(found.items()) if offset is not None}


def topics_of(admin: Admin, names: Iterable[str]) -> list[Topic]:
    """Those of the topics that exist."""
    wanted = sorted(names)
    return [topic for topic in describe_topics(admin, wanted) if not topic.error_code] if wanted else []


def chosen_places(
    admin: Admin, group: str, topics: Sequence[str], stored: Mapping[Place, int] | None = None
) -> list[Place]:
    """Partitions of `TOPIC` or `TOPIC:0,2`; without any, those with `stored` offsets, by default the committed ones.

    Raises UserError.
    """
    if not topics:
        found = list(committed_offsets(admin, group) if stored is None else stored)
        if not found:
            raise UserError(f"group {group} has no committed offsets: name topics by --topic", ErrorKind.NOT_FOUND)
        return found
    places = []
    for text in topics:
        name, colon, numbers = text.partition(":")
        known = [p.partition_index for topic in topics_of(admin, [name]) for p in topic.partitions]
        if not known:
            raise UserError(f"topic {name} does not exist", ErrorKind.NOT_FOUND)
        try:
            wanted = [int(number) for number in numbers.split(",")] if colon else sorted(known)
        except ValueError:
            raise Misused(f"--topic {text!r}: give TOPIC or TOPIC:0,2") from None
        for partition in wanted:
            if partition not in known:
                raise UserError(f"{name} has no partition {partition}", ErrorKind.NOT_FOUND)
            places.append((name, partition))
    return places


def targets(
    admin: Admin,
    group: str,
    places: Sequence[Place],
    to: Position | None,
    shift: int,
    stored: Mapping[Place, int] | None = None,
    note: Callable[[str], object] = lambda words: None,
) -> dict[Place, int]:
    """The offset that a reset gives each partition, within what the log has. `to` None: the stored one plus `shift`.

    `note` gets a line where the log does not have an offset that was named.
    """
    topics = topics_of(admin, {topic for topic, _ in places})
    first, last = partition_offsets(admin, topics, EARLIEST), partition_offsets(admin, topics, LATEST)
    missing = [f"{topic}-{partition}" for topic, partition in places if (topic, partition) not in last]
    if missing:
        raise UserError(f"{', '.join(missing)} have no leader: try again when they have one")
    stored = committed_offsets(admin, group) if stored is None else stored
    wanted = _wanted(admin, stored, topics, places, to, first, last)
    made = {}
    for place in places:
        offset = wanted[place] + shift
        made[place] = min(max(offset, first[place]), last[place])
        if made[place] != offset and (shift or (to is not None and to.offset is not None and to.offset >= 0)):
            edge = f"ends at {last[place]}" if offset > last[place] else f"begins at {first[place]}"
            note(f"{place[0]}-{place[1]} {edge}: its offset is {made[place]}, not {offset}")
    return made


def _wanted(
    admin: Admin,
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
    admin: Admin,
    group: str,
    offsets: Mapping[Place, int],
    *,
    shares: bool = False,
    metadata: Mapping[Place, str] = MappingProxyType({}),
) -> None:
    """Raises UserError for a group with members, which would commit over it."""
    if shares:
        alter_share_offsets(admin, group, offsets)
        return
    group_offsets.commit(admin, group, offsets, metadata)
