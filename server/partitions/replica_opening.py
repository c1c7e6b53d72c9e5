"""The opening of replicas' logs."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ...replication.isr import UNKNOWN_BROKER_EPOCH, IsrProposal
from ...replication.partition import Partition
from .hosted_partition import HostedPartition
from .replicas_on_disk import report_opening

if TYPE_CHECKING:
    from ...metadata.image import MetadataImage
    from ...protocol.records.errors import BatchError
    from ...storage.directory import LogDirectory
    from ..runtime.clock import Clock
    from ..runtime.counters import Metrics
    from ..runtime.metadata_cache import MetadataCache
    from ..runtime.thread_pools import ThreadPools
    from .partitions import Partitions
    from .replica import Replica
    from .topic_settings import SettingsByTopic


class IsrRules(NamedTuple):
    """The rules of leaders here for their ISRs. `propose` hands a change to the controller."""

    metadata: MetadataCache
    lag_time_max_ms: int
    propose: Callable[[Replica, IsrProposal], None]

    def may_join(self, broker_id: int, broker_epoch: int) -> bool:
        """Returns whether a broker may be in sync: it is active, and the process that fetches is the registered one
        (KIP-903).
        """
        found = self.metadata.image.broker(broker_id)
        return found is not None and found.is_active and broker_epoch in (UNKNOWN_BROKER_EPOCH, found.epoch)


class ReplicaOpening:
    """Opens logs, and adds their replicas to the partitions.

    `on_damage` is called for each read that meets damaged records.
    """

    def __init__(
        self,
        node_id: int,
        clock: Clock,
        metrics: Metrics,
        pools: ThreadPools,
        settings: SettingsByTopic,
        partitions: Partitions,
        isr_rules: IsrRules,
        on_damage: Callable[[Any, BatchError], None],
    ) -> None:
        self._node_id = node_id
        self._clock = clock
        self._metrics = metrics
        self._pools = pools
        self._settings = settings
        self._partitions = partitions
        self._isr_rules = isr_rules
        self._on_damage = on_damage

    def open(
        self, directory: LogDirectory, image: MetadataImage, topic: str, index: int, high_watermark: int
    ) -> HostedPartition:
        """Raises LogDirectoryFailure."""
        settings, found = self._settings.of(image, topic), image.topics.by_name[topic]
        opened = directory.open_log(
            topic,
            index,
            settings.log_config,
            now_ms=self._clock.now_ms(),
            is_replicated=len(found.partitions[index].replicas) > 1,
            jitter=random.random(),
        )
        report_opening(opened)
        end = opened.log_end_offset
        role = Partition(self._node_id, end, max(opened.log_start_offset, min(high_watermark, end)))
        counters, failed = self._metrics.topic(topic), self._partitions.directory_failed
        hosted = HostedPartition(found.id, opened, role, directory, settings.rules, counters, self._pools, failed)
        hosted.on_proposal = self._isr_rules.propose
        hosted.on_damage = self._on_damage
        role.may_join, role.lag_time_max_ms = self._isr_rules.may_join, self._isr_rules.lag_time_max_ms
        self._partitions.add(hosted)
        return hosted

    def forget_topic(self, name: str) -> None:
        """Drops what is kept of a topic that was deleted."""
        self._settings.forget(name)
        self._metrics.drop_topic(name)
