"""The settings of topics as their partitions obey them, and their changes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ...metadata.image import TOPIC_RESOURCE
from ..runtime.internal_topics import INTERNAL_TOPICS
from ..runtime.sliced_work import SlicedWork
from .batch_validation import append_rules

if TYPE_CHECKING:
    from ...metadata.image import MetadataImage
    from ...storage.log.config import LogConfig
    from ..config.broker_config import BrokerConfig
    from ..runtime.metadata_cache import MetadataCache
    from .batch_validation import AppendRules
    from .partitions import Partitions

log = logging.getLogger("odradek.partitions")

#: Topics whose logs have no remote part, whatever their configuration (KIP-405).
NEVER_TIERED = INTERNAL_TOPICS | {"__remote_log_metadata"}


class TopicSettings(NamedTuple):
    """A topic's configuration as its partitions use it; shared by them."""

    log_config: LogConfig
    rules: AppendRules


class SettingsByTopic:
    """The settings of all topics with partitions here. Topics that override nothing share one object."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._by_topic: dict[str, TopicSettings] = {}
        self._defaults = self._made({})

    def __contains__(self, topic: object) -> bool:
        return topic in self._by_topic

    def topics(self) -> list[str]:
        return list(self._by_topic)

    def of(self, image: MetadataImage, topic: str) -> TopicSettings:
        if topic not in self._by_topic:
            self.refresh(image, topic)
        return self._by_topic[topic]

    def refresh(self, image: MetadataImage, topic: str) -> bool:
        """Reads the settings of a topic. Returns whether they differ from the ones before."""
        overrides = image.config(TOPIC_RESOURCE, topic)
        settings = self._made(dict(overrides)) if overrides else self._defaults
        if settings.log_config.remote_storage and (settings.log_config.compact or topic in NEVER_TIERED):
            settings = settings._replace(log_config=replace(settings.log_config, remote_storage=False))
        before = self._by_topic.get(topic)
        self._by_topic[topic] = settings
        return settings != before

    def refresh_defaults(self) -> bool:
        """Reads the broker's defaults for topics. Returns whether they differ from the ones before."""
        before, self._defaults = self._defaults, self._made({})
        return self._defaults != before

    def forget(self, topic: str) -> None:
        self._by_topic.pop(topic, None)

    def _made(self, overrides: dict[str, str]) -> TopicSettings:
        config = self._config
        log_config = config.topic_log_config(overrides)
        validation = config.get("odradek.produce.validation")
        return TopicSettings(log_config, append_rules(config.topic_values(overrides), log_config, validation))


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
