"""The opening of replicas' logs."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ...replication.isr import UNKNOWN_BROKER_EPOCH
from ...replication.replica_role import ReplicaRole
from .hosted_partition import HostedPartition
from .replicas_on_disk import report_opening

if TYPE_CHECKING:
    from ...metadata.image import MetadataImage
    from ...protocol.records.errors import BatchError
    from ...replication.isr import IsrProposal
    from ...storage.directory import LogDirectory, ReplicaDirectory
    from ...storage.files.clean_replicas import CleanReplica
    from ...storage.log.config import LogConfig
    from ...storage.log.log import Log
    from ...storage.log.small_log import SeenReplica
    from ...storage.log.unopened import UnopenedLog
    from ..runtime.metadata_cache import MetadataCache
    from ..runtime.node import Node
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
        node: Node,
        settings: SettingsByTopic,
        partitions: Partitions,
        isr_rules: IsrRules,
        on_damage: Callable[[HostedPartition, BatchError], None],
    ) -> None:
        self._node_id = node.identity.node_id
        self._clock = node.clock
        self._metrics = node.metrics
        self._pools = node.pools
        self._settings = settings
        self._partitions = partitions
        self._isr_rules = isr_rules
        self._on_damage = on_damage

    def open(self, directory: LogDirectory, image: MetadataImage, topic: str, index: int) -> HostedPartition:
        """Opens the log of a new replica. Raises LogDirectoryFailure."""
        opened = self.read(directory, image, topic, index, self.log_config(image, topic))
        report_opening(opened)
        return self.host(directory, image, opened, 0)

    def log_config(self, image: MetadataImage, topic: str) -> LogConfig:
        return self._settings.of(image, topic).log_config

    def read(
        self,
        directory: LogDirectory,
        image: MetadataImage,
        topic: str,
        index: int,
        config: LogConfig,
        noted: CleanReplica | None = None,
    ) -> Log | UnopenedLog:
        """Opens a log. `noted`: see LogDirectory.open_log. Any thread may call it. Raises LogDirectoryFailure."""
        return directory.find_log(
            topic,
            index,
            config,
            now_ms=self._clock.now_ms(),
            is_replicated=len(image.topics.by_name[topic].partitions[index].replicas) > 1,
            noted=noted,
            jitter=random.random(),
        )

    def open_seen(
        self,
        directory: LogDirectory,
        image: MetadataImage,
        replica: ReplicaDirectory,
        seen: SeenReplica,
        *,
        is_replicated: bool,
    ) -> UnopenedLog | None:
        """Opens a log by its result of `LogDirectory.look_at`; None where `read` has to look at its files."""
        config, now_ms = self.log_config(image, replica.topic), self._clock.now_ms()
        return directory.open_seen(
            replica, config, seen, now_ms=now_ms, is_replicated=is_replicated, jitter=random.random()
        )

    def host(
        self, directory: LogDirectory, image: MetadataImage, opened: Log | UnopenedLog, high_watermark: int
    ) -> HostedPartition:
        """Adds the replica that has the log."""
        topic, end = opened.topic, opened.log_end_offset
        settings, topic_id = self._settings.of(image, topic), image.topics.by_name[topic].id
        opened.config = settings.log_config  # it may have changed while a thread opened the log
        known = end if high_watermark >= end else max(opened.local_log_start_offset, high_watermark)
        role = ReplicaRole(self._node_id, end, known)
        counters = self._metrics.topic(topic)
        hosted = HostedPartition(topic_id, opened, role, directory, settings.rules, counters, self._pools)
        hosted.on_failure = self._partitions.directory_failed
        hosted.on_proposal = self._isr_rules.propose
        hosted.on_damage = self._on_damage
        role.may_join, role.lag_time_max_ms = self._isr_rules.may_join, self._isr_rules.lag_time_max_ms
        self._partitions.add(hosted)
        return hosted

    def forget_topic(self, name: str) -> None:
        """Drops what is kept of a topic that was deleted."""
        self._settings.forget(name)
        self._metrics.drop_topic(name)
