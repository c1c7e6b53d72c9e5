"""The assignor of share groups: `simple`.

The assignor balances the members per partition and the partitions per member. With more members than partitions several
members have the same partition. A member keeps its current partitions where possible. When subscriptions differ, the
assignor assigns each topic on its own, to the members that subscribe to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .member import Partitions

Assignment = dict[str, dict[bytes, frozenset[int]]]
Place = tuple[bytes, int]


class Subscriber(NamedTuple):
    topic_ids: frozenset[bytes]
    #: Its current target assignment.
    current: Partitions


def simple(members: Mapping[str, Subscriber], assignable: Mapping[bytes, frozenset[int]]) -> Assignment:
    """Returns the target assignment of each member. `assignable`: topic id -> partitions that may be assigned."""
    taken: dict[str, set[Place]] = {member_id: set() for member_id in members}
    if len({member.topic_ids for member in members.values()}) <= 1:
        topic_ids = next((member.topic_ids for member in members.values()), frozenset())
        _share(members, sorted(members), _places(topic_ids, assignable), taken)
    else:
        for topic_id in sorted(assignable):
            subscribers = [m for m in sorted(members) if topic_id in members[m].topic_ids]
            _share(members, subscribers, _places({topic_id}, assignable), taken)
    return {member_id: _gathered(places) for member_id, places in taken.items()}


def _places(topic_ids: frozenset[bytes] | set[bytes], assignable: Mapping[bytes, frozenset[int]]) -> list[Place]:
    return [(t, index) for t in sorted(topic_ids) for index in sorted(assignable.get(t, ()))]


def _share(
    members: Mapping[str, Subscriber], sharers: Sequence[str], places: list[Place], taken: dict[str, set[Place]]
) -> None:
    if not sharers or not places:
        return
    sharing = -(-len(sharers) // len(places))
    total = sharing * len(places)
    #: The partitions that each member still gets. The sum is exactly `total`, whatever the remainder.
    room = {m: -(-total * (i + 1) // len(sharers)) - -(-total * i // len(sharers)) for i, m in enumerate(sharers)}
    having: dict[Place, set[str]] = {place: set() for place in places}

    def take(member_id: str, place: Place) -> None:
        room[member_id] -= 1
        having[place].add(member_id)
        taken[member_id].add(place)

    for member_id in sharers:
        for place in places:
            is_current = place[1] in members[member_id].current.get(place[0], ())
            if is_current and room[member_id] > 0 and len(having[place]) < sharing:
                take(member_id, place)
    for _ in range(sharing):
        for place in sorted(places, key=lambda place: len(having[place])):
            if len(having[place]) < sharing:
                free = [m for m in sharers if m not in having[place] and (room[m] > 0 or not having[place])]
                if free:
                    take(max(free, key=room.__getitem__), place)


def _gathered(places: set[Place]) -> dict[bytes, frozenset[int]]:
    gathered: dict[bytes, set[int]] = {}
    for topic_id, index in sorted(places):
        gathered.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in gathered.items()}
