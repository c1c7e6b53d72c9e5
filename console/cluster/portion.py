"""The portion of the partitions that one poll reads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...admin.places import Place
from .group_lags import MOST_ENDS

if TYPE_CHECKING:
    from ...admin.topics import Topic


class Portion:
    """Partitions whose ends this poll reads: of topics that begin among the MOST_ENDS partitions from `turn` on, if each
    partition has a leader that responds. Without one of them a topic would seem to have fewer records, and more after it.
    """

    def __init__(self, turn: int, away: frozenset[int], *, keeps: bool = False) -> None:
        self._turn, self._position = turn, 0
        self._keeps = keeps
        #: The topics of the portion by name, where it keeps them.
        self.topics: dict[str, Topic] = {}
        self._away = away
        self._last, self._is_chosen = "", False
        self._chosen: dict[str, list[Place]] = {}

    def offer(self, topic: Topic) -> None:
        if topic.name != self._last:  # else it is the rest of a topic that did not fit the page before
            is_due = self._turn <= self._position < self._turn + MOST_ENDS
            self._last, self._is_chosen = topic.name, is_due and not topic.is_internal
        self._position += len(topic.partitions)
        if self._is_chosen and any(one.leader_id < 0 or one.leader_id in self._away for one in topic.partitions):
            self._is_chosen = False
            self._chosen.pop(topic.name, None)
            self.topics.pop(topic.name, None)
        if self._is_chosen and self._keeps:
            known = self.topics.get(topic.name)
            before = known.partitions if known is not None else []
            self.topics[topic.name] = replace(topic, partitions=[*before, *topic.partitions])
        if self._is_chosen:
            self._chosen.setdefault(topic.name, []).extend(
                (topic.name, one.partition_index) for one in topic.partitions
            )

    @property
    def places(self) -> list[Place]:
        return [place for places in self._chosen.values() for place in places]

    @property
    def next_turn(self) -> int:
        following = self._turn + MOST_ENDS
        return following if following < self._position else 0
