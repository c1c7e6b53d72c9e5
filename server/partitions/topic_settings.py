"""The settings of topics as their partitions obey them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ...metadata.image import TOPIC_RESOURCE
from ...metadata.internal_topics import INTERNAL_TOPICS, REMOTE_LOG_METADATA_TOPIC
from .append_rules import append_rules

if TYPE_CHECKING:
    from ...metadata.image import MetadataImage
    from ...storage.log.config import LogConfig
    from ..config.broker_config import BrokerConfig
    from .append_rules import AppendRules

#: Topics whose logs have no remote part, whatever their configuration (KIP-405).
NEVER_TIERED = INTERNAL_TOPICS | {REMOTE_LOG_METADATA_TOPIC}


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
