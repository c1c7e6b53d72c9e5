"""The topics of one broker by their ids, and by the hashes of them that groups store (KIP-1101).

Each broker generates its own topic ids, and the hashes depend on the ids. To compare two brokers, each id and each hash is
replaced by the topics that it stands for.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

from immutables import Map
from odradek.coordinator.groups.consumer.topics import metadata_hash
from odradek.metadata.image import MetadataImage, PartitionImage, TopicImage, TopicsImage
from odradek.protocol.messages.metadata import MetadataRequest

from ..wire import WireClient

_METADATA_VERSION = 12
#: The most topics of a scenario: all combinations of them are tried.
MOST_TOPICS = 6
_NOWHERE = PartitionImage((), (), -1, 0, 0, ())


class TopicNames:
    """The names of the broker's topics when the object is made."""

    def __init__(self, bootstrap: str) -> None:
        with WireClient(bootstrap) as client:
            topics = client.call(MetadataRequest(None, False), _METADATA_VERSION).topics
        self._topics = {one.name: (one.topic_id, len(one.partitions)) for one in topics}
        self._by_id = {topic_id: name for name, (topic_id, _) in self._topics.items()}

    def of_id(self, topic_id: bytes) -> str:
        return self._by_id.get(topic_id, "a topic that is gone") if any(topic_id) else "no topic"

    def of_hash(self, value: int, group_id: str) -> Any:
        """Returns the topics that a hash stands for. Their names begin with the same run as `group_id`."""
        if value == 0:
            return 0
        run = group_id.rpartition("-")[0]
        mine = sorted(name for name in self._topics if name.startswith(run))
        assert len(mine) <= MOST_TOPICS, mine
        found = (chosen for chosen in self._choices(mine) if self._hash(chosen) == value)
        return next(found, "a hash of topics that are gone")

    def _choices(self, names: list[str]) -> Iterator[dict[str, int]]:
        """Yields choices of these topics, each with its number of partitions or a smaller one, from before it grew."""
        for count in range(1, len(names) + 1):
            for chosen in combinations(names, count):
                sizes = [range(self._topics[name][1], 0, -1) for name in chosen]
                yield from (dict(zip(chosen, some, strict=True)) for some in product(*sizes))

    def _hash(self, partitions: dict[str, int]) -> int:
        topics = {
            name: TopicImage(name, self._topics[name][0], Map(dict.fromkeys(range(count), _NOWHERE)))
            for name, count in partitions.items()
        }
        return metadata_hash(MetadataImage(topics=TopicsImage(by_name=Map(topics))), topics)
