"""`uniform` for members that subscribe to different topics, move for move as Kafka's UniformHeterogeneousAssignmentBuilder.

Everybody keeps what it has. What is nobody's goes, topic by topic, to those subscribers that have the fewest partitions of
all topics; then, topic by topic and again, those that have the most give to those that have the fewest. Topics with many
partitions for each subscriber come first.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

#: Rounds over all topics. Each about halves what is uneven; of most subscriptions the second finds nothing to do.
MAX_ROUNDS = 16

#: Topic -> who has each partition; None: nobody.
Owners = dict[bytes, list[str | None]]
Load = dict[str, int]


def complete(owners: Owners, load: Load, subscribers: Mapping[bytes, Sequence[str]]) -> None:
    """Gives every partition an owner. `load`: how many each member has; `subscribers`: of each topic, sorted."""
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
    """Java compares the halves of ids as signed numbers."""
    return (-partitions / subscribers, subscribers, struct.unpack(">qq", topic_id))


def _even_out(topics: Sequence[bytes], owners: Owners, load: Load, subscribers: Mapping[bytes, Sequence[str]]) -> None:
    last_moved: bytes | None = None
    for _ in range(MAX_ROUNDS):
        for topic_id in topics:
            if topic_id == last_moved:
                return  # all others have been looked at since, and nothing moved
            if _move(owners[topic_id], load, subscribers[topic_id]) or last_moved is None:
                last_moved = topic_id


def _move(owners: list[str | None], load: Load, subscribers: Sequence[str]) -> bool:
    """Of one topic, from those that have the most to those that have the fewest; whether anything was moved."""
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
    """Members by how much they have, and two ranges of them: the lowest, who are given to in turn until the whole range is a
    level higher, and the highest, who give in turn until it is a level lower. Each range takes in those whose level it
    comes to. `load` changes with what the caller makes of the answers.
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
        """None when all were excluded."""
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
        """Whom `highest` gave last has nothing of the topic; the last of the range takes its place."""
        members, place = self._members, self._next_high + 1
        self._high_end -= 1
        members[place], members[self._high_end] = members[self._high_end], members[place]
