"""The assignor `uniform` for members with different subscriptions.

The moves are those of Kafka's UniformHeterogeneousAssignmentBuilder.

Members keep their partitions. Unassigned partitions go, topic by topic, to the subscribers with the fewest
partitions over all topics. Then, in rounds over all topics, the members with the most partitions give to those with
the fewest. Topics with many partitions per subscriber come first.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

#: Rounds over all topics. Each roughly halves the imbalance; for most subscriptions the second round moves nothing.
MAX_ROUNDS = 16
#: Topic -> the owner of each partition; None if unassigned.
Owners = dict[bytes, list[str | None]]
Load = dict[str, int]


def complete(owners: Owners, load: Load, subscribers: Mapping[bytes, Sequence[str]]) -> None:
    """Gives every partition an owner. `load`: partitions per member. `subscribers`: topic -> sorted subscribers."""
    topics = sorted(owners, key=lambda topic_id: _rank(topic_id, len(owners[topic_id]), len(subscribers[topic_id])))
    for topic_id in topics:
        free = [index for index, owner in enumerate(owners[topic_id]) if owner is None]
        if free:
            levels = _Levels(subscribers[topic_id], load)
            for index in free:
                owners[topic_id][index] = taker = levels.lowest()
                load[taker] += 1
    _even_out([topic_id for topic_id in topics if len(subscribers[topic_id]) > 1], owners, load, subscribers)


def _rank(topic_id: bytes, partitions: int, subscribers: int) -> tuple[float, int, tuple[int, ...]]:
    """Returns the sort key of a topic. Java compares the halves of ids as signed numbers."""
    return (-partitions / subscribers, subscribers, struct.unpack(">qq", topic_id))


def _even_out(topics: Sequence[bytes], owners: Owners, load: Load, subscribers: Mapping[bytes, Sequence[str]]) -> None:
    last_moved: bytes | None = None
    for _ in range(MAX_ROUNDS):
        for topic_id in topics:
            if topic_id == last_moved:
                return  # all other topics were checked since then, and nothing moved
            if _move(owners[topic_id], load, subscribers[topic_id]) or last_moved is None:
                last_moved = topic_id


def _move(owners: list[str | None], load: Load, subscribers: Sequence[str]) -> bool:
    """Moves partitions of one topic from the members with the most to those with the fewest. Returns if any moved."""
    levels = _Levels(subscribers, load)
    if levels.difference <= 1:
        return False
    to_give: dict[str, list[int]] = {}
    for index, owner in enumerate(owners):
        if owner is not None:
            to_give.setdefault(owner, []).append(index)
    moved = False
    while not levels.is_even:
        giver = levels.highest()
        while giver is not None and not to_give.get(giver):
            levels.exclude_last()
            giver = levels.highest()
        if giver is None:
            break
        index, taker = to_give[giver].pop(), levels.lowest()
        if levels.is_even:
            break
        owners[index] = taker
        load[giver] -= 1
        load[taker] += 1
        moved = True
    return moved


class _Levels:
    """Members sorted by load, with a lowest and a highest range.

    Members of the lowest range take partitions in turn until the whole range is a level higher. Those of the highest
    range give partitions in turn until it is a level lower. Each range includes the members whose level it reaches. The
    caller updates `load` according to the results.
    """

    def __init__(self, members: Sequence[str], load: Load) -> None:
        self._load = load
        self._members = sorted(members, key=load.__getitem__)
        low, high = load[self._members[0]], load[self._members[-1]]
        self.difference = high - low
        self._low_level, self._low_end, self._next_low = low - 1, 0, 0
        end = len(members)
        self._high_level, self._high_start, self._high_end, self._next_high = high + 1, end, end, end - 1

    @property
    def is_even(self) -> bool:
        return self._high_level - self._low_level <= 1

    def lowest(self) -> str:
        members, load = self._members, self._load
        if self._next_low >= self._low_end:
            self._low_level += 1
            while self._low_end < len(members) and load[members[self._low_end]] == self._low_level:
                self._low_end += 1
            self._next_low = 0
        self._next_low += 1
        return members[self._next_low - 1]

    def highest(self) -> str | None:
        """Returns the next member to give a partition; None if all are excluded."""
        members, load = self._members, self._load
        if self._next_high < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                self._high_level = load[members[self._high_start - 1]]
            else:
                self._high_level -= 1
            while self._high_start > 0 and load[members[self._high_start - 1]] == self._high_level:
                self._high_start -= 1
            self._next_high = self._high_end - 1
        if self._next_high < 0:
            return None
        self._next_high -= 1
        return members[self._next_high + 1]

    def exclude_last(self) -> None:
        """Excludes the member that `highest` returned last, since it has no partition of the topic.

        The last member of the range takes its place.
        """
        members, place = self._members, self._next_high + 1
        self._high_end -= 1
        members[place], members[self._high_end] = members[self._high_end], members[place]
