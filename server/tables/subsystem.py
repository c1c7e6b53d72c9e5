"""The topics whose tables this broker keeps: those with odradek.table.enable=true whose partition 0 it leads.

Leadership makes it one broker a topic. Two may think so for a moment; the tables themselves rule out two writers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...metadata.configs.table_rules import PREFIX, is_enabled
from ...metadata.image import TOPIC_RESOURCE
from ..runtime.subsystem import Subsystem
from .table_process import TableProcess

if TYPE_CHECKING:
    from ...metadata.delta import MetadataDelta, Part
    from ...metadata.image import MetadataImage

#: The partition whose leader keeps the table.
_DECIDING_PARTITION = 0


class TablesSubsystem(Subsystem):
    """Made, and imported, only where this node has a place for tables."""

    name = "tables"
    interest: frozenset[Part] = frozenset({"topics", "configs"})

    def __init__(self, node_id: int, process: TableProcess) -> None:
        self._node_id = node_id
        self.process = process
        #: Topics with a table, led here or not.
        self._enabled: set[str] = set()
        #: The configs of the tables that are kept here, by topic.
        self._kept: dict[str, dict[str, str]] = {}

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> Iterable[None]:
        changed = {name for kind, name in delta.configs if kind == TOPIC_RESOURCE}
        for name in changed:
            if is_enabled(image.config(TOPIC_RESOURCE, name)):
                self._enabled.add(name)
            else:
                self._enabled.discard(name)
        if self._enabled:
            changed |= self._enabled.intersection(one.before.name for one in delta.topics.changed.values())
        if changed & (self._enabled | self._kept.keys()):
            self._follow(changed, image)
        return ()

    def _follow(self, changed: Iterable[str], image: MetadataImage) -> None:
        before = dict(self._kept)
        for name in changed:
            partition = image.partition(name, _DECIDING_PARTITION)
            if name in self._enabled and partition is not None and partition.leader == self._node_id:
                self._kept[name] = _table_configs(image, name)
            else:
                self._kept.pop(name, None)
        if self._kept != before:
            self.process.assign(self._kept)

    @property
    def kept(self) -> list[str]:
        """The topics whose tables are kept here."""
        return sorted(self._kept)

    async def stop(self) -> None:
        await self.process.stop()


def _table_configs(image: MetadataImage, topic: str) -> dict[str, str]:
    configs = image.config(TOPIC_RESOURCE, topic)
    return {key: configs[key] for key in sorted(configs) if key.startswith(PREFIX)}
