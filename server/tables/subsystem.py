"""The topics whose tables this broker keeps: those with odradek.table.enable=true whose partition 0 it leads.

Leadership makes it one broker a topic. Two may think so for a moment; the tables themselves rule out two writers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ...metadata.configs.table_rules import PREFIX, is_enabled
from ...metadata.image import TOPIC_RESOURCE
from ...protocol.uuids import uuid_to_text
from ..runtime.subsystem import Subsystem
from .table_process import FollowedTopic, TableProcess

if TYPE_CHECKING:
    from ...metadata.delta import MetadataDelta, Part
    from ...metadata.image import MetadataImage, TopicImage

#: The partition whose leader keeps the table.
_DECIDING_PARTITION = 0
#: Some 5 ms of the loop.
_TOPICS_OF_A_STEP = 1000


class TablesSubsystem(Subsystem):
    """Made, and imported, only where this node has a place for tables."""

    name = "tables"
    interest: frozenset[Part] = frozenset({"topics", "configs"})

    def __init__(self, node_id: int, process: TableProcess) -> None:
        self._node_id = node_id
        self.process = process
        #: Topics with a table, led here or not.
        self._enabled: set[str] = set()
        #: The topics whose tables are kept here, by name.
        self._kept: dict[str, FollowedTopic] = {}

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> Iterator[None]:
        changed = {name for kind, name in delta.configs if kind == TOPIC_RESOURCE}
        for name in changed:
            if is_enabled(image.config(TOPIC_RESOURCE, name)):
                self._enabled.add(name)
            else:
                self._enabled.discard(name)
        if self._enabled:
            changed |= self._enabled.intersection(one.before.name for one in delta.topics.changed.values())
        concerned = changed & (self._enabled | self._kept.keys())
        if concerned:
            yield from self._follow(concerned, image)

    def _follow(self, names: Iterable[str], image: MetadataImage) -> Iterator[None]:
        """Follows the configs and leaders of these topics, in steps."""
        before = dict(self._kept)
        for number, name in enumerate(names, 1):
            topic = image.topic(name)
            if name in self._enabled and topic is not None and self._leads(topic):
                self._kept[name] = FollowedTopic(uuid_to_text(topic.id), _table_configs(image, name))
            else:
                self._kept.pop(name, None)
            if number % _TOPICS_OF_A_STEP == 0:
                yield
        if self._kept != before:
            self.process.assign(self._kept)

    def _leads(self, topic: TopicImage) -> bool:
        partition = topic.partitions.get(_DECIDING_PARTITION)
        return partition is not None and partition.leader == self._node_id

    @property
    def kept(self) -> list[str]:
        """The topics whose tables are kept here."""
        return sorted(self._kept)

    async def stop(self) -> None:
        await self.process.stop()


def _table_configs(image: MetadataImage, topic: str) -> dict[str, str]:
    configs = image.config(TOPIC_RESOURCE, topic)
    return {key: configs[key] for key in sorted(configs) if key.startswith(PREFIX)}
