"""The server-side assignors of consumer groups: `uniform` and `range`, as in the coordinator of Kafka 4.4 (KIP-848).

Both take the members' topics and current target assignments, and assign every partition of every subscribed topic
to one member that subscribes to it. Neither considers racks, like Kafka's since 4.0: racks only count towards the
hash of the topics, so that a change of racks triggers a new assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from .heterogeneous_assignor import Owners, complete
from .member import Partitions

Assignment = dict[str, dict[bytes, frozenset[int]]]


class Subscriber(NamedTuple):
    instance_id: str | None
    topic_ids: frozenset[bytes]
    #: The current target assignment.
    current: Partitions


def uniform(members: Mapping[str, Subscriber], counts: Mapping[bytes, int]) -> Assignment:
    """Assigns loads that differ by at most one if subscriptions permit. Members keep their partitions if possible."""
    if len({frozenset(s.topic_ids & counts.keys()) for s in members.values()}) <= 1:
        return _uniform_alike(members, counts)
    subscribers = _subscribers(members, counts)
    owners: Owners = {topic_id: [None] * counts[topic_id] for topic_id in subscribers}
    load = dict.fromkeys(members, 0)
    for member_id in sorted(members):
        member = members[member_id]
        for topic_id, index in _places(member.current):
            if topic_id in member.topic_ids and index < counts.get(topic_id, 0) and owners[topic_id][index] is None:
                owners[topic_id][index] = member_id
                load[member_id] += 1
    complete(owners, load, subscribers)
    return _gathered(members, {(t, i): m for t, of_topic in owners.items() for i, m in enumerate(of_topic) if m})


def _uniform_alike(members: Mapping[str, Subscriber], counts: Mapping[bytes, int]) -> Assignment:
    """Assigns for equal subscriptions: each member keeps its partitions up to its quota.

    Free partitions fill up the members in order, as in Kafka.
    """
    subscribed = set[bytes]().union(*(s.topic_ids & counts.keys() for s in members.values()))
    kept: dict[str, list[tuple[bytes, int]]] = {}
    taken: set[tuple[bytes, int]] = set()
    share, extras = divmod(sum(counts[t] for t in subscribed), len(members)) if members else (0, 0)
    room: dict[str, int] = {}
    left = len(members)
    free_again: list[tuple[bytes, int]] = []
    for member_id in sorted(members):
        quota = share + (1 if extras else 0)
        mine = [p for p in _places(members[member_id].current) if p[0] in subscribed and p[1] < counts[p[0]]]
        mine = [place for place in mine if place not in taken]
        taken.update(mine)
        kept[member_id], lost = mine[:quota], mine[quota:]
        free_again += lost
        room[member_id] = quota - len(kept[member_id])
        if extras:
            # A member that would need a new partition as its extra leaves it to later members that may own one already.
            if room[member_id] and left > extras:
                room[member_id] -= 1
            else:
                extras -= 1
        left -= 1
    every = [(topic_id, index) for topic_id in sorted(subscribed) for index in range(counts[topic_id])]
    free = iter([place for place in every if place not in taken] + free_again)
    for member_id, count in room.items():
        kept[member_id] += [place for _, place in zip(range(count), free)]
    return _gathered(members, {place: member_id for member_id, places in kept.items() for place in places})


def _places(partitions: Partitions) -> list[tuple[bytes, int]]:
    return [(topic_id, index) for topic_id in sorted(partitions) for index in sorted(partitions[topic_id])]


def range_(members: Mapping[str, Subscriber], counts: Mapping[bytes, int]) -> Assignment:
    """Assigns each subscriber a contiguous range of each topic, static members first.

    So topics with the same number of partitions are assigned alike.
    """
    order = sorted(members, key=lambda member_id: _range_order(member_id, members[member_id]))
    assignment: Assignment = {member_id: {} for member_id in members}
    for topic_id in sorted(counts):
        subscribers = [member_id for member_id in order if topic_id in members[member_id].topic_ids]
        if not subscribers:
            continue
        quota, extra = divmod(counts[topic_id], len(subscribers))
        start = 0
        for i, member_id in enumerate(subscribers):
            end = start + quota + (1 if i < extra else 0)
            if end > start:
                assignment[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return assignment


ASSIGNORS: dict[str, Callable[[Mapping[str, Subscriber], Mapping[bytes, int]], Assignment]] = {
    "uniform": uniform,
    "range": range_,
}


def _range_order(member_id: str, member: Subscriber) -> tuple[bool, str]:
    return (member.instance_id is None, member.instance_id if member.instance_id is not None else member_id)


def _subscribers(members: Mapping[str, Subscriber], counts: Mapping[bytes, int]) -> dict[bytes, list[str]]:
    found: dict[bytes, list[str]] = {}
    for member_id in sorted(members):
        for topic_id in members[member_id].topic_ids & counts.keys():
            found.setdefault(topic_id, []).append(member_id)
    return found


def _gathered(members: Mapping[str, Subscriber], owner: Mapping[tuple[bytes, int], str]) -> Assignment:
    gathered: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in members}
    for (topic_id, index), member_id in owner.items():
        gathered[member_id].setdefault(topic_id, set()).add(index)
    return {m: {t: frozenset(p) for t, p in topics.items()} for m, topics in gathered.items()}
