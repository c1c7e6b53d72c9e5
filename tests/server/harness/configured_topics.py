"""The settings of topics on a broker, and partitions that get them."""

from __future__ import annotations

from pathlib import Path

from odradek.metadata.image import MetadataImage
from odradek.server.config.broker_config import BrokerConfig
from odradek.server.partitions.reconfiguration import Reconfiguration
from odradek.server.partitions.topic_settings import SettingsByTopic

from tests.server.harness.hosted import Hosted
from tests.server.harness.images import cache_of
from tests.server.harness.noted_partitions import NotedPartitions


class RefreshedPartition(Hosted):
    """Notes when it takes changed settings."""

    refreshed: list[str] | None = None

    def refresh_append_state(self) -> None:
        super().refresh_append_state()
        if self.refreshed is not None:
            self.refreshed.append(self.topic)


class ConfiguredTopics:
    """Partition 0 of each topic of the image. `refreshed`: the topics of the partitions that took changed settings."""

    def __init__(self, path: Path, image: MetadataImage, *indexes: int, **properties: str) -> None:
        self.config = BrokerConfig({key.replace("_", "."): value for key, value in properties.items()})
        self.settings = SettingsByTopic(self.config)
        self.metadata = cache_of(image)
        self.refreshed: list[str] = []
        self.partitions = NotedPartitions()
        self.reconfiguration = Reconfiguration(self.config, self.metadata, self.settings, self.partitions)
        for topic in image.topics.by_name.values():
            for index in indexes or (0,):
                hosted = RefreshedPartition(path, topic=topic.name, topic_id=topic.id, index=index)
                hosted.log.config, hosted.rules = self.settings.of(image, topic.name)
                hosted.refreshed = self.refreshed
                self.partitions.add(hosted)

    def change_default(self, **values: str) -> None:
        self.config.take_dynamic({key.replace("_", "."): value for key, value in values.items()}, {})

    def retention(self) -> dict[str, int]:
        return {hosted.topic: hosted.log.config.retention_ms for hosted in self.partitions}
