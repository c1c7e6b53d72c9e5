"""An index of the partitions by broker, so that an election visits only the affected ones (Kafka's BrokersToIsrs).

A partition is listed under its leader, its ISR members, and its eligible leader replicas (KIP-966). It is also
listed under the special keys below, since partitions in those states are looked up too. The index follows from the
image alone and is updated with each decision.

The partitions of one topic on one broker are one integer whose bits are their indexes. A replica costs 2 bytes if
topics have a thousand partitions on thirty brokers, and 21 bytes if they have one partition.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...metadata.image import NO_LEADER, PartitionImage, TopicImage, TopicsImage
from ...metadata.topics_delta import TopicsDelta

#: The partition has no leader.
LEADERLESS = NO_LEADER
#: The leader is not the preferred replica, or there is none.
IMBALANCED = -2
#: Replicas are being added or removed (KIP-455).
REASSIGNING = -3


class BrokersToPartitions:
    def __init__(self) -> None:
        #: Maps a broker or special key to topic names, and those to partition indexes.
        self._indexes: dict[int, dict[str, int]] = {}

    def find(self, topics: TopicsImage, *places: int) -> Iterator[tuple[TopicImage, Iterator[int]]]:
        """Yields the partitions listed under any of these keys, by topic name and index. `topics`: the indexed topics."""
        first, *others = places
        found = self._indexes.get(first, {})
        for place in others:
            found = dict(found)
            for name, indexes in self._indexes.get(place, {}).items():
                found[name] = found.get(name, 0) | indexes
        for name in sorted(found):
            yield topics.by_name[name], _ascending(found[name])

    def learn(self, topics: TopicsImage) -> Iterator[None]:
        """Rebuilds the index from these topics, one topic per step. The index must not be read before the last step."""
        self._indexes = {}
        for topic in topics.by_id.values():
            for index, partition in topic.partitions.items():
                self._add(topic.name, index, _places(partition))
            yield

    def replay(self, delta: TopicsDelta) -> None:
        """Applies what has changed since the indexed topics."""
        for gone in delta.deleted.values():
            for topics in self._indexes.values():
                topics.pop(gone.name, None)
        for topic in delta.changed.values():
            for index, partition in topic.changed.items():
                before, now = topic.before.partitions.get(index), _places(partition)
                then = _places(before) if before is not None else ()
                if now != then:
                    self._remove(topic.before.name, index, {*then} - {*now})
                    self._add(topic.before.name, index, now)

    def _add(self, name: str, index: int, places: tuple[int, ...]) -> None:
        bit = 1 << index
        for place in places:
            topics = self._indexes.get(place)
            if topics is None:
                topics = self._indexes[place] = {}
            topics[name] = topics.get(name, 0) | bit

    def _remove(self, name: str, index: int, places: set[int]) -> None:
        for place in places:
            topics = self._indexes[place]
            assert topics[name] >> index & 1, "the removed entry exists"
            topics[name] ^= 1 << index
            if not topics[name]:
                del topics[name]


def _places(partition: PartitionImage) -> tuple[int, ...]:
    """Returns the keys of a partition. Usually they are its ISR, and no new tuple is built."""
    leader, places = partition.leader, partition.isr
    if leader not in places:
        places = (*places, leader)
    if partition.elr:
        places += partition.elr
    if leader != partition.preferred_replica:
        places += (IMBALANCED,)
    if partition.is_reassigning:
        places += (REASSIGNING,)
    return places


def _ascending(indexes: int) -> Iterator[int]:
    """Yields the set bits. Searching a string finds the next one quickly at any distance."""
    bits = f"{indexes:b}"[::-1]
    index = bits.find("1")
    while index >= 0:
        yield index
        index = bits.find("1", index + 1)
