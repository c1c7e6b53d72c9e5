"""Changes of settings, handed to the partitions that they concern."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..runtime.sliced_work import SlicedWork

if TYPE_CHECKING:
    from ...metadata.image import MetadataImage
    from ..config.broker_config import BrokerConfig
    from ..runtime.metadata_cache import MetadataCache
    from .partitions import Partitions
    from .topic_settings import SettingsByTopic

log = logging.getLogger("odradek.partitions")


class Reconfiguration:
    """Hands changed settings to the partitions: at once for a topic, in slices for a default of many topics."""

    def __init__(
        self, config: BrokerConfig, metadata: MetadataCache, settings: SettingsByTopic, partitions: Partitions
    ) -> None:
        self._metadata = metadata
        self._settings = settings
        self._partitions = partitions
        self._slices = SlicedWork(self._failed)
        #: Topics some of whose partitions have not got the settings that the topic has.
        self._unfinished: set[str] = set()
        config.subscribe(self._broker_config_changed)

    def topic_changed(self, image: MetadataImage, topic: str) -> None:
        """Handles a change of the topic's own configuration."""
        if topic in self._settings:
            for _ in self._reconfigure(image, topic):
                pass

    def stop(self) -> None:
        self._slices.stop()

    def _broker_config_changed(self, _: frozenset[str]) -> None:
        """Reconfigures the topics that inherit a changed default. A change meanwhile begins anew."""
        if self._settings.refresh_defaults():
            self._slices.stop()
            self._slices.begin(self._reconfigure_all(), lambda: None)

    def _reconfigure_all(self) -> Iterator[None]:
        topics = self._settings.topics()
        self._unfinished.intersection_update(topics)
        for topic in topics:
            if topic in self._settings:
                yield from self._reconfigure(self._metadata.image, topic)
            yield

    def _reconfigure(self, image: MetadataImage, topic: str) -> Iterator[None]:
        if not self._settings.refresh(image, topic) and topic not in self._unfinished:
            return  # it overrides every default that changed
        self._unfinished.add(topic)
        found = image.topic(topic)
        for index in found.partitions if found is not None else ():
            hosted = self._partitions.get((topic, index))
            if hosted is not None:
                hosted.log.config, hosted.rules = self._settings.of(image, topic)
                hosted.refresh_append_state()
                yield
        self._unfinished.discard(topic)

    def _failed(self, failure: Exception) -> None:
        log.error("a bug: applying a changed default to topics failed", exc_info=failure)
