"""Topics of a link: made here with the source's ids, with as many partitions, and with its configs.

One broker does it, the coordinator of the link's group. Two at once do no harm: each step is one that is left out when it is
done.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...metadata.image import TOPIC_RESOURCE
from ...metadata.mirror_keys import (
    FOLLOWED_CONFIGS,
    MIRROR_NAME,
    MIRROR_ORIGINS,
    MIRROR_PARTITIONS,
    MIRROR_TOPIC_ID,
)
from ...protocol.errors import ErrorCode
from ...protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ...protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ...protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from ...replication.mirror.link import Link
    from .here import Here
    from .source import SourceTopic

log = logging.getLogger("odradek.mirror")

_CREATE_PARTITIONS_VERSION = CreatePartitionsRequest.newest_version()
_ALTER_CONFIGS_VERSION = IncrementalAlterConfigsRequest.newest_version()
#: Topics in one request to the controller.
MOST_AT_ONCE = 100
_TIMEOUT_MS = 30_000
_SET, _DELETE = 0, 1

Configs = Mapping[str, str]


class LinkTopics:
    """The topics of one link."""

    def __init__(self, link: Link, here: Here) -> None:
        self._link = link
        self._here = here
        #: Why topics of the source are not followed, by their name here.
        self.refused: dict[str, str] = {}

    def missing(self, topics: Mapping[str, SourceTopic]) -> list[SourceTopic]:
        """The source's topics that are to be made here. A topic of another kind with the name is refused."""
        absent = []
        for topic in topics.values():
            name = self._link.name_here(topic.name)
            if self._here.node.metadata.image.topic(name) is None:
                absent.append(topic)
            elif self._here.link_of(name) == self._link.name:
                self.refused.pop(name, None)
            else:
                self._refuse(name, "this cluster has a topic of this name that does not follow the link")
        return absent

    async def make(self, topics: list[SourceTopic], configs: Mapping[str, Configs], cluster_id: str) -> None:
        """Makes topics; `configs`: those of the source, by its names. `cluster_id`: the source's."""
        asked = []
        for topic in topics[:MOST_AT_ONCE]:
            own = dict(configs.get(topic.name, {}))
            origins = [cluster_id, *filter(None, own.pop(MIRROR_ORIGINS, "").split(","))]
            if self._here.node.identity.cluster_id in origins:
                self._refuse(self._link.name_here(topic.name), "its records come from this cluster: a circle")
            else:
                asked.append(self._creatable(topic, own | {MIRROR_ORIGINS: ",".join(origins)}))
        if not asked:
            return
        request = CreateTopicsRequest(topics=asked, timeout_ms=_TIMEOUT_MS)
        response = await self._here.decide(request, request.newest_version(), CreateTopicsResponse)
        for result in response.topics:
            if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                words = f"it cannot be made: {ErrorCode(result.error_code).name} ({result.error_message})"
                self._refuse(result.name, words)

    def _creatable(self, topic: SourceTopic, configs: Configs) -> CreatableTopic:
        own = {**configs, MIRROR_NAME: self._link.name, MIRROR_TOPIC_ID: topic.id_text}
        own[MIRROR_PARTITIONS] = str(len(topic.leaders))
        return CreatableTopic(
            name=self._link.name_here(topic.name),
            num_partitions=len(topic.leaders),
            replication_factor=self._link.replication_factor,
            configs=[CreatableTopicConfig(key, value) for key, value in own.items()],
        )

    def _refuse(self, name: str, reason: str) -> None:
        if self.refused.get(name) != reason:
            log.warning("link %s: topic %s is not followed: %s", self._link.name, name, reason)
        self.refused[name] = reason

    async def grow(self, topics: Mapping[str, SourceTopic]) -> None:
        """Makes the partitions that the source has beyond those here. The controller lets a mirror have as many as noted."""
        wanted, noted = [], []
        for topic in topics.values():
            name = self._link.name_here(topic.name)
            found = self._here.node.metadata.image.topic(name)
            if found is None or self._here.link_of(name) != self._link.name or not self._is_same(name, topic):
                continue
            if len(found.partitions) < len(topic.leaders):
                count = len(topic.leaders)
                wanted.append(CreatePartitionsTopic(name=name, count=count, assignments=None))
                noted.append(self._changes(name, [AlterableConfig(MIRROR_PARTITIONS, _SET, str(count))]))
        if wanted:
            await self._alter(noted[:MOST_AT_ONCE])
            request = CreatePartitionsRequest(topics=wanted[:MOST_AT_ONCE], timeout_ms=_TIMEOUT_MS)
            await self._here.decide(request, _CREATE_PARTITIONS_VERSION, CreatePartitionsResponse)

    def _is_same(self, name: str, topic: SourceTopic) -> bool:
        configs = self._here.node.metadata.image.config(TOPIC_RESOURCE, name)
        return configs.get(MIRROR_TOPIC_ID, "") == topic.id_text

    async def follow_configs(self, configs: Mapping[str, Configs]) -> None:
        """Changes the followed configs here to those of the source, by its names."""
        resources = []
        for topic, wanted in configs.items():
            name = self._link.name_here(topic)
            if self._here.link_of(name) != self._link.name:
                continue
            current = self._here.node.metadata.image.config(TOPIC_RESOURCE, name)
            changes = [
                AlterableConfig(key, _DELETE if key not in wanted else _SET, wanted.get(key))
                for key in FOLLOWED_CONFIGS
                if current.get(key) != wanted.get(key)
            ]
            if changes:
                resources.append(self._changes(name, changes))
        if resources:
            await self._alter(resources[:MOST_AT_ONCE])

    def _changes(self, topic: str, changes: list[AlterableConfig]) -> AlterConfigsResource:
        """Changes of a mirror by its link, which they name."""
        configs = [*changes, AlterableConfig(MIRROR_NAME, _SET, self._link.name)]
        return AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=configs)

    async def _alter(self, resources: list[AlterConfigsResource]) -> None:
        request = IncrementalAlterConfigsRequest(resources=resources)
        response = await self._here.decide(request, _ALTER_CONFIGS_VERSION, IncrementalAlterConfigsResponse)
        for result in response.responses:
            if result.error_code:
                words = f"its configs cannot follow: {result.error_message or ErrorCode(result.error_code).name}"
                log.warning("link %s: topic %s: %s", self._link.name, result.resource_name, words)
