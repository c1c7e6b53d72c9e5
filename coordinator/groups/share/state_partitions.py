"""The share partitions of a group by their state in the persister. Only initialized partitions are assigned.

initializing   the persister was asked to initialize them; the request is repeated if no response arrives for a
while initialized    the persister has initialized them deleting       the persister was asked to delete them
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ....metadata.image import MetadataImage
from ....protocol.internal.share_group_records import (
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)

UNKNOWN_TOPIC = "<UNKNOWN>"


class TopicState(NamedTuple):
    name: str
    partitions: frozenset[int]
    #: Time when the record of this state was replayed.
    since_ms: int = 0


TopicStates = Mapping[bytes, TopicState]


@dataclass(frozen=True, slots=True)
class StatePartitions:
    initializing: TopicStates = field(default_factory=dict)
    initialized: TopicStates = field(default_factory=dict)
    #: Topic id -> name.
    deleting: Mapping[bytes, str] = field(default_factory=dict)

    def known(self, retry_before_ms: int) -> TopicStates:
        """Returns the partitions that need no request. Requests older than `retry_before_ms` are repeated."""
        recent = {t: s for t, s in self.initializing.items() if s.since_ms > retry_before_ms}
        return joined(self.initialized, recent)

    def is_empty(self) -> bool:
        return not (self.initializing or self.initialized or self.deleting)


def joined(a: TopicStates, b: TopicStates) -> dict[bytes, TopicState]:
    """Returns the union of both, partition by partition."""
    result = dict(a)
    for topic_id, state in b.items():
        before = result.get(topic_id)
        result[topic_id] = state if before is None else state._replace(partitions=before.partitions | state.partitions)
    return result


def without(a: TopicStates, partitions: Mapping[bytes, frozenset[int]]) -> dict[bytes, TopicState]:
    left = {t: s._replace(partitions=s.partitions - partitions.get(t, frozenset())) for t, s in a.items()}
    return {topic_id: state for topic_id, state in left.items() if state.partitions}


def missing(states: StatePartitions, image: MetadataImage, names: Iterable[str], retry_before_ms: int) -> TopicStates:
    """Returns the partitions of these topics that the persister must initialize, by the current metadata."""
    known = states.known(retry_before_ms)
    result: dict[bytes, TopicState] = {}
    for name in sorted(names):
        topic = image.topic(name)
        if topic is not None:
            have = known[topic.id].partitions if topic.id in known else frozenset()
            wanted = frozenset(range(len(topic.partitions))) - have
            if wanted:
                result[topic.id] = TopicState(name, wanted)
    return result


def as_record(states: StatePartitions) -> ShareGroupStatePartitionMetadataValue:
    return ShareGroupStatePartitionMetadataValue(
        initializing_topics=_infos(states.initializing),
        initialized_topics=_infos(states.initialized),
        deleting_topics=[TopicInfo(topic_id=t, topic_name=name) for t, name in states.deleting.items()],
    )


def from_record(value: ShareGroupStatePartitionMetadataValue, now_ms: int) -> StatePartitions:
    return StatePartitions(
        _states(value.initializing_topics, now_ms),
        _states(value.initialized_topics, now_ms),
        {topic.topic_id: topic.topic_name for topic in value.deleting_topics},
    )


def _infos(states: TopicStates) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(topic_id=t, topic_name=s.name, partitions=sorted(s.partitions)) for t, s in states.items()
    ]


def _states(topics: Iterable[TopicPartitionsInfo], now_ms: int) -> dict[bytes, TopicState]:
    return {t.topic_id: TopicState(t.topic_name, frozenset(t.partitions), now_ms) for t in topics}
