"""The group coordinators on this broker: one shard for each partition of `__consumer_offsets` that it leads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING

from ...metadata.internal_topics import GROUP_METADATA_TOPIC
from ...protocol.errors import ErrorCode
from ...protocol.records.compression import Compression
from ...protocol.schema import Message, Request
from ..runtime.late_imports import GROUP_MODULES, LateImports, is_loaded
from .coordinator_driver import DYNAMIC_PREFIX, GROUP_RECORD_OVERHEAD_BYTES, HAND_OVER_S, CoordinatorDriver

if TYPE_CHECKING:
    from ...coordinator.groups.group_counters import GroupCounters
    from ...coordinator.groups.kinds import Kinds
    from ...coordinator.groups_config import GroupsConfig
    from ...metadata.delta import MetadataDelta, Part
    from ...metadata.image import MetadataImage
    from ..config.broker_config import BrokerConfig
    from ..partitions.hosted_partition import HostedPartition
    from ..partitions.partitions import Partitions
    from ..partitions.transaction_marker import Marker
    from ..runtime.clock import Clock
    from ..runtime.lazy import Lazy
    from ..runtime.metadata_cache import MetadataCache
    from .group_shard_driver import GroupShardDriver
    from .topic_creation import TopicCreation


class GroupDriver(CoordinatorDriver["GroupShardDriver"]):
    """The group coordinators' interface for the rest of the broker.

    A request gets NOT_COORDINATOR where another broker leads its group's partition, and COORDINATOR_LOAD_IN_PROGRESS until
    the shard has read the partition; a callback comes when the records of the decision are committed.
    """

    topic = GROUP_METADATA_TOPIC
    partitions_key = "offsets.topic.num.partitions"
    replication_key = "offsets.topic.replication.factor"

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        partitions: Partitions,
        topic_creation: Lazy[TopicCreation],
        metadata: MetadataCache,
        late_imports: LateImports,
    ) -> None:
        super().__init__(config, clock, partitions, topic_creation)
        self._late_imports = late_imports
        self._metadata = metadata
        #: The parts of the metadata that coordinators follow. The first group that is assigned partitions of topics adds
        #: the topics.
        self.interest: set[Part] = {"internal_topics", "deleted_topics", "features"}
        #: Whether the shards' modules have been imported; None before that begins.
        self._imports: bool | None = None
        config.subscribe(self._config_changed)

    @cached_property
    def kinds(self) -> Kinds:
        """The kinds of groups that the shards of this broker have met."""
        from .group_kinds import broker_kinds

        return broker_kinds()

    @cached_property
    def counters(self) -> GroupCounters:
        from ...coordinator.groups.group_counters import GroupCounters

        return GroupCounters()

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if self._shards and "topics" in self.interest and delta.topics:
            from ...coordinator.result import MetadataChanged

            changed = MetadataChanged(image, _changed_topics(delta))
            for shard in self._shards.values():
                shard.metadata_changed(changed)
        super().apply(delta, image)

    def _awaits_imports(self) -> bool:
        """The first shards wait until their modules are imported. Whatever becomes of that, it is not tried again."""
        if self._imports is None:
            self._imports = is_loaded(GROUP_MODULES)
            if not self._imports:
                self._late_imports.when_loaded(GROUP_MODULES, self._imported)
        return not self._imports

    def _imported(self) -> None:
        self._imports = True
        self.take_up(self._metadata.image)

    def _config_changed(self, names: frozenset[str]) -> None:
        if any(name.startswith(DYNAMIC_PREFIX) for name in names):
            for shard in self._shards.values():
                shard.reconfigure(self._config_for(shard.partition))

    def _config_for(self, partition: HostedPartition) -> GroupsConfig:
        from .group_configs import groups_config

        return groups_config(self._config, partition.rules.max_message_bytes - GROUP_RECORD_OVERHEAD_BYTES)

    async def hand_over(self) -> None:
        """Has all shards write what the next coordinators are to know, before a planned stop moves their partitions. Returns
        when that is committed, at the latest after HAND_OVER_S: without it sessions start anew.
        """
        waiting, committed = set(self._shards), asyncio.Event()

        def done(index: int, error: int) -> None:
            waiting.discard(index)
            if not waiting:
                committed.set()

        for index, shard in list(self._shards.items()):
            shard.hand_over(partial(done, index))
        if waiting:
            with suppress(TimeoutError):
                async with asyncio.timeout(HAND_OVER_S):
                    await committed.wait()

    def end_transaction(self, index: int, marker: Marker, done: Callable[[int], None]) -> None:
        """Writes a marker into a partition of the topic and applies it to the shard. `done` gets an error code, or 0."""
        shard = self._shards.get(index)
        if shard is None:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            shard.end_transaction(marker, done)

    def _topics_deleted(self, deleted: dict[str, bytes]) -> None:
        if not self._shards:
            return
        from ...coordinator.result import TopicsDeleted

        message = TopicsDeleted(deleted)
        for shard in self._shards.values():
            shard.topics_deleted(message)

    def _topic_configs(self) -> dict[str, str]:
        return {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(self._config.get("offsets.topic.segment.bytes")),
        }

    def _not_here(self, request: Request, version: int) -> Message:
        from ...coordinator.groups.shard import group_error_response
        from ...coordinator.groups.validation import validate
        from .group_configs import groups_config

        error = validate(groups_config(self._config), request, version)
        return group_error_response(self.kinds, request, version, error or ErrorCode.NOT_COORDINATOR)

    def _new_shard(self, partition: HostedPartition) -> GroupShardDriver:
        from .group_shard_driver import GroupShardDriver, SharedByShards

        config = self._config
        return GroupShardDriver(
            partition,
            self._config_for(partition),
            self._clock,
            config.get("offsets.commit.timeout.ms"),
            Compression(config.get("offsets.topic.compression.codec")),
            SharedByShards(self._metadata, self.kinds, self.interest, self.counters),
        )


def _changed_topics(delta: MetadataDelta) -> frozenset[str]:
    """Returns the names of topics that were created, deleted, or have changed partitions."""
    changed = {topic.before.name for topic in delta.topics.changed.values()}
    return frozenset(changed | {topic.name for topic in delta.topics.deleted.values()})
