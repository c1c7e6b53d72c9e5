"""The persister of share groups: the shards of `__share_group_state` on this broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ...coordinator.persister_loader import PersisterLoader
from ...coordinator.persister_shard import PersisterShard, TopicsChanged
from ...coordinator.result import GroupRequest, Record
from ...coordinator.share_state import PersisterConfig, ShareKey
from ...coordinator.share_state_records import encode_record
from ...coordinator.share_state_responses import share_state_error_response
from ...metadata.image import MetadataImage
from ...metadata.internal_topics import SHARE_GROUP_STATE_TOPIC
from ...protocol.errors import ErrorCode
from ...protocol.messages.write_share_group_state import WriteShareGroupStateRequest
from ...protocol.records.compression import Compression
from ...protocol.schema import Message, Request
from ...protocol.uuids import uuid_to_text
from ..runtime.clock import Clock
from ..runtime.metadata_cache import MetadataCache
from .coordinator_driver import CoordinatorDriver
from .open_requests import Client, Pending
from .shard_driver import ShardDriver

if TYPE_CHECKING:
    from ...metadata.delta import MetadataDelta
    from ..config.broker_config import BrokerConfig
    from ..partitions.hosted_partition import HostedPartition
    from ..partitions.partitions import Partitions
    from ..runtime.lazy import Lazy
    from .topic_creation import TopicCreation


def coordinator_key(key: ShareKey) -> str:
    """Returns the coordinator key as clients of FindCoordinator send it."""
    return f"{key.group_id}:{uuid_to_text(key.topic_id)}:{key.partition}"


@dataclass(slots=True)
class PersisterCounters:
    """Counters of all shards of the broker. They only grow."""

    writes: int = 0


class ShareStateDriver(CoordinatorDriver["PersisterShardDriver"]):
    """The coordinators of share-group state on this broker."""

    topic = SHARE_GROUP_STATE_TOPIC
    partitions_key = "share.coordinator.state.topic.num.partitions"
    replication_key = "share.coordinator.state.topic.replication.factor"

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        partitions: Partitions,
        topic_creation: Lazy[TopicCreation],
        metadata: MetadataCache,
    ) -> None:
        super().__init__(config, clock, partitions, topic_creation)
        self._metadata = metadata
        self._pruning: asyncio.TimerHandle | None = None
        self.counters = PersisterCounters()

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if delta.topics.deleted and self._shards:
            changed = TopicsChanged(image, frozenset(delta.topics.deleted))
            for shard in self._shards.values():
                shard.topics_changed(changed)
        super().apply(delta, image)

    def stop(self) -> None:
        if self._pruning is not None:
            self._pruning.cancel()
        super().stop()

    def _topic_configs(self) -> dict[str, str]:
        config = self._config
        return {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "segment.bytes": str(config.get("share.coordinator.state.topic.segment.bytes")),
            "min.insync.replicas": str(config.get("share.coordinator.state.topic.min.isr")),
            "retention.ms": "-1",
        }

    def _not_here(self, request: Request, version: int) -> Message:
        return share_state_error_response(request, version, ErrorCode.NOT_COORDINATOR)

    def _new_shard(self, partition: HostedPartition) -> PersisterShardDriver:
        config = self._config
        if self._pruning is None:
            self._plan_pruning()
        return PersisterShardDriver(
            partition,
            PersisterConfig(
                config.get("share.coordinator.snapshot.update.records.per.snapshot"),
                config.get("share.coordinator.cold.partition.snapshot.interval.ms"),
            ),
            self._clock,
            config.get("share.coordinator.write.timeout.ms"),
            Compression(config.get("share.coordinator.state.topic.compression.codec")),
            self._metadata,
            self.counters,
        )

    # Pruning: records that newer snapshots make redundant are removed from the logs.

    def _plan_pruning(self) -> None:
        interval_ms = self._config.get("share.coordinator.state.topic.prune.interval.ms")
        self._pruning = asyncio.get_running_loop().call_later(interval_ms / 1000, self._prune)

    def _prune(self) -> None:
        self._plan_pruning()
        for shard in list(self._shards.values()):
            shard.prune()


class PersisterShardDriver(ShardDriver[PersisterShard]):
    """Drives the shard of one partition of `__share_group_state`, and removes redundant records from its log."""

    _encode: Callable[[Record], tuple[bytes, bytes | None]] = staticmethod(encode_record)
    _error_response: Callable[[Message, int, ErrorCode], Message] = staticmethod(share_state_error_response)

    def __init__(
        self,
        partition: HostedPartition,
        config: PersisterConfig,
        clock: Callable[[], int],
        commit_timeout_ms: int,
        compression: Compression,
        metadata: MetadataCache,
        counters: PersisterCounters,
    ) -> None:
        super().__init__(partition, config, clock, commit_timeout_ms, compression)
        self._metadata = metadata
        self._counters = counters
        #: Topics deleted while the log was loading.
        self._deleted: frozenset[bytes] = frozenset()

    def topics_changed(self, changed: TopicsChanged) -> None:
        """Applies topic deletions. While the log is loading, they are kept until the shard is loaded."""
        if self._shard is None:
            self._deleted |= changed.deleted
        else:
            self.tell(changed)

    def prune(self) -> None:
        shard, partition = self._shard, self.partition
        if shard is None:
            return
        redundant = shard.redundant()
        if redundant is not None and redundant.below > partition.log_start_offset:
            partition.when_committed(redundant.committed, partial(self._cut, shard, redundant.below))

    def _cut(self, shard: PersisterShard, below: int, error: int) -> None:
        """Removes the redundant records, unless the shard was dropped meanwhile: the log may then hold other records
        where its snapshots were.
        """
        if not error and self._shard is shard:
            self.partition.advance_log_start_offset(below)

    def _new_loader(self) -> PersisterLoader:
        return PersisterLoader(self._config, self.partition.name)

    def _loaded(self, loader: PersisterLoader) -> None:
        super()._loaded(loader)
        deleted, self._deleted = self._deleted, frozenset()
        self.tell(TopicsChanged(self._metadata.newest, deleted))

    def _message(self, pending: Pending, version: int, client: Client) -> GroupRequest:
        assert self._shard is not None, "the shard is not loaded"
        self._shard.state.image = self._metadata.newest
        self._counters.writes += type(pending.request) is WriteShareGroupStateRequest
        return GroupRequest(pending, pending.request, version)
