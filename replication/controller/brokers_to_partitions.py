"""Which partitions a broker has a part in, so that an election looks at these and not at all (Kafka's BrokersToIsrs).

A partition stands under everybody who leads it, is in sync, or is eligible to lead (KIP-966), and under what is said of it
by the words below, since those are looked for too. It follows from the image alone, and is kept up by what decisions change.

The partitions that a broker has of a topic are one integer, whose bits are their indexes: a replica costs 2 bytes where
topics have a thousand partitions on thirty brokers, and 21 where they have one.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...metadata.image import NO_LEADER, PartitionImage, TopicImage, TopicsImage
from ...metadata.topics_delta import TopicsDelta

#: Nobody leads it.
LEADERLESS = NO_LEADER
#: Another than the preferred replica leads it, or nobody.
IMBALANCED = -2
#: Replicas are being added, or removed (KIP-455).
REASSIGNING = -3


class BrokersToPartitions:
    def __init__(self) -> None:
        #: Broker, or word, to name of a topic to indexes.
        self._indexes: dict[int, dict[str, int]] = {}

    def find(self, topics: TopicsImage, *places: int) -> Iterator[tuple[TopicImage, Iterator[int]]]:
        """What stands under any of these, by topics' names and by indexes. `topics`: those that it is kept for."""
        first, *others = places
        found = self._indexes.get(first, {})
        for place in others:
            found = dict(found)
            for name, indexes in self._indexes.get(place, {}).items():
                found[name] = found.get(name, 0) | indexes
        for name in sorted(found):
            yield topics.by_name[name], _ascending(found[name])

    def learn(self, topics: TopicsImage) -> Iterator[None]:
        """Begins anew with these. There is a step for each topic; before the last it is not to be asked."""
        self._indexes = {}
        for topic in topics.by_id.values():
            for index, partition in topic.partitions.items():
                self._add(topic.name, index, _places(partition))
            yield

    def replay(self, delta: TopicsDelta) -> None:
        """What has changed since the topics that it stands for."""
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
            assert topics[name] >> index & 1, "what is taken out was there"
            topics[name] ^= 1 << index
            if not topics[name]:
                del topics[name]


def _places(partition: PartitionImage) -> tuple[int, ...]:
    """Mostly they are those in sync, and nothing is made."""
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
    """The bits that are set; a text finds the next one fast, however far it is."""
    bits = f"{indexes:b}"[::-1]
    index = bits.find("1")
    while index >= 0:
        yield index
        index = bits.find("1", index + 1)
