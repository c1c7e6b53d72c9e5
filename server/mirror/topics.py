"""Topics of a link: made here with the source's ids, with as many partitions, and with its configs.

One broker does it, the coordinator of the link's group. Two at once do no harm: each step is one that is left out when it is
done.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
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
from .here import changed, of_mirror
from .portions import Portions

if TYPE_CHECKING:
    from ...protocol.messages.incremental_alter_configs import AlterConfigsResource
    from ...replication.mirror.link import Link
    from .here import Here
    from .source import SourceTopic

log = logging.getLogger("odradek.mirror")

#: Topics in one request to the controller.
MOST_AT_ONCE = 100
_TIMEOUT_MS = 30_000

#: Parts of a topic that follow, in words.
_PARTITIONS, _CONFIGS = "the number of partitions", "a config"

Configs = Mapping[str, str]


class LinkTopics:
    """The topics of one link."""

    def __init__(self, link: Link, here: Here) -> None:
        self._link = link
        self._here = here
        #: Why topics of the source are not followed, by their name here.
        self.refused: dict[str, str] = {}
        #: Parts of followed topics that do not follow, in words, with the reasons.
        self.unfollowed: dict[str, str] = {}
        self._making: Portions[SourceTopic] = Portions(MOST_AT_ONCE, lambda topic: topic.name)
        self._growing: Portions[SourceTopic] = Portions(MOST_AT_ONCE, lambda topic: topic.name)
        self._changing: Portions[AlterConfigsResource] = Portions(MOST_AT_ONCE, lambda one: one.resource_name)

    def missing(self, topics: Mapping[str, SourceTopic]) -> list[SourceTopic]:
        """Those of the source's topics that are to be made here next. A topic of another kind with the name is refused."""
        absent, names = [], set()
        for topic in topics.values():
            name = self._link.name_here(topic.name)
            names.add(name)
            if self._here.node.metadata.image.topic(name) is None:
                absent.append(topic)
            elif self._here.link_of(name) == self._link.name:
                self.refused.pop(name, None)
            else:
                self._refuse(name, "this cluster has a topic of this name that does not follow the link")
        for name in self.refused.keys() - names:
            del self.refused[name]
        return self._making.portion(absent)

    async def make(self, topics: list[SourceTopic], configs: Mapping[str, Configs], cluster_id: str) -> None:
        """Makes some topics; `configs`: those of the source, by its names. `cluster_id`: the source's."""
        asked = []
        for topic in topics:
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
        behind = [topic for topic in topics.values() if self._has_fewer(topic)]
        self._forget(_PARTITIONS, (self._link.name_here(topic.name) for topic in behind))
        if not behind:
            return
        wanted, noted = [], []
        for topic in self._growing.portion(behind):
            name, count = self._link.name_here(topic.name), len(topic.leaders)
            wanted.append(CreatePartitionsTopic(name=name, count=count, assignments=None))
            noted.append(of_mirror(self._link.name, name, changed(MIRROR_PARTITIONS, str(count))))
        await self._alter(noted, _PARTITIONS)
        request = CreatePartitionsRequest(topics=wanted, timeout_ms=_TIMEOUT_MS)
        response = await self._here.decide(request, request.newest_version(), CreatePartitionsResponse)
        for result in response.results:
            self._note(_PARTITIONS, result.name, result.error_code, result.error_message)

    def _has_fewer(self, topic: SourceTopic) -> bool:
        """Whether the mirror of a topic has fewer partitions than it."""
        name = self._link.name_here(topic.name)
        found = self._here.node.metadata.image.topic(name)
        is_mirror = found is not None and self._here.link_of(name) == self._link.name and self._is_same(name, topic)
        return is_mirror and found is not None and len(found.partitions) < len(topic.leaders)

    def _note(self, kind: str, topic: str, code: int, message: str | None) -> None:
        """Notes the outcome of a change to a mirror."""
        words = f"{kind} of topic {topic}"
        if not code:
            self.unfollowed.pop(words, None)
            return
        reason = message or ErrorCode(code).name
        if self.unfollowed.get(words) != reason:
            log.warning("link %s: %s is not followed: %s", self._link.name, words, reason)
        self.unfollowed[words] = reason

    def _forget(self, kind: str, behind: Iterable[str]) -> None:
        """Forgets reasons for topics that are not behind their sources any more."""
        kept = {f"{kind} of topic {name}" for name in behind}
        for words in [one for one in self.unfollowed if one.startswith(kind) and one not in kept]:
            del self.unfollowed[words]

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
            changes = [changed(key, wanted.get(key)) for key in FOLLOWED_CONFIGS if current.get(key) != wanted.get(key)]
            if changes:
                resources.append(of_mirror(self._link.name, name, *changes))
        self._forget(_CONFIGS, (resource.resource_name for resource in resources))
        if resources:
            await self._alter(self._changing.portion(resources), _CONFIGS)

    async def _alter(self, resources: list[AlterConfigsResource], kind: str) -> None:
        for result in await self._here.alter_configs(*resources):
            self._note(kind, result.resource_name, result.error_code, result.error_message)
