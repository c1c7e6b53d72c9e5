"""The assignor of share groups: `simple`.

The assignor balances the members per partition and the partitions per member. With more members than partitions
several members have the same partition. A member keeps its current partitions where possible. When subscriptions
differ, the assignor assigns each topic on its own, to the members that subscribe to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ....metadata.image import TopicIdPartition
from ..consumer.member import Partitions

Assignment = dict[str, dict[bytes, frozenset[int]]]


class ShareSubscriber(NamedTuple):
    topic_ids: frozenset[bytes]
    #: The current target assignment.
    current: Partitions


def simple(members: Mapping[str, ShareSubscriber], assignable: Mapping[bytes, frozenset[int]]) -> Assignment:
    """Returns the target assignment of each member. `assignable`: topic id -> partitions that may be assigned."""
    taken: dict[str, set[TopicIdPartition]] = {member_id: set() for member_id in members}
    if len({member.topic_ids for member in members.values()}) <= 1:
        topic_ids = next((member.topic_ids for member in members.values()), frozenset())
        _share(members, sorted(members), _every_partition(topic_ids, assignable), taken)
    else:
        for topic_id in sorted(assignable):
            subscribers = [m for m in sorted(members) if topic_id in members[m].topic_ids]
            _share(members, subscribers, _every_partition({topic_id}, assignable), taken)
    return {member_id: _gathered(partitions) for member_id, partitions in taken.items()}


def _every_partition(
    topic_ids: frozenset[bytes] | set[bytes], assignable: Mapping[bytes, frozenset[int]]
) -> list[TopicIdPartition]:
    return [(t, index) for t in sorted(topic_ids) for index in sorted(assignable.get(t, ()))]


def _share(
    members: Mapping[str, ShareSubscriber],
    sharers: Sequence[str],
    partitions: list[TopicIdPartition],
    taken: dict[str, set[TopicIdPartition]],
) -> None:
    if not sharers or not partitions:
        return
    sharing = -(-len(sharers) // len(partitions))
    total = sharing * len(partitions)
    #: The partitions that each member still gets. The sum is exactly `total`, whatever the remainder.
    room = {m: -(-total * (i + 1) // len(sharers)) - -(-total * i // len(sharers)) for i, m in enumerate(sharers)}
    having: dict[TopicIdPartition, set[str]] = {partition: set() for partition in partitions}

    def take(member_id: str, partition: TopicIdPartition) -> None:
        room[member_id] -= 1
        having[partition].add(member_id)
        taken[member_id].add(partition)

    for member_id in sharers:
        for partition in partitions:
            is_current = partition[1] in members[member_id].current.get(partition[0], ())
            if is_current and room[member_id] > 0 and len(having[partition]) < sharing:
                take(member_id, partition)
    for _ in range(sharing):
        for partition in sorted(partitions, key=lambda partition: len(having[partition])):
            if len(having[partition]) < sharing:
                free = [m for m in sharers if m not in having[partition] and (room[m] > 0 or not having[partition])]
                if free:
                    take(max(free, key=room.__getitem__), partition)


def _gathered(partitions: set[TopicIdPartition]) -> dict[bytes, frozenset[int]]:
    gathered: dict[bytes, set[int]] = {}
    for topic_id, index in sorted(partitions):
        gathered.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in gathered.items()}
