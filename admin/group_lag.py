"""The lag of groups, for `group lag`, `group describe`, `top` and the console.

A group reads the partitions that have a commit of it. A group whose members subscribe to topics reads all partitions of each
topic that its members read or that has a commit. The lag of each is that of `odradek.admin.lag`.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from typing import TYPE_CHECKING

from ..protocol.errors import ErrorCode
from ..protocol.log_places import EARLIEST, LATEST
from . import lag as admin_lag
from .group_offsets import committed_offsets
from .lag import GroupProgress, Lag, Log, places_read
from .log_offsets import offsets_at
from .markers import gaps_of
from .places import Place
from .records_ends import Led, records_ends
from .share_offsets import Started, share_offsets
from .subscriptions import Reading, read_topics
from .topics import describe_topics

if TYPE_CHECKING:
    from .session import Admin


Positions = Mapping[Place, GroupProgress]


def lags(
    admin: Admin, kinds: Mapping[str, str], *, without: Container[int] = (), from_start: bool = False
) -> dict[str, list[Lag]]:
    """Lag by partition of each group; `kinds` has the kind of each. Leaders of `without` get no request. `from_start`:
    partitions without a commit count from their first record.
    """
    plain = [group for group, kind in kinds.items() if kind != "share"]
    readings = admin.patiently(lambda: read_topics(admin, kinds, admin.by_coordinator(plain)))
    positions: dict[str, Positions] = {group: committed_positions(admin, group) for group in plain}
    shared = share_offsets(admin, [name for name, kind in kinds.items() if kind == "share"])
    positions |= {group: shared_positions(offsets) for group, offsets in shared.items()}
    known = {group: positions[group] for group in kinds if group in positions}
    found = lags_of(admin, known, readings, without, from_start=from_start)
    return {group: found[group] for group in kinds if group in found}


def committed_positions(admin: Admin, group: str, coordinator: int | None = None) -> Positions:
    return {place: GroupProgress(offset) for place, offset in committed_offsets(admin, group, coordinator).items()}


def shared_positions(offsets: Mapping[Place, Started]) -> dict[Place, GroupProgress]:
    return {place: GroupProgress(start, counted) for place, (start, counted) in offsets.items()}


def lags_of(
    admin: Admin,
    positions: Mapping[str, Positions],
    readings: Mapping[str, Reading],
    without: Container[int],
    *,
    from_start: bool = False,
) -> dict[str, list[Lag]]:
    """Lag of groups whose positions and topics are known, with one look-up of the partitions for all of them."""
    names = {topic for places in positions.values() for topic, _ in places}
    names |= {topic for group in positions for topic in readings.get(group, Reading()).topics}
    described = describe_topics(admin, sorted(names)) if names else []
    led: dict[str, dict[int, Led | None]] = {
        topic.name: {
            one.partition_index: Led(one.leader_id, topic.topic_id)
            if one.leader_id >= 0 and one.leader_id not in without
            else None
            for one in topic.partitions
        }
        for topic in described
        if not topic.error_code
    }
    gone = {topic.name for topic in described if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    read = {group: {**_uncommitted(found, readings.get(group), led), **found} for group, found in positions.items()}
    logs = _logs(admin, read.values(), led, gone, from_start=from_start)
    return {group: admin_lag.lags_of(found, logs, from_start=from_start) for group, found in read.items()}


def _uncommitted(
    positions: Positions, reading: Reading | None, led: Mapping[str, Mapping[int, Led | None]]
) -> dict[Place, GroupProgress]:
    if reading is None or not reading.has_protocol:
        return {}
    return dict.fromkeys(places_read(positions, reading.topics, led), GroupProgress(None))


def _logs(
    admin: Admin,
    groups: Collection[Positions],
    led: Mapping[str, Mapping[int, Led | None]],
    gone: Container[str],
    *,
    from_start: bool,
) -> dict[Place, Log]:
    """The logs of the partitions of groups. Starts only where a partition counts from there."""
    every = {place for found in groups for place in found}
    leaders = {
        (topic, index): leader
        for topic, index in sorted(every)
        if (leader := led.get(topic, {}).get(index)) is not None
    }
    ends = dict(offsets_at(admin, list(leaders), LATEST))
    begun = {place for found in groups for place, one in found.items() if one.offset is None} if from_start else set()
    starts = dict(offsets_at(admin, [place for place in leaders if place in begun], EARLIEST))
    behind = records_ends(admin, gaps_of(groups, ends), leaders)
    return {place: Log(ends.get(place), starts.get(place), behind.get(place), place[0] in gone) for place in every}
