"""The reset of a group: its partitions, the offsets that it has stored, and those that it gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from ..client.error_kinds import ErrorKind, kind_of_code
from ..client.user_errors import Misused, UserError
from ..protocol.errors import ErrorCode
from ..protocol.log_places import EARLIEST, LATEST
from . import group_offsets
from .errors import ResponseError
from .group_offsets import committed_offsets
from .log_offsets import partition_offsets
from .places import Place
from .positions import BEGINNING, END, STORED, Position
from .share_offsets import alter_share_offsets, share_start_offsets
from .topics import existing_topics, hint_for_unknown

if TYPE_CHECKING:
    from .session import Admin
    from .topics import Topic


def stored_offsets(admin: Admin, group: str, *, shares: bool) -> dict[Place, int]:
    """Committed offsets, or the start offsets of a share group; none of a group that does not exist."""
    if not shares:
        return committed_offsets(admin, group)
    try:
        return dict(sorted(share_start_offsets(admin, group).items()))
    except ResponseError as error:
        if kind_of_code(error.code) == ErrorKind.NOT_FOUND:
            return {}
        raise


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
        known = [p.partition_index for topic in existing_topics(admin, [name]) for p in topic.partitions]
        if not known:
            hint = hint_for_unknown(admin, name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            raise UserError(f"topic {name} does not exist{hint}", ErrorKind.NOT_FOUND)
        try:
            wanted = [int(number) for number in numbers.split(",")] if colon else sorted(known)
        except ValueError:
            raise Misused(f"--topic {text!r}: give TOPIC or TOPIC:0,2") from None
        for partition in wanted:
            if partition not in known:
                raise UserError(f"{name} has no partition {partition}", ErrorKind.NOT_FOUND)
            places.append((name, partition))
    return list(dict.fromkeys(places))


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
    topics = existing_topics(admin, {topic for topic, _ in places})
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
    """Raises ResponseError for a group with members, which would commit over it."""
    if shares:
        alter_share_offsets(admin, group, offsets)
        return
    group_offsets.commit(admin, group, offsets, metadata)
